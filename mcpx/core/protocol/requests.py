"""Requests as a session with a server takes them, a closed union of frozen structs; and their context.

The pipeline makes them of what clients ask of MCPX, which is in `mcpx.core.protocol.messages`.

What is to be sent is JSON already: arguments pass from the client to the server as the bytes they came in.
The answer to each is the raw JSON of the result (`msgspec.Raw`). The context of a request travels with it
from the frontend to the server. The garbage collector tracks them: a context leads to the connection that
keeps it, and through an untracked one no client that has left would ever be freed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from mcpx.core.catalog.model import ToolChange
from mcpx.core.policy.changed_calls import arguments_sent
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.protocol.context import Caller, ClientId, InputAnswers, Origin
from mcpx.core.wire.envelope import Bytes, RequestId

if TYPE_CHECKING:
    from mcpx.core.protocol.call_trace import CallTrace


# --- passthrough: whom a session delivers a server's messages to

OnAnswer = Callable[[msgspec.Raw], None]
"""Called once with an answer: the member `"result":...` or `"error":...` of its message, in JSON. Must not
raise."""
Cancel = Callable[[msgspec.Raw], None]
"""Cancels a request of the server; called with the params of the server's `notifications/cancelled`."""


class Peer(Protocol):
    """Takes a server's messages for a client. No method may wait or raise."""

    @property
    def is_local(self) -> bool:
        """True if the client's person is at this machine, and it came with no token of a name."""

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Send a notification; `params` is empty where there are none."""

    def ask(self, method: str, params: msgspec.Raw, on_answer: OnAnswer) -> Cancel:
        """Send a request of the server."""


OnProgress = Callable[[bytes], None]
"""Called with the params of a progress notification: the members in JSON as they came, without the braces and
the token. Must not raise."""


class Watched:
    """A call as whoever watches calls has it: one for all requests that are the same call."""

    __slots__ = ("call",)

    def __init__(self) -> None:
        self.call: Any = None


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a request. All of it is empty for a program that uses MCPX as a library."""

    client: ClientId | None = None
    """The client whose session it uses, with a server that has one for each client."""
    caller: Caller | None = None
    """The client behind it, which can be asked and notified while it runs."""
    answers: InputAnswers | None = None
    """The answers that a client adds to a request that it repeats."""
    on_progress: OnProgress | None = None
    meta: bytes = b""
    """What the client wrote into `_meta` for the server: the members in JSON, without the braces."""
    origin: Origin | None = None
    """Who asks, and at which profile; None for a program that uses MCPX as a library."""
    policy: ServerPolicy | None = None
    """That of the clients of its profile, where that narrows the server's: it holds for what waits, too."""
    fresh: bool = False
    """Whether the server is asked though a result may be kept that answers it (`cache`)."""
    own: bool = False
    """Whether MCPX made it for itself: its answer does not show that the server does its work."""
    trace: CallTrace | None = None
    """Its spans; None where calls are not traced."""
    watched: Watched | None = None
    """The call that it belongs to; None where nobody watched calls as it came in."""

    @property
    def project(self) -> str:
        """The folder of the client's project; "" for none."""
        return (self.client.project if self.client is not None else None) or ""


NO_CONTEXT: Final = RequestContext()
INTERNAL_CONTEXT: Final = RequestContext(own=True)


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """Members of every request."""

    safe: bool = True
    """Whether running it twice does no harm: then it may be sent once more after a lost connection."""
    turned_away: bool = False
    """Whether a session that was over has refused it unread; it is sent again after that once only."""
    context: RequestContext = NO_CONTEXT


class Recorded(Protocol):
    """The record of a call."""

    def from_cache(self, size: int) -> None:
        """Note that the call is answered with a result that was kept, of so many bytes."""


class CallTool(_Request, frozen=True):
    """Run a tool. `arguments` is the JSON of an object that has been checked."""

    name: str
    """The name that its server has for the tool."""
    arguments: bytes | msgspec.Raw
    """As the client gave them."""
    change: ToolChange | None = None
    """The difference between the tool that the client called and that of the server, if there is one."""
    approved: bytes | None = None
    """The digest of the form in which a person has agreed to the tool, if one was asked."""
    read_only: bool = False
    """Whether it is only to be sent if the tool is read-only."""
    record: Recorded | None = None

    method = "tools/call"

    @property
    def sent(self) -> bytes | msgspec.Raw:
        """The arguments as the server gets them."""
        if self.change is None:
            return self.arguments
        return arguments_sent(self.change, self.arguments, self.context.project)

    def params(self) -> list[Bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        given = self.arguments if self.change is None else self.sent
        arguments = given if isinstance(given, bytes) else memoryview(given)
        return [b'"name":', msgspec.json.encode(self.name), b',"arguments":', arguments]


class _AboutResource(_Request, frozen=True):
    """A request that names one resource and nothing else."""

    uri: str

    def params(self) -> list[Bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"uri":', msgspec.json.encode(self.uri)]


class ReadResource(_AboutResource, frozen=True):
    """Read a resource; or by another `method` a folder of resources, or the entry of a skill."""

    method: str = "resources/read"
    cursor: str | None = None
    """Of the page of a folder; None for the first, and for what has no pages."""

    def params(self) -> list[Bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        named = super().params()
        return named if self.cursor is None else [*named, b',"cursor":', msgspec.json.encode(self.cursor)]


class GetPrompt(_Request, frozen=True):
    """Get a prompt. `arguments` is the JSON of an object, or nothing."""

    name: str
    arguments: bytes = b""

    method = "prompts/get"

    def params(self) -> list[Bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        named: list[Bytes] = [b'"name":', msgspec.json.encode(self.name)]
        return [*named, b',"arguments":', self.arguments] if self.arguments else named


class Complete(_Request, frozen=True):
    """Complete an argument. All three are the JSON of an object; `resolved` may be empty."""

    ref: bytes
    argument: bytes
    resolved: bytes = b""
    """The protocol's `context`: arguments that have their values already."""

    method = "completion/complete"

    def params(self) -> list[Bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        members: list[Bytes] = [b'"ref":', self.ref, b',"argument":', self.argument]
        return [*members, b',"context":', self.resolved] if self.resolved else members


class Subscribe(_AboutResource, frozen=True):
    """Subscribe to changes of one resource (before 2026-07-28)."""

    method = "resources/subscribe"


class Unsubscribe(_AboutResource, frozen=True):
    """End such a subscription (before 2026-07-28)."""

    method = "resources/unsubscribe"


class TaskRequest(_Request, frozen=True):
    """Get a task, answer what it asks for, or cancel it (`TASK_METHODS`).

    The answers are those of the context.
    """

    method: str
    task_id: str
    more: bytes = b""
    """Further members of the params, in JSON, without the braces."""

    def params(self) -> list[Bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        named: list[Bytes] = [b'"taskId":', msgspec.json.encode(self.task_id)]
        return [*named, b",", self.more] if self.more else named


class Passed(_Request, frozen=True):
    """Any request of a client, as it came: for a direct session, which answers with the answer as it came."""

    method: str
    raw: msgspec.Raw | bytes
    """The params in JSON, or nothing."""
    id: RequestId
    """The client's own."""
    origin: Peer
    """What takes the messages of the server that belong to this request."""
    tool: str | None = None
    """The tool that it calls, for error messages."""
    admit: Callable[[Passed], Passed] | None = None
    """Gives it as it may be sent, or raises the `CallError` that it fails with. Called each time before it is
    sent: it may have waited, while other rules were put in force."""

    def as_admitted(self) -> Passed:
        """The request as it may be sent now.

        Raises:
            CallError: It may not.
        """
        return self if self.admit is None else self.admit(self)

    def params(self) -> list[Bytes]:
        """The params, whole."""
        return [bytes(self.raw)]


Request = CallTool | ReadResource | GetPrompt | Complete | Subscribe | Unsubscribe | TaskRequest | Passed


def size_of(request: Request) -> int:
    """The size of its arguments in bytes."""
    if isinstance(request, Passed):
        return len(request.raw)
    return len(request.arguments) if isinstance(request, CallTool | GetPrompt) else 0


def tool_of(request: Request) -> str | None:
    """The name of the tool, for error messages; None for anything that is not a call."""
    if isinstance(request, Passed):
        return request.tool
    if not isinstance(request, CallTool):
        return None
    return request.name if request.change is None else request.change.name

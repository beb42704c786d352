"""Questions to a person: the calls that they are about, the request that carries one, the refusals."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal, Protocol

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.policy.approval_form import KEY, CallShown, Decision
from mcpx.core.policy.asked_arguments import Arguments, Unreadable, check
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.rendering.result_reading import INPUT_REQUIRED, InputRequired
from mcpx.core.text import shown_name, shown_server
from mcpx.errors import CallError, Code

PREFIX: Final = "mcpx-approval-"
"""The prefix of the `requestState`s that are made here."""
SECRET_BYTES: Final = 18
CANNOT_ASK: Final = "this client cannot be asked"
_FORM: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


class Answers(Protocol):
    """The addition to a request that a client repeats (`mcpx.core.protocol.context.InputAnswers`)."""

    @property
    def state(self) -> str | None: ...

    @property
    def responses(self) -> bytes | msgspec.Raw: ...


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may need a person's approval. `rule` says why it does, None that it does not.

    `client` is the identity of the client, and `session` the same where it has a session to agree for.
    `for_all` says whether the person behind the client may agree for all clients. `arguments` is the JSON
    that is to be sent, and `given` the message that they came in, where something else has read it before;
    `answers` is what the client has brought. `asks_likewise` says that the server is at
    another MCPX, whose own states look like ours.
    """

    client: Hashable
    session: Hashable | None
    can_be_asked: bool
    for_all: bool
    policy: ServerPolicy
    tool: ToolInfo
    arguments: bytes | msgspec.Raw
    rule: str | None
    given: bytes | msgspec.Raw = b""
    answers: Any = None
    asks_likewise: bool = False

    def read(self) -> Arguments:
        """The arguments, for a person.

        Raises:
            CallError: `invalid_arguments`: they cannot be read to their end, or in more than one way.
        """
        try:
            arguments = Arguments.read(bytes(self.arguments))
            if self.given:
                check(bytes(self.given))
        except Unreadable as why:
            text = f"A person is asked before this tool runs, and the arguments {why}: they could be shown"
            text = f"{text} another call than the server gets. Nothing was sent; send plain JSON"
            raise self.failure(Code.INVALID_ARGUMENTS, text) from None
        return arguments

    def shown(self) -> CallShown:
        """The call as a person is asked about it."""
        server, tool, pins = self.tool.server_name, self.tool.name, self.policy.pins
        changes = () if pins is None else pins.changes()
        own = self.tool.own.name
        change = next((each.summary() for each in changes if each.tool == own), None)
        return CallShown(server=server, tool=tool, rule=self.rule or "", change=change, for_all=self.for_all)

    def failure(self, code: Code, text: str, **details: Any) -> CallError:
        """An error of this call."""
        names = self.tool
        return CallError(code, text, server=names.server_name, tool=names.name, details=details)

    def not_approved(self, why: str, *, is_refusal: bool = False) -> NotApproved:
        """`not_approved`; unless a person has refused, it says how they can allow the tool."""
        return NotApproved(self, why, is_refusal=is_refusal)


class NotApproved(CallError):
    """No person has agreed to a call; `is_refusal` where one has refused."""

    def __init__(self, call: ApprovalRequest, why: str, *, is_refusal: bool) -> None:
        server, tool = call.tool.server_name, call.tool.name
        named = f"{shown_name(tool)} of {shown_server(server)}"
        text = f"{named} runs only when a person agrees ({call.rule}): {why}. Nothing was sent."
        details = {"rule": call.rule}
        if not is_refusal:
            details["approve"] = command = _command(call)
            text = f"{text} Tell the user: {command} allows it"
        super().__init__(Code.NOT_APPROVED, text, server=server, tool=tool, details=details)
        self.is_refusal = is_refusal


def _command(call: ApprovalRequest) -> str:
    """The command by which a person allows the tool; without its name where that cannot be typed."""
    name, pins = call.tool.own.name, call.policy.pins
    typed = [name] if name.isprintable() and not name.startswith("-") else []
    if pins is None:
        return shlex.join(["mcpx", "approve", call.tool.server_name, *typed])
    return pins.command(*typed)


class Question(msgspec.Struct, eq=False, kw_only=True):
    """A question about a call, and later what is known of the call that was approved.

    `open` until it is answered; then the call is `running`, or waits for `input` that its server wants.
    `answers` is what the client had brought for the server before it was asked. In the stage `input`, `state`
    stands for the server's own `server_state`.
    """

    client: Hashable
    policy: ServerPolicy
    tool: ToolInfo
    arguments: bytes
    """Their digest."""
    rule: str | None
    expires: float
    state: str
    answers: Any = None
    can_show_more: bool = False
    """Whether the person may ask to see all arguments first."""
    stage: Literal["open", "running", "input"] = "open"
    by: Decision | None = None
    server_state: str | None = None
    withdraw: Callable[[], None] | None = None
    """Ends the wait for the answer, where there is one: another answer has decided. Must not raise."""

    def is_of(self, call: ApprovalRequest, arguments: bytes) -> bool:
        """Return True if a repeated request is for this very call."""
        return (
            self.client is call.client
            and self.policy is call.policy
            and self.tool.name == call.tool.name
            and self.arguments == arguments
            and form_of(self.tool) == form_of(call.tool)
        )


class ApprovalRequired(InputRequired):
    """A person is to be asked before a call is sent: an error for callers that cannot ask.

    `params` are those of the elicitation; the person may take `within_s` seconds.
    """

    def __init__(self, call: ApprovalRequest, question: Question, params: JSON, within_s: float) -> None:
        refusal = call.not_approved(CANNOT_ASK)
        names = call.tool
        CallError.__init__(  # not the text and the code of a server that wants input
            self,
            refusal.code,
            str(refusal),
            server=names.server_name,
            tool=names.name,
            details=refusal.details,
        )
        self.question = question
        self.params = params
        self.within_s = within_s
        self.result = {
            "resultType": INPUT_REQUIRED,
            "inputRequests": {KEY: {"method": "elicitation/create", "params": params}},
            "requestState": question.state,
        }


def form_of(tool: ToolInfo) -> bytes:
    """The digest of what a person agrees to when they agree to a tool."""
    tool = tool.own
    kept: bytes | None = tool.__dict__.get("form_digest")
    if kept is None:
        given = tool.to_protocol()
        members = {name: given[name] for name in _FORM if name in given}
        written = msgspec.json.encode(members, order="deterministic")
        kept = tool.__dict__["form_digest"] = hashlib.sha256(written).digest()
    return kept


def new_state() -> str:
    """A `requestState` that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)

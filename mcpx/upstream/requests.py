"""The messages that an upstream actor takes: a closed union of frozen structs.

What is to be sent is JSON already: arguments pass from the client to the server as the bytes they came in.
The answer to each is the raw JSON of the result (`msgspec.Raw`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

OnProgress = Callable[[float, float | None, str | None], None]
"""Told of progress: done so far, the total where it is known, a text. Must not raise."""


class CallTool(msgspec.Struct, frozen=True):
    """Run a tool. `arguments` is the JSON of an object that has been checked.

    `safe` says that running it twice does no harm: then it may be sent once more after a lost connection.
    """

    name: str
    arguments: bytes | msgspec.Raw
    on_progress: OnProgress | None = None
    safe: bool = False

    method = "tools/call"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"name":', msgspec.json.encode(self.name), b',"arguments":', bytes(self.arguments)]


class ReadResource(msgspec.Struct, frozen=True):
    """Read a resource."""

    uri: str
    safe: bool = True
    on_progress: OnProgress | None = None

    method = "resources/read"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"uri":', msgspec.json.encode(self.uri)]


class GetPrompt(msgspec.Struct, frozen=True):
    """Get a prompt. `arguments` is the JSON of an object, or nothing."""

    name: str
    arguments: bytes = b""
    safe: bool = True
    on_progress: OnProgress | None = None

    method = "prompts/get"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        named = [b'"name":', msgspec.json.encode(self.name)]
        return [*named, b',"arguments":', self.arguments] if self.arguments else named


class Complete(msgspec.Struct, frozen=True):
    """Complete an argument. All three are the JSON of an object; `context` may be nothing."""

    ref: bytes
    argument: bytes
    context: bytes = b""
    safe: bool = True
    on_progress: OnProgress | None = None

    method = "completion/complete"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        members = [b'"ref":', self.ref, b',"argument":', self.argument]
        return [*members, b',"context":', self.context] if self.context else members


class Subscribe(msgspec.Struct, frozen=True):
    """Ask to be told of changes of one resource (before 2026-07-28)."""

    uri: str
    safe: bool = True
    on_progress: OnProgress | None = None

    method = "resources/subscribe"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"uri":', msgspec.json.encode(self.uri)]


class Unsubscribe(msgspec.Struct, frozen=True):
    """Ask to be told no more (before 2026-07-28). Not worth sending again: a lost session ends it too."""

    uri: str
    safe: bool = False
    on_progress: OnProgress | None = None

    method = "resources/unsubscribe"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"uri":', msgspec.json.encode(self.uri)]


Request = CallTool | ReadResource | GetPrompt | Complete | Subscribe | Unsubscribe


def tool_of(request: Request) -> str | None:
    """The name of the tool, for error messages; None for anything that is not a call."""
    return request.name if isinstance(request, CallTool) else None

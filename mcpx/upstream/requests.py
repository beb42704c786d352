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
    `turned_away` says that a session which was over has turned it away, unread: that happens once only.
    """

    name: str
    arguments: bytes | msgspec.Raw
    on_progress: OnProgress | None = None
    safe: bool = False
    turned_away: bool = False

    method = "tools/call"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"name":', msgspec.json.encode(self.name), b',"arguments":', bytes(self.arguments)]


class ReadResource(msgspec.Struct, frozen=True):
    """Read a resource."""

    uri: str
    safe: bool = True
    on_progress: OnProgress | None = None
    turned_away: bool = False

    method = "resources/read"

    def params(self) -> list[bytes]:
        """The members of the request's `params`, in JSON, without the braces."""
        return [b'"uri":', msgspec.json.encode(self.uri)]


Request = CallTool | ReadResource


def tool_of(request: Request) -> str | None:
    """The name of the tool, for error messages; None for anything that is not a call."""
    return request.name if isinstance(request, CallTool) else None

"""The messages that an upstream actor takes: a closed union of frozen structs."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class OnProgress(Protocol):
    """Told of progress: done so far, the total where it is known, a text."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class CallTool(msgspec.Struct, frozen=True):
    """Run a tool; the answer is the raw result of tools/call. The arguments have been checked.

    `safe` says that running it twice does no harm: then it may be sent once more after a lost connection.
    """

    name: str
    arguments: dict[str, Any]
    on_progress: OnProgress | None = None
    safe: bool = False


class ReadResource(msgspec.Struct, frozen=True):
    """Read a resource; the answer is the raw result of resources/read."""

    uri: str
    safe: bool = True


Request = CallTool | ReadResource


def tool_of(request: Request) -> str | None:
    """The name of the tool, for error messages; None for anything that is not a call."""
    return request.name if isinstance(request, CallTool) else None

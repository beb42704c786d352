"""Whose is it? What a server says or asks without naming a request, tied to the client it concerns.

Pure. One session carries the calls of many clients, so the answer is often that it cannot be told; then
nothing goes to anybody, because the wrong client is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mcpx.upstream.context import Caller
from mcpx.upstream.relay.suspended import Running
from mcpx.upstream.requests import Request

_OVER: Final = "the call that it belongs to is over"
_NOBODY: Final = "no client stands behind the call in flight"


class Unknown(msgspec.Struct, frozen=True):
    """It cannot be told, or there is nobody to be told; `idle` where no call is in flight at all."""

    why: str
    idle: bool = False


class Whose(msgspec.Struct, frozen=True):
    """It is that client's. `calls` are those of its calls that it may belong to."""

    caller: Caller
    calls: tuple[Running, ...]


def whose(running: Sequence[Running], named: Request | None, *, server: str) -> Whose | Unknown:
    """The client whose calls alone are in flight, or the one that made the request `named`."""
    if named is not None:
        running = [call for call in running if call.request is named]
    if not running:
        return Unknown(_OVER) if named is not None else Unknown("no call is in flight", idle=True)
    callers = [call.caller for call in running]
    last = callers[-1]
    if any(_client(caller) is not _client(last) for caller in callers):
        return Unknown(
            "calls of several clients are in flight on its one session, and it cannot be told whose it is; "
            f'"sessions": "per_client" for the server {server} gives each client a session of its own'
        )
    return Unknown(_NOBODY) if last is None else Whose(last, tuple(running))


def _client(caller: Caller | None) -> object:
    return None if caller is None else caller.client

"""Attribution: which client a message of the server concerns, where the protocol does not say.

One session carries the calls of many clients, so a message that names no request often cannot be attributed.
Then it reaches no client, because the wrong client is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from mcpx.core.protocol.context import CallerHandle
from mcpx.core.protocol.requests import OnProgress, Request
from mcpx.core.servers.call_queue import RawReply


class RunningCall(Protocol):
    """A request in flight, as `Calls` keeps it."""

    request: Request
    reply: RawReply
    caller: CallerHandle | None
    on_progress: OnProgress | None
    endings: list[Callable[[], None]]
    """Called once when the call is over, however it ends."""


class CallsInFlight(Protocol):
    """The calls of one session."""

    def running(self) -> list[RunningCall]:
        """What the server works on now, the oldest first."""
        ...

    def renew(self, call: RunningCall) -> None:
        """Start the call's timeout again."""
        ...


class Attributed(msgspec.Struct, frozen=True):
    """The message concerns that client. `calls` are those of its calls that it may belong to."""

    caller: CallerHandle
    calls: tuple[RunningCall, ...]


class Unattributed(msgspec.Struct, frozen=True):
    """The message concerns no client, or it cannot be known which; `idle` if no call is in flight."""

    reason: str
    idle: bool = False


_ENDED: Final = Unattributed("the call that it belongs to is over")
_IDLE: Final = Unattributed("no call is in flight", idle=True)
_NO_CLIENT: Final = Unattributed("no client stands behind the call in flight")


class Attribution:
    """Attributes the messages of one session."""

    def __init__(self, server: str, calls: CallsInFlight) -> None:
        self._server = server
        self._calls = calls

    def renew(self, call: RunningCall) -> None:
        """Start the call's timeout again: the server works on it, or its client does."""
        self._calls.renew(call)

    def attribute(self, named: Request | None, *, want_logs: bool = False) -> Attributed | Unattributed:
        """Find the client that a message concerns, at the moment in which it comes.

        It is the client that made the request `named`, or the one whose calls alone are in flight. With
        `want_logs` only calls count that asked for log messages.
        """
        running = self._calls.running()
        if want_logs:
            running = [call for call in running if call.caller is not None and call.caller.log_level]
        if named is not None:
            running = [call for call in running if call.request is named]
        if not running:
            return _ENDED if named is not None else _IDLE
        callers = [call.caller for call in running]
        last = callers[-1]
        if any(_client(caller) is not _client(last) for caller in callers):
            return Unattributed(
                "calls of several clients are in flight on its one session, and it cannot be told whose it"
                f' is; "sessions": "per_client" for the server {self._server} gives each client a session of'
                " its own"
            )
        return _NO_CLIENT if last is None else Attributed(last, tuple(running))


def _client(caller: CallerHandle | None) -> object:
    return None if caller is None else caller.client

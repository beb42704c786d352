"""The connected clients: what upstream servers learn of them, and which of them a message concerns.

`ConnectedClients` is owned by the hub. The gateway adds each client whose session lasts from request to
request (before 2026-07-28) and removes it when it leaves; the sessions with servers read, and follow
`changes`.

`Attribution` finds the client of a message where the protocol does not name it. One session carries the calls
of many clients, so a message that names no request often cannot be attributed. Then it reaches no client,
because the wrong client is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.context import Caller, most_verbose, wants
from mcpx.core.protocol.requests import Request
from mcpx.core.servers.in_flight import InFlight
from mcpx.core.telemetry.contained import containing
from supervisors import Signal

LOG: Final = "notifications/message"


class ClientHandle(Protocol):
    """A client that can be reached between its calls."""

    client: object
    log_level: str | None
    """The level from which it wants log messages of all servers; None for none."""

    @property
    def confined(self) -> bool:
        """True if it gets from servers only what belongs to its own calls, as one with a named token does.

        What comes between calls may be about a call of others.
        """

    def caller(self) -> Caller:
        """The client as it is asked between its calls."""

    def sees(self, server: str) -> bool:
        """True if it is shown that server. To one that is not, nothing of the server may get."""

    def notify(self, method: str, params: JSON) -> None:
        """Send it a notification outside any call. Must not raise."""


class ConnectedClients:
    """The clients that are connected, and what they want of all servers."""

    def __init__(self) -> None:
        self.handles: dict[object, ClientHandle] = {}
        """By client, as `Caller.client` identifies it."""
        self.roots_version = 0
        """The number of times that a client's roots have changed."""
        self.dropped = 0
        """Log and progress messages that were dropped because their client did not read."""
        self.changes = Signal()
        """Pulsed when a level or `roots_version` has changed."""
        self._sessionless_level: str | None = None  # the most verbose that a request asked for by itself
        self._has_sessionless = False
        self._left_callbacks: list[Callable[[object], None]] = []

    # --- for the gateway

    def join(self, handle: ClientHandle) -> None:
        """Add a client."""
        self.handles[handle.client] = handle

    def leave(self, client: object) -> None:
        """Remove a client, of either era, and call the callbacks for it."""
        if self.handles.pop(client, None) is not None:
            self.changed()
        for callback in list(self._left_callbacks):
            with containing("client left"):  # one must not keep the others from theirs
                callback(client)

    def count_dropped(self) -> None:
        """Count a log or progress message that a client which does not read goes without."""
        self.dropped += 1

    def changed(self) -> None:
        """Announce that a client's level has changed."""
        self.changes.pulse()

    def note_sessionless(self, level: str | None) -> None:
        """Note a request of a client without a session, which wants log messages from `level` on."""
        self._has_sessionless = True
        if level is not None and level != self._sessionless_level:
            self._sessionless_level = most_verbose([level, self._sessionless_level])

    def roots_changed(self) -> None:
        """Announce that a client's roots have changed."""
        self.roots_version += 1
        self.changed()

    # --- for the upstreams

    def level_of(self, server: str) -> str | None:
        """The most verbose level that any client wants that sees a server.

        That of a sessionless request counts from then on.
        """
        wanted = [each.log_level for each in self.handles.values() if each.log_level and each.sees(server)]
        return most_verbose([self._sessionless_level, *wanted])

    def only_client(self, server: str, client: object | None = None) -> ClientHandle | None:
        """The given client; or the only one that sees a server.

        None where several do, or there is any without a session, or it is confined to its own calls.
        """
        seeing = [each for each in self.handles.values() if each.sees(server)]
        if client is not None:
            return next((each for each in seeing if each.client is client), None)
        if len(seeing) != 1 or self._has_sessionless or seeing[0].confined:
            return None
        return seeing[0]

    def broadcast_log(self, server: str, params: JSON, client: object | None = None) -> None:
        """Send a log message of a server to those who see it and want its level, or to one client alone.

        Those who are confined to their own calls get only what is for them alone.
        """
        for handle in list(self.handles.values()):
            is_for = handle.client is client if client is not None else not handle.confined
            if not is_for or not handle.sees(server):
                continue
            if wants(handle.log_level, str(params.get("level"))):
                with containing("log message"):  # one client must not keep the others from theirs
                    handle.notify(LOG, params)

    def add_left_callback(self, callback: Callable[[object], None]) -> None:
        """Call `callback` with each client that leaves. It may call anything here but `leave`."""
        self._left_callbacks.append(callback)

    def remove_left_callback(self, callback: Callable[[object], None]) -> None:
        """Undo `add_left_callback`."""
        if callback in self._left_callbacks:
            self._left_callbacks.remove(callback)


# --- which client a message concerns


class CallsInFlight(Protocol):
    """The calls of one session."""

    def running(self) -> list[InFlight]:
        """Return the calls that the server works on now, the oldest first."""

    def renew(self, call: InFlight) -> None:
        """Start the call's timeout again."""


class Attributed(msgspec.Struct, frozen=True):
    """The message concerns that client. `calls` are those of its calls that it may belong to."""

    caller: Caller
    calls: tuple[InFlight, ...]


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

    def renew(self, call: InFlight) -> None:
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


def _client(caller: Caller | None) -> object:
    return None if caller is None else caller.client

"""The connected clients: what upstream servers learn of them outside any call, and how to reach them.

Owned by the hub. The gateway adds each client whose session lasts from request to request (before 2026-07-28)
and removes it when it leaves; the upstream actors read, and follow `changes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from mcpx.core.catalog.model import JSON
from mcpx.core.protocol.context import CallerHandle, most_verbose, wants
from mcpx.core.telemetry.contained import contain
from supervisors import Signal

LOG: Final = "notifications/message"


class ClientHandle(CallerHandle, Protocol):
    """A client that can be reached between its calls."""

    log_level: str | None
    """The level from which it wants log messages of all servers; None for none."""

    @property
    def confined(self) -> bool:
        """Whether it gets from servers only what belongs to its own calls, as one with a named token does.

        What comes between calls may be about a call of others.
        """
        ...

    def sees(self, server: str) -> bool:
        """Whether it is shown that server. To one that is not, nothing of the server may get."""
        ...

    def notify(self, method: str, params: JSON) -> None:
        """Send it a notification outside any call. Must not raise."""
        ...


class ConnectedClients:
    """The clients that are connected, and what they want of all servers."""

    def __init__(self) -> None:
        self.handles: dict[object, ClientHandle] = {}
        """By client, as `CallerHandle.client` identifies it."""
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
            try:
                callback(client)
            except Exception as error:  # noqa: BLE001 - one server's callback must not keep the others from theirs
                contain(error, "client left")

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
                try:
                    handle.notify(LOG, params)
                except Exception as error:  # noqa: BLE001 - one client must not keep the others from theirs
                    contain(error, "log message")

    def add_left_callback(self, callback: Callable[[object], None]) -> None:
        """Call `callback` with each client that leaves. It may call anything here but `leave`."""
        self._left_callbacks.append(callback)

    def remove_left_callback(self, callback: Callable[[object], None]) -> None:
        """Undo `add_left_callback`."""
        if callback in self._left_callbacks:
            self._left_callbacks.remove(callback)

"""Makes the sessions of the fleet: with a server, beside that, and of its transparent clients.

Owned by the fleet, which has them supervised. What all sessions have in common is given here once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpx.core.config import Config, ServerConfig, redactor_of
from mcpx.core.servers.actor import Upstream
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.transport.ledger import Ledger
from mcpx.core.servers.transport.placement import Placement
from mcpx.core.telemetry.log_files import ServerLog
from supervisors import Supervisor

if TYPE_CHECKING:
    from mcpx.core.servers.passthrough.client import DirectClient
    from mcpx.core.servers.passthrough.session import DirectSession


class SessionFactory:
    """Makes sessions that are not supervised yet. `folder` is that of the servers' logs."""

    def __init__(
        self,
        config: Config,
        supervisor: Supervisor,
        ledger: Ledger,
        *,
        folder: Path,
        clients: ConnectedClients,
        placement: Placement | None = None,
    ) -> None:
        self._config = config
        self._supervisor = supervisor
        self._ledger = ledger
        self._folder = folder
        self._clients = clients
        self._placement = placement
        self._made: Counter[str] = Counter()  # children of each name so far

    def configure(self, config: Config) -> None:
        """Make sessions by another configuration from now on."""
        self._config = config

    def main(self, server: ServerConfig, **more: Any) -> Upstream:
        """A server's session, with `more` keywords of `Upstream`."""
        log = ServerLog(server.name, self._folder, redact=redactor_of(server))
        return self._upstream(server, log, **more)

    def beside(self, server: ServerConfig, *, main: Upstream, **more: Any) -> Upstream:
        """One beside the main session, with whose log."""
        more["has_open_tasks"] = main.has_open_tasks
        return self._upstream(server, main.server_log, main=main, **more)

    def _upstream(self, server: ServerConfig, log: ServerLog, **more: Any) -> Upstream:
        return Upstream(
            server,
            self._supervisor,
            ledger=self._ledger,
            server_log=log,
            max_message_bytes=self._config.max_message_bytes,
            child=self._child_name(server.name),
            clients=self._clients,
            placement=self._placement,
            **more,
        )

    def direct(self, upstream: Upstream, client: DirectClient, **more: Any) -> DirectSession:
        """A client's session through the transparent endpoint, with `more` keywords of `DirectSession`."""
        more |= {"ledger": self._ledger, "max_message_bytes": self._config.max_message_bytes}
        child = self._child_name(upstream.name)
        from mcpx.core.servers.passthrough.session import DirectSession  # noqa: PLC0415 - for those who want one

        return DirectSession(
            client,
            upstream.config,
            self._supervisor,
            child=child,
            account=upstream.account,
            placement=self._placement,
            **more,
        )

    def _child_name(self, name: str) -> str:
        """The supervisor's name for the next child of that name: its predecessor may still be leaving."""
        self._made[name] += 1
        number = self._made[name]
        return name if number == 1 else f"{name}\x1f{number}"  # no server's name holds such a character

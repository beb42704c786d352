"""The changes of a running hub: another configuration in force, and one server started again.

Owned by the hub, which offers `reload` and `restart`. What differs is planned by
`mcpx.core.servers.fleet.reload_plan` and carried out by the fleet; clients are told of what they see
differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.catalog.diff import EVERYTHING, diff
from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, ServerConfig, redactor_of
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.running import put_in_force
from mcpx.core.servers.fleet.observers import NO_SERVER
from mcpx.core.servers.fleet.reload_plan import (
    ReloadError,
    ReloadPlan,
    effective_config,
    moved_programs,
    plan_reload,
)
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.log import hide
from mcpx.core.text import one_line, shown_server
from mcpx.errors import CallError, Code

if TYPE_CHECKING:
    from mcpx.core.daemon.hub import Hub
    from mcpx.core.servers.actor import Upstream

log = structlog.get_logger()
MAX_NAMES_LOGGED: Final = 100  # of servers that a reload has not touched; else their number


class HubChanges:
    """Changes a hub. `reloading` makes a context that is entered while a configuration is put in force."""

    def __init__(self, hub: Hub, reloading: Callable[[], AbstractContextManager[None]]) -> None:
        self._hub = hub
        self._lock = anyio.Lock()
        self._reloading = reloading
        self._with_secrets: list[ServerConfig] = []

    def apply(self, config: Config) -> None:
        """Put in force what is looked up when it is used; the servers themselves are changed by `reload`."""
        hub = self._hub
        before, now = self._with_secrets, [*config.servers.values(), *config.peers.values()]
        redactor = redactor_of(*before, *now)  # servers that are replaced may still be leaving
        self._with_secrets = now
        hide(hub, redactor)
        hub.approvals.redact = redactor
        hub.config = hub.results.settings = config
        hub.fleet.environment.environment = config.environment
        put_in_force(config.environment)
        for name, upstream in hub.upstreams.items():
            if name in config.servers:
                upstream.policy.configure(config.servers[name])
                upstream.rate.configure(config.servers[name])
                upstream.policy_changed()
        hub.applied.set()
        hub.approvals.reconsider()
        hub.audit.configure(
            enabled=config.audit != "off",
            required=config.audit_required,
            redact=redactor.data if config.audit == "full" else None,
            hide=redactor,
        )

    async def reload(self, config: Config) -> ReloadPlan:
        """Put another configuration in force; see `Hub.reload`."""
        with anyio.CancelScope(shield=True):  # bounded: a server leaves, or is given up, in its time
            async with self._lock:
                with self._reloading(), self._hub.fleet.environment.entered():
                    plan = await self._carry_out(self._hub.expanded(config))
        self._log(plan)
        return plan

    async def readapt(self) -> None:
        """Take in which servers the peers have now; see `Hub.readapt`."""
        hub = self._hub
        with anyio.CancelScope(shield=True):  # as above
            async with self._lock:
                config = hub.expanded(hub.config)
                if config.servers == hub.config.servers:
                    return
                with hub.fleet.environment.entered():
                    plan = await self._carry_out(config, again=True)
        self._log(plan)

    def _log(self, plan: ReloadPlan) -> None:
        done = {name: getattr(plan, name) for name in plan.__struct_fields__}
        if len(plan.untouched) > MAX_NAMES_LOGGED:
            done["untouched"] = len(plan.untouched)
        log.info("config.reloaded", **done)

    async def _carry_out(self, config: Config, *, again: bool = False) -> ReloadPlan:
        """Put it in force; `again` says that only the servers of peers differ."""
        hub = self._hub
        plan = plan_reload(hub.config, config, moved=moved_programs(hub.config, config))
        before = {name: upstream.catalogue for name, upstream in hub.upstreams.items()}
        made = self._begin(effective_config(hub.config, config), plan)
        if not again:
            for notice in config.notices:
                log.info("config.notice", notice=notice)
            log_environment(hub.config)
        warn_of_disabled(hub.config, (*plan.added, *plan.changed))
        if plan.settings:  # in force already, while servers may take their time to leave
            hub.fleet.observers.announce(plan.untouched or (NO_SERVER,))
            self._report_differences(plan.untouched, before, of_profiles="profiles" in plan.settings)
        faults = await hub.fleet.change(plan, made)
        hub.peers.configure(hub.config, hub)
        self._report_differences(plan.changed, before)
        if faults:
            raise ReloadError(_named(faults), in_force=True)
        return plan

    def _begin(self, config: Config, plan: ReloadPlan) -> dict[str, Upstream]:
        """Put a configuration in force, and make its new servers; all of it or nothing.

        Raises:
            ReloadError: The configuration before is in force.
        """
        hub, before = self._hub, self._hub.config
        try:
            self.apply(config)
            hub.fleet.configure(config)
            return hub.fleet.prepare(plan)
        except Exception as error:
            contain(error, "reload")
            self.apply(before)
            hub.fleet.configure(before)
            text = f"it could not be put in force ({_cause(error)}); nothing has changed"
            raise ReloadError(text, in_force=False) from error

    def _report_differences(
        self, names: Iterable[str], before: Mapping[str, Catalogue | None], *, of_profiles: bool = False
    ) -> None:
        """Report what there is now of the servers that there was not before, or the other way round."""
        for name in names:
            known = self._hub.upstreams[name].catalogue if name in self._hub.upstreams else None
            if known is not None and (of_profiles or known is not before[name]):
                changed = EVERYTHING if of_profiles else diff(before[name], known)
                self._hub.fleet.observers.notify(name, changed)

    async def restart(self, name: str) -> ServerInfo:
        """End a server in order and start it again; see `Hub.restart`.

        Raises:
            CallError: `unknown_server`, with the nearest names; `server_unavailable` for a disabled one.
        """
        hub = self._hub
        name = hub.upstream(name).name
        await hub.peers.restart(name)
        if hub.fleet.placement is not None:
            await hub.fleet.placement.restart(hub.upstreams[name].config)
        replaced = await self._take_in(name)
        upstream = hub.upstream(name)
        if upstream.config.disabled is not None or upstream.queue.closed:
            info = upstream.info()
            text = f"{name} cannot be restarted ({info.describe_state()})"
            text += f"; what helps: {info.remedy}" if info.remedy else ""
            raise CallError(Code.SERVER_UNAVAILABLE, text, server=name, details=info.why())
        if replaced:
            await hub.fleet.await_start(upstream)
        else:
            log.info("upstream.restarting", server=name, state=str(upstream.info().state))
            await hub.fleet.restart(upstream)
        return upstream.info()

    async def _take_in(self, name: str) -> bool:
        """Take in the entry of a server as it is now; whether the server was replaced for it."""
        hub = self._hub
        peer = hub.config.servers[name].peer if name in hub.config.servers else None
        found = await hub.file.reread(peer or name)
        if found is None or name not in hub.config.servers:
            return False
        if peer is not None:
            return await self._take_in_peer(peer, found) and name in hub.upstreams
        if name not in found.servers:
            return False
        hub.fleet.environment.environment = found.environment
        put_in_force(found.environment)
        hub.config = replace(hub.config, environment=found.environment)
        if found.servers[name] == hub.config.servers[name]:
            return False
        servers = hub.config.servers | {name: found.servers[name]}
        return name in (await self.reload(replace(hub.config, servers=servers))).changed

    async def _take_in_peer(self, name: str, found: Config) -> bool:
        """Take in the entry of a peer as it is now; whether its servers were replaced for it."""
        hub = self._hub
        if name not in found.peers or found.peers[name] == hub.config.peers.get(name):
            return False
        peers = hub.config.peers | {name: found.peers[name]}
        return bool((await self.reload(replace(hub.config, peers=peers))).changed)


def _cause(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__)


def _named(faults: Mapping[str, Exception]) -> str:
    """Say which servers are not as the configuration in force has them."""
    causes = ", ".join(f"{shown_server(name)} ({_cause(error)})" for name, error in faults.items())
    return f"the change of these servers failed: {causes}; all else is in force. Run mcpx restart for each"


def log_environment(config: Config) -> None:
    """Log that the login shell could not be asked, if it could not."""
    environment = config.environment
    if environment is not None and environment.problem is not None:
        log.warning("environment.login_shell_failed", problem=environment.problem)


def warn_of_disabled(config: Config, names: Iterable[str]) -> None:
    """Log which of the servers are not started by their entries, and why."""
    for name in names:
        server = config.servers[name]
        if server.disabled is not None and (found := diagnose(server)) is not None:
            log.warning("upstream.disabled", server=name, state=found.state, cause=server.disabled)

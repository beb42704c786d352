"""The configuration in force, and its changes while MCPX runs: a reload, and one server started again.

What differs is planned by `mcpx.core.servers.fleet.reload`. A reload has two halves. The first puts in
force what is looked up when it is used (rules, secrets, settings) and makes the new servers: all of it, or
nothing. The second has the fleet start and end servers, where the fault of one costs no other; clients are
then told of what they see differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final

import anyio
import structlog
from msgspec.structs import replace

from mcpx.core.calls.results.shaping import ResultRenderer
from mcpx.core.catalog.model import EVERYTHING, Catalogue, diff
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, ServerConfig, redactor_of
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.daemon.config_file import ConfigFile
from mcpx.core.events.audit.audit import Audit
from mcpx.core.events.records import Records
from mcpx.core.policy.approvals import Approvals
from mcpx.core.running import put_in_force
from mcpx.core.servers.fleet.fleet import Fleet
from mcpx.core.servers.fleet.observers import NO_SERVER
from mcpx.core.servers.fleet.reload import (
    ReloadError,
    ReloadPlan,
    carry_out,
    effective_config,
    moved_programs,
    plan_reload,
    prepare,
)
from mcpx.core.servers.server import Server
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.log import hide
from mcpx.core.text import one_line, shown_server
from mcpx.errors import CallError, Code
from supervisors import Signal

log = structlog.get_logger()
MAX_NAMES_LOGGED: Final = 100  # of servers that a reload has not touched; else their number


class Reloads:
    """The configuration in force in a hub, and what puts another one in force.

    `expand` adds the servers of peers to a configuration, and `joined` takes in one that is in force.
    `reloading` makes a context that is entered meanwhile.
    """

    def __init__(
        self,
        config: Config,
        fleet: Fleet,
        results: ResultRenderer,
        approvals: Approvals,
        audit: Audit,
        *,
        records: Records,
        expand: Callable[[Config], Config],
        joined: Callable[[Config], None],
        reloading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.config = config
        """The one in force; look settings up when they are used."""
        self.file = ConfigFile(config.source, lambda: self.config, self.reload)
        """The file that it was read from, if it was."""
        self.applied = Signal()
        """Set when a configuration has been put in force, for the daemon's page, which clears it."""
        self._fleet = fleet
        self._results = results
        self._approvals = approvals
        self._audit = audit
        self._records = records
        self._expand = expand
        self._joined = joined
        self._reloading = reloading
        self._lock = anyio.Lock()
        self._with_secrets: list[ServerConfig] = []
        self._apply(config)

    # --- another configuration

    async def reload(self, config: Config) -> ReloadPlan:
        """Put another configuration in force: start, stop or restart the servers that differ, and no other.

        Returns what was done, once the servers that had to leave have left (they get the grace time for the
        calls that run); those that were started may still be starting. Reloads go one after the other, and
        each to its end, even if its caller is cancelled.

        Raises:
            ReloadError: It says if the configuration is in force.
        """
        with anyio.CancelScope(shield=True):  # bounded: a server leaves, or is given up, in its time
            async with self._lock:
                with self._reloading(), self._fleet.environment.entered():
                    plan = await self._carry_out(self._expand(config))
        self._log(plan)
        return plan

    async def readapt(self) -> None:
        """Put the configuration in force once more, with the servers that its peers have now."""
        with anyio.CancelScope(shield=True):  # as above
            async with self._lock:
                config = self._expand(self.config)
                if config.servers == self.config.servers:
                    return
                with self._fleet.environment.entered():
                    plan = await self._carry_out(config, again=True)
        self._log(plan)

    def _log(self, plan: ReloadPlan) -> None:
        done = {name: getattr(plan, name) for name in plan.__struct_fields__}
        if len(plan.untouched) > MAX_NAMES_LOGGED:
            done["untouched"] = len(plan.untouched)
        log.info("config.reloaded", **done)

    async def _carry_out(self, config: Config, *, again: bool = False) -> ReloadPlan:
        """Put it in force; `again` says that only the servers of peers differ."""
        fleet = self._fleet
        plan = plan_reload(self.config, config, moved=moved_programs(self.config, config))
        before = {name: upstream.catalogue for name, upstream in fleet.upstreams.items()}
        made = self._begin(effective_config(self.config, config), plan)
        if not again:
            for notice in config.notices:
                log.info("config.notice", notice=notice)
            log_environment(self.config)
        warn_of_disabled(self.config, (*plan.added, *plan.changed))
        if plan.settings:  # in force already, while servers may take their time to leave
            fleet.observers.announce(plan.untouched or (NO_SERVER,))
            self._report_differences(plan.untouched, before, of_profiles="profiles" in plan.settings)
        faults = await carry_out(fleet, plan, made)
        self._joined(self.config)
        self._report_differences(plan.changed, before)
        if faults:
            raise ReloadError(_named(faults), in_force=True)
        return plan

    def _begin(self, config: Config, plan: ReloadPlan) -> dict[str, Server]:
        """Put a configuration in force, and make its new servers; all of it or nothing.

        Raises:
            ReloadError: The configuration before is in force.
        """
        before = self.config
        try:
            self._apply(config)
            self._fleet.configure(config)
            return prepare(self._fleet, plan)
        except Exception as error:
            contain(error, "reload")
            self._apply(before)
            self._fleet.configure(before)
            text = f"it could not be put in force ({_cause(error)}); nothing has changed"
            raise ReloadError(text, in_force=False) from error

    def _apply(self, config: Config) -> None:
        """Put in force what is looked up when it is used."""
        before, now = self._with_secrets, [*config.servers.values(), *config.peers.values()]
        redactor = redactor_of(*before, *now)  # servers that are replaced may still be leaving
        self._with_secrets = now
        hide(self, redactor)
        self._approvals.redact = redactor
        self.config = self._results.settings = config
        self._put_in_force(config)
        for name, upstream in self._fleet.upstreams.items():
            if name in config.servers:
                upstream.policy.configure(config.servers[name])
                upstream.rate.configure(config.servers[name])
                upstream.policy_changed()
        self.applied.set()
        self._approvals.reconsider()
        self._audit.configure(
            enabled=config.audit != "off",
            required=config.audit_required,
            redact=redactor.data if config.audit == "full" else None,
        )
        self._records.hide = redactor

    def _put_in_force(self, config: Config) -> None:
        """Give servers and programs that are started from now on the environment of a configuration."""
        self._fleet.environment.environment = config.environment
        put_in_force(config.environment, self._fleet.environment.clients)

    def _report_differences(
        self, names: Iterable[str], before: Mapping[str, Catalogue | None], *, of_profiles: bool = False
    ) -> None:
        """Report what there is now of the servers that there was not before, or the other way round."""
        upstreams = self._fleet.upstreams
        for name in names:
            known = upstreams[name].catalogue if name in upstreams else None
            if known is not None and (of_profiles or known is not before[name]):
                changed = EVERYTHING if of_profiles else diff(before[name], known)
                self._fleet.observers.notify(name, changed)

    # --- one server

    async def restart(self, upstream: Server) -> ServerInfo:
        """End a server in order and start it again, whatever its state. Returns its state then.

        Its entry is read again, with the environment and the secrets of now. Calls that run may finish within
        the grace time; those that come meanwhile wait for the new session.

        Raises:
            CallError: `server_unavailable`: it is disabled, or was removed meanwhile.
        """
        fleet, name = self._fleet, upstream.name
        if fleet.placement is not None:
            await fleet.placement.restart(upstream.config)
        replaced = await self._take_in(name)
        upstream = fleet.upstreams.get(name, upstream)
        if upstream.config.disabled is not None or upstream.queue.closed:
            info = upstream.info()
            text = f"{name} cannot be restarted ({info.describe_state()})"
            text += f"; what helps: {info.remedy}" if info.remedy else ""
            raise CallError(Code.SERVER_UNAVAILABLE, text, server=name, details=info.why())
        if replaced:
            await fleet.await_start(upstream)
        else:
            log.info("upstream.restarting", server=name, state=str(upstream.info().state))
            await fleet.restart(upstream)
        return upstream.info()

    async def renew(self, name: str) -> ServerConfig | None:
        """The entry of a server as it is in force, with the secrets of now; None if it has changed, too.

        A changed entry is put in force by a reload, not by a value that is fetched.
        """
        data = await self.file.content_in_force()
        found = None if data is None else await self.file.reread(name, asks_shell=False)
        renewed = None if found is None else found.servers.get(name)
        if renewed is not None and renewed.disabled is None and name in self.config.servers:
            # so that the next reload does not take it for a changed entry
            self.config = replace(self.config, servers=self.config.servers | {name: renewed})
        return renewed

    async def _take_in(self, name: str) -> bool:
        """Take in the entry of a server as it is now; return True if the server was replaced for it."""
        peer = self.config.servers[name].peer if name in self.config.servers else None
        found = await self.file.reread(peer or name)
        if found is None or name not in self.config.servers:
            return False
        if peer is not None:
            return await self._take_in_peer(peer, found) and name in self._fleet.upstreams
        if name not in found.servers:
            return False
        self._put_in_force(found)
        self.config = replace(self.config, environment=found.environment)
        if found.servers[name] == self.config.servers[name]:
            return False
        servers = self.config.servers | {name: found.servers[name]}
        return name in (await self.reload(replace(self.config, servers=servers))).changed

    async def _take_in_peer(self, name: str, found: Config) -> bool:
        """Take in the entry of a peer as it is now; return True if its servers were replaced for it."""
        if name not in found.peers or found.peers[name] == self.config.peers.get(name):
            return False
        peers = self.config.peers | {name: found.peers[name]}
        return bool((await self.reload(replace(self.config, peers=peers))).changed)


def _cause(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__)


def _named(faults: Mapping[str, Exception]) -> str:
    """Name the servers that are not as the configuration in force has them."""
    causes = ", ".join(f"{shown_server(name)} ({_cause(error)})" for name, error in faults.items())
    return f"the change of these servers failed: {causes}; all else is in force. Run mcpx restart for each"


def log_environment(config: Config) -> None:
    """Log that the login shell could not be asked, if it could not."""
    environment = config.environment
    if environment is not None and environment.problem is not None:
        log.warning("environment.login_shell_failed", problem=environment.problem)


def warn_of_disabled(config: Config, names: Iterable[str]) -> None:
    """Log the servers that are not started by their entries, each with the reason."""
    for name in names:
        server = config.servers[name]
        if server.disabled is not None and (found := diagnose(server)) is not None:
            log.warning("upstream.disabled", server=name, state=found.state, cause=server.disabled)

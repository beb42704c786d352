"""A new configuration in a running MCPX: what it changes, and how that is carried out in the fleet.

The plan is pure, but for `moved_programs`. Servers are compared one by one, by everything that their entry
says once it is read, and by the global settings that reach a server. Most of the other settings are looked up
when they are used, so they take effect at once; those that are used at the start only are named, and keep
their old values until MCPX is restarted.

It is carried out server by server. One that leaves finishes its calls within the grace time. One that changed
is replaced, and what it offered is shown until the new one has listed. No other server is touched.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, diff
from mcpx.core.config import Config, ServerConfig
from mcpx.core.servers.fleet.fleet import REMOVED, START_FAILED, Fleet
from mcpx.core.servers.offers.server_identity import program_of
from mcpx.core.servers.server import Server
from mcpx.core.telemetry.contained import contain
from mcpx.errors import MCPXError

CHANGED: Final = "its configuration has changed"
OLD_ENDING: Final = "its process with the old configuration is ending"
FOR_SERVERS: Final = ("max_message_bytes",)
"""Global settings that a server is started with: a new value restarts them all."""
AT_START: Final = ("startup_wait", "shutdown_grace", "max_starting", "http", "http_served", "cluster")
"""Settings that the tree and its frontends are built with."""
LOOKED_UP: Final = (
    "result_token_budget",
    "fit_images",
    "cache",
    "expose",
    "pinned",
    "aliases",
    "overrides",
    "tools",
    "resources",
    "prompts",
    "approve",
    "annotations",
    "trust_annotations",
    "pin",
    "quarantine",
    "quota",
    "place",
)
"""Settings of a server that are looked up when they are used: a new value restarts nothing.

What the quota says of its processes is in their transport, too, and the place in that of a server on a node.
"""
_KEYS: Final = {field.name: field.encode_name for field in msgspec.structs.fields(ServerConfig)}
_NO_SETTINGS: Final = frozenset({"source", "servers", "peers", "notices", "digest", "environment", "common"})


class ReloadError(MCPXError):
    """A configuration could not be carried out, whole or in part; `in_force` says which of the two."""

    def __init__(self, text: str, *, in_force: bool) -> None:
        super().__init__(text)
        self.in_force = in_force


class ReloadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a reload, by the names of the servers, in the order of their configuration.

    `peers` are the entries of other MCPX that are new, gone or different; what comes of it for their servers
    is known once they have answered.
    `settings` are those whose new values are in force without a restart of a server that has not `changed`.
    `needs_restart` are those that MCPX must be restarted for (`http.port`): it goes on with the old ones.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


def plan_reload(old: Config, new: Config, *, moved: Container[str] = ()) -> ReloadPlan:
    """Compare `new` with `old`, the configuration in force as `effective_config` made it.

    Servers that have `moved` count as changed.
    """
    settings = [name for name in _settings(new) if getattr(old, name) != getattr(new, name)]
    all_again = any(name in FOR_SERVERS for name in settings)
    same = {
        name
        for name, server in new.servers.items()
        if name in old.servers
        and _started_with(old.servers[name]) == _started_with(server)
        and (server.disabled is not None or not (all_again or name in moved))
    }
    differing = (name for name in LOOKED_UP if any(_differs(name, old, new, server) for server in same))
    settings += [_KEYS[name] for name in differing]
    return ReloadPlan(
        added=tuple(name for name in new.servers if name not in old.servers),
        removed=tuple(name for name in old.servers if name not in new.servers),
        changed=tuple(name for name in new.servers if name in old.servers and name not in same),
        untouched=tuple(name for name in new.servers if name in same),
        peers=tuple(
            name for name in {**old.peers, **new.peers} if old.peers.get(name) != new.peers.get(name)
        ),
        settings=tuple(name for name in settings if name not in AT_START),
        needs_restart=tuple(part for name in settings if name in AT_START for part in _parts(name, old, new)),
    )


def moved_programs(old: Config, new: Config) -> set[str]:
    """The servers whose commands are found elsewhere in the environment of `new`, by the same entry."""
    before, after = old.environment, new.environment
    if before is None or after is None or before.path == after.path:
        return set()
    return {
        name
        for name, server in new.servers.items()
        if (program := server.transport.program) is not None
        and program_of(program, before) != program_of(program, after)
    }


def effective_config(old: Config, new: Config) -> Config:
    """`new`, but with the old values of the settings that only a restart of MCPX can change."""
    kept: dict[str, Any] = {name: getattr(old, name) for name in _settings(new) if name in AT_START}
    return replace(new, **kept)


def _started_with(server: ServerConfig) -> ServerConfig:
    """A server without the settings that are looked up when they are used."""
    return replace(server, **dict.fromkeys(LOOKED_UP, 0))


def _differs(setting: str, old: Config, new: Config, server: str) -> bool:
    return bool(getattr(old.servers[server], setting) != getattr(new.servers[server], setting))


def _settings(config: Config) -> list[str]:
    return [name for name in config.__struct_fields__ if name not in _NO_SETTINGS]


def _parts(name: str, old: Config, new: Config) -> list[str]:
    """The names of what differs in a setting: its own, or for a group those of its fields."""
    before, after = getattr(old, name), getattr(new, name)
    if not (isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct)):
        return ["http" if name == "http_served" else name]
    fields = after.__struct_fields__
    return [f"{name}.{field}" for field in fields if getattr(before, field) != getattr(after, field)]


# --- carrying it out


def prepare(fleet: Fleet, plan: ReloadPlan) -> dict[str, Server]:
    """Make the servers that a plan adds or replaces; nothing is started or shown yet.

    Raises:
        Exception: One cannot be made; then none is.
    """
    made: dict[str, Server] = {}
    try:
        for name in (*plan.changed, *plan.added):
            made[name] = fleet.make(fleet.config.servers[name])
    except Exception:
        for each in made.values():
            each.main.retire("it was not put in force")
        raise
    return made


async def carry_out(fleet: Fleet, plan: ReloadPlan, new: Mapping[str, Server]) -> dict[str, Exception]:
    """Add, replace and remove servers, with the `new` ones; the faults by server, which cost no other.

    Returns when every server that had to leave has left, within the grace time; new ones may still be
    starting. Must not be cancelled, nor run twice at a time.
    """
    faults: dict[str, Exception] = {}
    old = {name: fleet.upstreams[name] for name in (*plan.removed, *plan.changed)}
    for name in plan.changed:
        if new[name].config.disabled is None:
            new[name].queue.pending_reason = OLD_ENDING
        with _noted(faults, name):
            new[name].take_over(old[name])  # shown as starting, until it has listed for itself
    fleet.readiness.expect(name for name in plan.added if _is_awaited(fleet, new[name]))
    for name in plan.added:
        _start(fleet, new[name], faults, asleep=fleet.may_sleep(new[name]))
    staying = {name: new.get(name) or fleet.upstreams[name] for name in fleet.config.servers}
    fleet.publish(staying | {name: old[name] for name in plan.removed})
    fleet.observers.announce((*plan.added, *plan.changed))
    async with anyio.create_task_group() as tasks:
        for name in plan.removed:
            tasks.start_soon(_remove, fleet, old[name], faults)
        for name in plan.changed:
            tasks.start_soon(_replace, fleet, old[name], new[name], faults)
    fleet.publish(staying)
    for name in plan.removed:
        gone = diff(old[name].catalogue, Catalogue(generation=0))
        fleet.observers.notify(name, replace(gone, about=True))
    return faults


def _is_awaited(fleet: Fleet, server: Server) -> bool:
    """True if those who wait for the servers at the start wait for this one, which a peer has named."""
    config = server.config
    return config.peer is not None and config.disabled is None and not fleet.may_sleep(server)


async def _remove(fleet: Fleet, old: Server, faults: dict[str, Exception]) -> None:
    with _noted(faults, old.name):
        await fleet.retire(old, REMOVED)


async def _replace(fleet: Fleet, old: Server, new: Server, faults: dict[str, Exception]) -> None:
    was_asleep = old.queue.is_asleep
    with _noted(faults, old.name):
        await fleet.retire(old, CHANGED)
    _start(fleet, new, faults, asleep=was_asleep and fleet.may_sleep(new))
    with _noted(faults, old.name):
        if new.config.disabled is None:
            fleet.direct.carry_over(old, new)


def _start(fleet: Fleet, new: Server, faults: dict[str, Exception], *, asleep: bool) -> None:
    if new.config.disabled is None:
        new.queue.pending_reason = START_FAILED  # nothing supervises it until that has worked
    with _noted(faults, new.name):
        fleet.start(new.main, asleep=asleep)


@contextmanager
def _noted(faults: dict[str, Exception], server: str) -> Iterator[None]:
    """Note a fault of one server's change, so that the others are changed all the same."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the boundary: a server costs no other, and the reload names it
        faults.setdefault(server, error)
        contain(error, "reload", server=server)

"""One card for each server, with its state and its figures, as plain JSON; and the figures of processes.

Nobody looks at processes by itself: whoever shows the figures asks for a look with `refresh` each time, and
shows what the last one has found. A look is had in a thread, and costs at most `SHARE` of a core, however
many processes there are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import asdict

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.status_snapshot import call_counts, server_status
from mcpx.core.events.stats import Count, total
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.servers.server import Server
from mcpx.core.servers.transport.placement import PlacedUse
from mcpx.core.system.processes import ProcessFigures, Use
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut
from mcpx.page.access import Access, PageMemory

EVERY_S: Final = 3.0
SECOND_LOOK_S: Final = 1.0  # after the first: only then there is a share of the processor
SHARE: Final = 0.004  # of a core
FORGET_S: Final = 30.0  # without a look, after which a share would be of a time that nobody saw
_Look = tuple[dict[int, Use], tuple[int | None, float | None], float]
Card = dict[str, Any]
MAX_ERROR_CHARS: Final = 500
TONES: Final = {
    State.READY: "good",
    State.ASLEEP: "idle",
    State.STARTING: "busy",
    State.WAITING: "bad",
    State.PARKED: "bad",
    State.NEEDS_SIGN_IN: "ask",
    State.NEEDS_SETUP: "ask",
    State.INVALID: "bad",
    State.STOPPED: "off",
    State.DISABLED: "off",
}
_MINUTE: Final = 60


class Processes:
    """The figures that were found last."""

    def __init__(self) -> None:
        self.uses: Mapping[int, Use] = {}
        """By process group."""
        self.own_memory: int | None = None
        self.own_cpu: float | None = None
        """The share of a core that the daemon used between the last two looks."""
        self._figures = ProcessFigures()
        self._looking = False
        self._due = self._looked_at = 0.0

    def refresh(self, groups: list[int]) -> None:
        """Have these process groups looked at, if it is time; returns at once."""
        now = time.monotonic()
        if self._looking or now < self._due:
            return
        if now - self._looked_at > FORGET_S:
            self._figures = ProcessFigures()
        self._looking = True
        looking = asyncio.get_running_loop().run_in_executor(None, self._look, self._figures, groups)
        looking.add_done_callback(self._looked)

    @staticmethod
    def _look(figures: ProcessFigures, groups: list[int]) -> _Look:
        began = time.thread_time()
        return figures.look(groups), figures.look_at_self(), time.thread_time() - began

    def _looked(self, looking: asyncio.Future[_Look]) -> None:
        self._looking = False
        self._looked_at, cost_s = time.monotonic(), 0.0
        if looking.cancelled():
            return
        if (error := looking.exception()) is not None:
            contain(error, "processes")
        else:
            self.uses, (self.own_memory, self.own_cpu), cost_s = looking.result()
        pause_s = SECOND_LOOK_S if self.own_cpu is None else EVERY_S
        self._due = self._looked_at + max(pause_s, cost_s / SHARE)


class Cards:
    """The cards of all servers, for all who look: each is made anew where there may be something new."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._made: dict[str, tuple[Any, Card]] = {}  # each with what it was made of

    def now(self, uses: Mapping[int, Use]) -> dict[str, Card]:
        """By name; `uses` says what the process groups use. The same object is one that says the same."""
        tools = self._hub.meter.since_start().tools
        common = self._hub.fleet.version, int(time.monotonic() // _MINUTE)
        before, self._made = self._made, {}
        for name, upstream in self._hub.upstreams.items():
            use = _use(upstream, uses)
            count = total(tools.get(name, {}).values())
            busy = upstream.counters.in_flight, upstream.queued
            source = common, upstream, upstream.catalogue, busy, count, use
            then, shown = before.get(name, (None, None))
            if shown is None or then != source or shown["next_attempt_in_s"] is not None:
                fresh = _card(upstream, count, use)
                shown = fresh if shown is None or settled(fresh) != settled(shown) else shown
            self._made[name] = source, shown
        return {name: shown for name, (_, shown) in self._made.items()}


def _use(upstream: Server, uses: Mapping[int, Use]) -> Use | PlacedUse | None:
    """Sum what a server uses, here or on nodes; of those the figures change all the time by a little."""
    if upstream.pid is not None:
        return uses.get(upstream.pid)
    use = upstream.placed_use
    if use is None:
        return None
    return PlacedUse(round(use.memory, -6), None if use.cpu is None else round(use.cpu, 2))


def card(hub: Hub, name: str, uses: Mapping[int, Use]) -> Card:
    """Make the card of one server.

    Raises:
        CallError: There is no such server.
    """
    upstream = hub.upstream(name)
    return _card(upstream, hub.meter.since_start().of_server(name), _use(upstream, uses))


def _card(upstream: Server, count: Count, use: Use | PlacedUse | None) -> Card:
    status, info = server_status(upstream, count), upstream.info()
    latency = status.latency_ms
    shown: Card = {
        "name": status.name,
        "state": status.state,
        "described": cut(info.describe_state(), MAX_ERROR_CHARS),
        "tone": TONES[info.state],
        "pid": status.pid,
        "transport": status.transport,
        "uptime_s": status.uptime_s,
        "restarts": status.restarts,
        "failures": status.failures,
        **asdict(call_counts(count)),
        "in_flight": status.in_flight,
        "queued": status.queued,
        "p50_ms": latency.p50,
        "p95_ms": latency.p95,
        "memory_bytes": None if use is None else use.memory,
        "cpu_share": None if use is None else use.cpu,
        "tokens_direct": count.direct,
        "tokens_spent": count.spent,
        "last_error": None if status.last_error is None else cut(status.last_error, MAX_ERROR_CHARS),
        "next_attempt_in_s": status.next_attempt_in_s,
        "tools": status.tools,
        "resources": status.resources,
        "prompts": status.prompts,
        "changes": len(status.changes or ()),
    }
    instances = status.instances or ()
    where_known = {
        "instances": [{"project": each.project, "state": each.state, "pid": each.pid} for each in instances],
        "remedy": info.remedy,
        "missing": info.missing,
        "peer": status.peer,
        "listens_at": status.listens_at,
        "node": status.node,
        "sign_in": status.sign_in,
        "from_last_time": status.from_last_time,
    }
    return shown | {name: value for name, value in where_known.items() if value}


def settled(shown: Card) -> Card:
    """The same with what goes on by itself made coarse: two such are equal where there is nothing to say."""
    return {
        **shown,
        "uptime_s": coarse(shown["uptime_s"]),
        "next_attempt_in_s": round(shown["next_attempt_in_s"] or 0),
    }


def coarse(seconds: float | None) -> int | None:
    """A time that goes on, to the minute: who shows it counts the seconds."""
    return None if seconds is None else int(seconds // _MINUTE)


class OpenPage:
    """The page once somebody has opened it: what the views look at, and act on."""

    def __init__(self, hub: Hub, clients: ClientSessions, access: Access, memory: PageMemory) -> None:
        self.hub = hub
        self.clients = clients
        self.access = access
        self.memory = memory
        self.processes = Processes()
        self.cards = Cards(hub)

"""The view `overview`: everything at a glance, and the curves of the last hour.

`overview` sends all cards and what is said of the daemon, and then what has changed: a change of a server's
state at once, figures once a second. `history` sends the last hour, and each step of it as it ends.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import anyio
import msgspec
from starlette.routing import Route

from mcpx.core.daemon.status import PartStatus
from mcpx.core.daemon.status_snapshot import daemon_status
from mcpx.core.events.history import NOTHING, STEP_S, STEPS
from mcpx.core.events.stats import UNNAMED
from mcpx.core.gateway.clients.attached import AttachedClient
from mcpx.core.system.endpoint import Endpoint
from mcpx.page.cards import Card, OpenPage, coarse
from mcpx.page.events import Topic

EVERY_S: Final = 1.0  # between figures
TOGETHER_S: Final = 0.1  # in which changes of states become one piece of news
MAX_NODES: Final = 200  # that are shown
MAX_CLIENTS: Final = 200  # that are shown
News = dict[str, Any]


def routes(page: OpenPage) -> list[Route]:
    """Its requests."""
    del page
    return []


async def overview(page: OpenPage, _argument: str) -> AsyncGenerator[News, None]:
    """All there is, then what has changed."""
    fleet, seen = page.hub.fleet, _Seen(page)
    while True:
        version = fleet.version
        if news := seen.news():
            yield news
        with anyio.move_on_after(TOGETHER_S):
            await anyio.sleep_forever()
        with anyio.move_on_after(EVERY_S - TOGETHER_S):
            while fleet.version == version:
                await fleet.news.wait()


class _Seen:
    """The news that one follower has been sent."""

    def __init__(self, page: OpenPage) -> None:
        self._page = page
        self._cards: dict[str, Card] = {}
        self._sent: News = {}

    def news(self) -> News:
        """Return what has changed since the last time."""
        page = self._page
        pids = (session.pid for session in page.hub.upstreams.values())
        page.processes.refresh([pid for pid in pids if pid is not None])
        return {**self._changed(self._about()), **self._changed_cards()}

    def _about(self) -> dict[str, tuple[Any, Any]]:
        """Gather what is not of one server: each with its value, and what that is compared by."""
        attached = _attached(self._page)
        clients = _clients(self._page, attached)
        order = list(self._page.hub.upstreams)
        daemon = _daemon(self._page, len(attached))
        problems = _problems(daemon)
        daemon.pop("environment", None)  # long, and always the same
        nodes, cluster = _nodes(self._page), _cluster(self._page)
        return {
            "nodes": (nodes, nodes),
            "cluster": (cluster, cluster),
            "daemon": (daemon, {**daemon, "uptime_s": coarse(daemon["uptime_s"])}),
            "order": (order, order),
            "clients": (clients, [{**each, "since_s": coarse(each["since_s"])} for each in clients]),
            "problems": (problems, problems),
        }

    def _changed(self, about: dict[str, tuple[Any, Any]]) -> News:
        changed = {name: now for name, (now, key) in about.items() if self._sent.get(name) != key}
        self._sent = {name: key for name, (_, key) in about.items()}
        return changed

    def _changed_cards(self) -> News:
        now = self._page.cards.now(self._page.processes.uses)
        before, self._cards = self._cards, now
        changed = [card for name, card in now.items() if before.get(name) is not card]
        removed = [name for name in before if name not in now]
        news: News = {}
        if changed:
            news["servers"] = changed
        if removed:
            news["removed"] = removed
        return news


def _daemon(page: OpenPage, clients: int) -> News:
    hub, processes = page.hub, page.processes
    shown: News = msgspec.to_builtins(daemon_status(hub, msgspec.UNSET, clients=clients))
    shown["cpu_share"] = processes.own_cpu
    shown["memory_bytes"] = processes.own_memory
    shown["tokens"] = {
        name: {"direct": count.direct, "spent": count.spent}
        for name, count in (("since_start", hub.meter.since_start().total), ("all_time", hub.meter.total()))
    }
    return shown


def _nodes(page: OpenPage) -> list[News]:
    """The nodes of the cluster; none without one. Figures that change all the time are rounded."""
    found = [] if page.hub.cluster is None else page.hub.cluster.nodes()
    found.sort(key=lambda node: (node.state == "ready", node.name))
    return [
        {
            "name": node.name,
            "host": node.host,
            "state": node.state,
            "problem": node.problem or None,
            "sessions": node.sessions,
            "servers": node.servers,
            "memory_bytes": round(node.servers_memory_bytes, -6),
            "free_bytes": None if node.memory_free_bytes is None else round(node.memory_free_bytes, -8),
            "load": None if node.load is None else round(node.load, 1),
        }
        for node in found[:MAX_NODES]
    ]


def _cluster(page: OpenPage) -> News | None:
    """The link to the cluster and its gateways; None without one."""
    if page.hub.cluster is None:
        return None
    shown: News = msgspec.to_builtins(page.hub.cluster.status())
    return {**shown, "gateways": shown["gateways"][:MAX_NODES]}


def _problems(daemon: News) -> list[str]:
    """Name what is wrong with MCPX itself, in words."""
    audit, http, environment = (daemon.get(key) or {} for key in ("audit", "http", "environment"))
    said = {
        "The configuration file cannot be used; MCPX still uses what it read before: {}": daemon.get(
            "config_error"
        ),
        "What servers offer cannot be pinned: {}": daemon.get("pins_error"),
        "The audit log cannot be written: {}": audit.get("problem"),
        "HTTP is not served: {}": http.get("error"),
        "The login shell's environment is not to be had: {}": environment.get("problem"),
    }
    parked = [msgspec.convert(each, PartStatus).text for each in daemon.pop("parked", ())]
    return [*(text.format(what) for text, what in said.items() if what), *parked]


def _attached(page: OpenPage) -> list[AttachedClient]:
    """The clients that are attached, the last to come first."""
    return page.clients.attached.all()[::-1]


def _clients(page: OpenPage, attached: list[AttachedClient]) -> list[News]:
    calls = {name: count.calls for name, count in page.hub.meter.since_start().clients.items()}
    return [_client(each, calls) for each in attached[:MAX_CLIENTS]]


def _client(client: AttachedClient, calls: Mapping[str, int]) -> News:
    return {
        "id": client.id,
        "name": client.name or None,
        "version": client.version or None,
        "title": client.title or None,
        "transport": client.transport,
        "endpoint": _endpoint(client.endpoint),
        "profile": client.endpoint.profile,
        "since_s": round(client.since_s, 3),
        "calls": calls.get(client.name or UNNAMED, 0),
    }


def _endpoint(endpoint: Endpoint) -> str | None:
    """By which endpoint it came, in words; None for the one that shows all."""
    if endpoint.server is not None:
        return f"server {endpoint.server}, as it is"
    if endpoint.peer is not None:
        return f"server {endpoint.peer}, for another MCPX"
    if endpoint.only is not None:
        return f"only {', '.join(endpoint.only)}"
    return None


async def history(page: OpenPage, _argument: str) -> AsyncGenerator[News, None]:
    """The last hour, then each step as it ends, and how the one that runs has changed.

    Where the clock was set back, it begins again.
    """
    kept = page.hub.history
    last, running = sys.maxsize, NOTHING
    while True:
        if kept.ended() < last:
            last = kept.ended()
            yield {"step_s": STEP_S, "until": (last + 1) * STEP_S, "points": kept.points()}
        while last < (ended := kept.ended()):
            last = max(last + 1, ended - STEPS)
            yield {"point": kept.point(last), "until": (last + 1) * STEP_S}
        before, running = running, kept.running()
        if running != before:
            yield {"open": running}
        await anyio.sleep(EVERY_S)


TOPICS: Final[Mapping[str, Topic]] = {"overview": overview, "history": history}

"""What is played at a site while its clients call: nodes lost, the gateway killed, nodes drained and added.

Each returns what was seen; what calls were told is in the site's tally.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from tests.cluster import machine
from tests.cluster.kills.site import SHARED, Site, say
from tests.cluster.kills.tally import Loss

FROZEN_S = 2.5  # longer than a node may be silent
APART_S = 1.8  # between losses, for callers to know of one before the next
TWO_AT_ONCE = 0.1  # the share of losses with another one at the same time
HOW = ("frozen",) * 5 + ("killed",) * 3 + ("frozen and killed",) * 2
DRAIN_S = "30"


class GatewayKill(msgspec.Struct):
    """A gateway that was killed: the seconds until all servers answered again, and what was not as before."""

    answered_after: float
    odd: list[str]


class Drain(msgspec.Struct):
    """A node that was drained under load."""

    node: str
    took: float
    moved: int
    calls: int
    odd: list[str]


# --- nodes


async def lose_nodes(
    site: Site, number: int, *, seed: int = 1, how: tuple[str, ...] = HOW, until: float = math.inf
) -> list[Loss]:
    """Lose nodes, one after the other and at times two at once, each while others answer.

    So many, or as many as can be lost `until` then.
    """
    choice, begin = random.Random(seed), len(site.losses)
    async with anyio.create_task_group() as returning:
        while (done := len(site.losses) - begin) < number and time.time() < until:
            up = await site.up()
            busy = sorted((name for name in up if up[name]["placed"]), key=lambda _: choice.random())
            if len(up) < 2 or not busy:
                await anyio.sleep(0.1)
                continue
            both = len(up) == len(site.far) > 2 and number - done > 1 and choice.random() < TWO_AT_ONCE
            for name in busy[: 2 if both else 1]:
                returning.start_soon(_lose, site, name, choice.choice(how))
            await anyio.sleep(APART_S)
    await site.until_up(*site.far)
    await site.until_all_answer(time.time())
    return site.losses[begin:]


async def _lose(site: Site, name: str, how: str) -> None:
    loss = site.lose(name, how)
    placed = len(site.tally.elsewhere_after(loss))
    say(f"{len(site.losses):4} {name} {how}, {placed} sessions")
    if how == "frozen":
        await anyio.sleep(FROZEN_S)
        machine.thaw(sorted(loss.pids))
        return
    if how != "killed":
        await anyio.sleep(FROZEN_S)
        await anyio.to_thread.run_sync(machine.kill, site.cluster.raylets[name])
    await anyio.to_thread.run_sync(site.come_back, name)


# --- the gateway


async def kill_gateway(site: Site) -> GatewayKill:
    """Kill it in the middle of calls, and wait until all that was there answers again."""
    before, shims = site.tally.pids(time.time()), dict(site.load.shims)
    pid = site.house.pid
    assert pid is not None
    at = time.time()
    os.kill(pid, signal.SIGKILL)
    await site.until_all_answer(at)
    answered = time.time() - at
    after = site.tally.pids(time.time())
    odd = [f"{name} has ended" for name, shim in shims.items() if shim.process.poll() is not None]
    odd += [f"{name} was {before[name]}, is {after[name]}" for name in SHARED if after[name] != before[name]]
    return GatewayKill(answered, odd)


# --- drained, and added


async def drain(site: Site, name: str) -> Drain:
    """Drain a node under load, see that nothing of it is left and that no call suffered, and undrain it."""
    before, began = site.tally.pids(time.time()), time.time()
    there = {each for each, pid in before.items() if pid in _servers_under(site, name)}
    await anyio.to_thread.run_sync(site.run, "cluster", "drain", name, "--wait", DRAIN_S)
    took = time.time() - began
    left = (await site.rows())[name]["placed"]
    odd = [f"{each} is still on {name}" for each in left]
    await site.until_all_answer(time.time())
    calls = site.tally.told_between(began, time.time())
    odd += [
        f"{call.name} on {call.session}: {call.told} {call.more}" for call in calls if call.told != "done"
    ]
    after = site.tally.pids(time.time())
    odd += [f"{each} is where it was" for each in there if after[each] == before[each]]
    try:
        await site.until(lambda: not set(before.values()) & set(_servers_under(site, name)), within=10.0)
    except TimeoutError:
        odd.append(f"processes of servers are left on {name}")
    await anyio.to_thread.run_sync(site.run, "cluster", "undrain", name)
    return Drain(name, took, len(there), len(calls), odd)


async def add_node(site: Site, name: str, clients: int) -> tuple[int, int, float]:
    """Lose a node, add it again, and have new clients: how many sessions it got, of how many; when it was up.

    The sessions are those of clients that have their own.
    """
    site.lose(name, "killed")
    await site.until_all_answer(time.time())
    began = time.time()
    await anyio.to_thread.run_sync(site.come_back, name)
    await site.until_up(name)
    up = time.time() - began
    known = site.tally.pids(time.time()).keys()
    async with anyio.create_task_group() as tasks:
        for number in range(clients):
            tasks.start_soon(site.load.attached, f"new{number}")
        wanted = len(known) + clients
        await site.until(lambda: len(site.tally.pids(time.time())) == wanted, within=60.0)
        pids = site.tally.pids(time.time())
        on_it = _servers_under(site, name)
        say(str({each: site.node_of_process(pid) for each, pid in pids.items()}))
        new = [pid for session, pid in pids.items() if session not in known]
        tasks.cancel_scope.cancel()
    return sum(pid in on_it for pid in new), len(new), up


def _servers_under(site: Site, name: str) -> list[int]:
    return machine.processes_under(site.cluster.raylets[name])


# --- where servers are


async def placement(site: Site) -> list[tuple[str, str, str, str]]:
    """Of each session: what Ray's table of reservations says, the gateway, and its process's ancestor."""
    ids = {id_: name for name, id_ in site.cluster.ids.items()}
    groups = (await anyio.to_thread.run_sync(site.cluster.table))["groups"]
    rows, found = await site.rows(), list[tuple[str, str, str, str]]()
    for session, pid in sorted(site.tally.pids(time.time()).items()):
        if session in SHARED:
            reserved = {
                ids.get(node, node) for group, node in groups.items() if group.endswith(f"/{session}")
            }
            gateway = {name for name, row in rows.items() if session in row["placed"]}
        else:
            continue
        found.append((session, *map(_only, (reserved, gateway)), site.node_of_process(pid) or "none"))
    return found


def _only(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"

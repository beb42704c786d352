"""Whether a node takes one more session: by what is free, what it has promised, and what still starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcpx.cluster.node.reports import LOOK_S, PROMISE_S, Memory, Room
from supervisors import Phase
from tests.mcpx.cluster.nodes import spec

GIB = 1 << 30
SERVER = spec(settings={"sessions": "per_client"})


class Servers(list[Any]):
    """The servers of a node, of which a test says which there are."""

    def known(self, wanted: Any) -> Any:
        return next((each for each in self if each.spec == wanted), None)


class World:
    """A machine of 10 GB, the sessions that start on it, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.free = 100.0, 10 * GIB
        self.servers, self.children = Servers(), list[Any]()
        hub: Any = SimpleNamespace(fleet=SimpleNamespace(children=lambda: self.children))
        monkeypatch.setattr(anyio, "current_time", lambda: self.now)
        self.room = Room(hub, self.servers, lambda: Memory(10 * GIB, self.free))  # type: ignore[arg-type]

    def takes(self, wanted: int, server: Any = SERVER) -> bool:
        return self.room.why_not(server, wanted) is None

    def start(self, *, phase: Phase) -> None:
        life = SimpleNamespace(phase=phase)
        self.children.append(SimpleNamespace(name="s", queue=SimpleNamespace(lifecycle_or_none=lambda: life)))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_what_was_taken_counts_until_it_can_be_seen(world: World) -> None:
    assert [world.takes(4 * GIB) for _ in range(3)] == [True, True, False]
    world.now += PROMISE_S + LOOK_S
    world.free = 2 * GIB  # now it is in use
    assert not world.takes(4 * GIB)
    assert world.takes(GIB)


def test_a_share_of_the_memory_stays_free(world: World) -> None:
    world.free = GIB // 2
    assert not world.takes(1)
    assert world.takes(0)
    world.free -= 1
    world.now += 2 * LOOK_S
    assert not world.takes(0)


def test_sessions_that_wait_to_be_started_count_however_long_they_wait(world: World) -> None:
    world.servers.append(SimpleNamespace(spec=SERVER, name="s"))
    assert world.takes(4 * GIB)
    assert world.takes(4 * GIB)
    for _ in range(2):
        world.start(phase=Phase.STARTING)
    world.now += 2 * PROMISE_S
    assert not world.takes(4 * GIB)
    world.children.clear()
    world.start(phase=Phase.UP)
    world.now += 2 * LOOK_S
    assert world.takes(4 * GIB)


def test_a_shared_server_that_is_there_takes_any_number_of_gateways(world: World) -> None:
    shared = spec()
    assert not world.takes(20 * GIB, shared)
    world.servers.append(SimpleNamespace(spec=shared, name="s"))
    assert world.takes(20 * GIB, shared)


def test_a_machine_that_says_nothing_of_its_memory_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.room = Room(world.room._hub, world.room._servers, lambda: Memory(None, None))
    assert world.takes(1 << 46)

"""What is simulated: a day, everybody at once, and the death of a rack with more or less memory to spare."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from mcpx.cluster.placement import MEMORY_RESERVE, moves, spread
from scripts.lab.simulation.engine import Move, Simulation
from scripts.lab.simulation.figures import Figures
from scripts.lab.simulation.people import all_sessions, come_and_go, come_at_once
from scripts.lab.simulation.placing import Choose
from scripts.lab.simulation.world import HOUR, MINUTE, World

DRAIN_EVERY = 5 * MINUTE
FILLED_AT = HOUR  # in the last scenario, where time plays no part


def part(world: World, share: int) -> World:
    """A cluster of the same kind, of one n-th: as many people and racks for a node as before."""
    return replace(
        world,
        nodes=max(2, world.nodes // share),
        rack=max(1, world.rack // share),
        people=max(1, world.people // share),
        gateways=max(1, world.gateways // share),
    )


def day(world: World, *, choose: Choose = spread, leave: Move = moves) -> Figures:
    """A day: people come and go, nodes die, racks die, a rack joins, some nodes are drained."""
    simulation = Simulation(world, choose=choose, leave=leave)
    chance = simulation.random
    come_and_go(simulation)
    names = list(simulation.nodes)
    first, last = world.arrival[0] - HOUR, world.arrival[0] + world.stay[0]

    def die(which: list[str]) -> None:
        simulation.die([simulation.nodes[name] for name in which])

    def drain(name: str) -> None:
        simulation.drain(simulation.nodes[name])

    for name in chance.sample(names, world.deaths):
        simulation.at(chance.uniform(first, last), die, [name])
    for when in world.rack_deaths:
        start = chance.randrange(len(names) // world.rack) * world.rack
        simulation.at(when, die, names[start : start + world.rack])
    for number, name in enumerate(chance.sample(names, world.drains)):
        simulation.at(world.arrival[0] + number * DRAIN_EVERY, drain, name)
    for number, when in enumerate(world.joins):
        for each in range(world.rack):
            place = world.nodes + number * world.rack + each
            simulation.at(when, simulation.join, f"node-{place:05}", simulation.size(place))
    for minute in range(int(world.end // MINUTE)):
        simulation.at(minute * MINUTE, simulation.look)
    simulation.run(world.end)
    return simulation.finish()


@dataclass
class Herd:
    """Everybody at once, with that limit on each gateway's starts: how long until all sessions ran."""

    max_starting: int
    sessions: int
    all_up_s: float
    figures: Figures


def herd(world: World, *, within_s: float, max_starting: int) -> Herd:
    """All people open their sessions within so many seconds."""
    simulation = Simulation(replace(world, max_starting=max_starting))
    number = come_at_once(simulation, within_s)
    simulation.run(world.end)
    return Herd(max_starting, number, simulation.last_up, simulation.finish())


@dataclass
class Spare:
    """A rack that dies while that share of the memory is free: what was lost, and what found no node."""

    spare: float
    sessions: int
    lost: int
    refused: int
    figures: Figures


def without_a_rack(world: World, spare: float, *, gateways: int = 1) -> Spare:
    """Fill the nodes up to `spare` of what may be used, let a rack die, and place its sessions again.

    The memory of the nodes is chosen so that it comes out, for the people stay the same. A start takes no
    time here, and nobody comes or goes meanwhile: this is the most that gateways can do in the second in
    which none sees what the others place.
    """
    likewise = Simulation(world)
    sessions = all_sessions(likewise)
    usable = sum(node.total for node in likewise.nodes.values()) * (1 - MEMORY_RESERVE)
    node_gb = world.node_gb * sum(session.memory for session in sessions) / usable / (1 - spare)
    instant = {"starts_per_s": 1e9, "start_s": 0.0, "max_starting": len(sessions), "back_s": 2 * FILLED_AT}
    simulation = Simulation(replace(world, node_gb=node_gb, gateways=gateways, **instant))
    for session in all_sessions(simulation):
        simulation.at(simulation.random.uniform(0, FILLED_AT), simulation.opens, session)
    simulation.run(FILLED_AT + MINUTE)
    before = simulation.figures.refused
    simulation.die(list(simulation.nodes.values())[: world.rack])
    simulation.run(simulation.now + MINUTE)
    figures = simulation.figures
    return Spare(spare, len(sessions), figures.recoveries[-1].lost, figures.refused - before, figures)

"""The people of a simulated day: when each comes, which servers they use, when they go."""

from __future__ import annotations

import random

from mcpx.cluster.placement import Demand
from scripts.lab.simulation.engine import Simulation
from scripts.lab.simulation.parts import Session
from scripts.lab.simulation.world import MB, MINUTE, World

SHORTEST = 5 * MINUTE  # of a stay


def come_and_go(simulation: Simulation) -> None:
    """Have all people of the day come, open their sessions over their stay, and leave."""
    world, chance = simulation.world, simulation.random
    for person in range(world.people):
        comes = max(0.0, chance.gauss(*world.arrival))
        goes = comes + max(SHORTEST, chance.gauss(*world.stay))
        for session in sessions_of(person, simulation):
            opens = chance.uniform(comes, comes + (goes - comes) / 2)
            simulation.at(opens, simulation.opens, session)
            simulation.at(goes, simulation.ends, session)


def come_at_once(simulation: Simulation, within_s: float) -> int:
    """Have all people open all sessions that they use within so many seconds; how many that are."""
    sessions = all_sessions(simulation)
    for session in sessions:
        simulation.at(simulation.random.uniform(0, within_s), simulation.opens, session)
    return len(sessions)


def all_sessions(simulation: Simulation) -> list[Session]:
    """Every session that the people of the day use."""
    return [each for person in range(simulation.world.people) for each in sessions_of(person, simulation)]


def sessions_of(person: int, simulation: Simulation) -> list[Session]:
    """The sessions that a person uses on this day."""
    world, chance = simulation.world, simulation.random
    gateway = simulation.gateways[person % len(simulation.gateways)]
    return [
        Session(
            f"{person}/{server}",
            gateway,
            Demand(memory=int(typical(world, server) * world.seen)),
            real(world, server, chance),
        )
        for server in range(world.private_servers)
        if chance.random() < world.used
    ]


def typical(world: World, server: int) -> int:
    """What a session with that server takes, on average."""
    return int(world.sizes_mb[server % len(world.sizes_mb)] * MB)


def real(world: World, server: int, chance: random.Random) -> int:
    """What a single one takes."""
    return int(typical(world, server) * chance.uniform(1 - world.scatter, 1 + world.scatter))

"""The simulation of a cluster: a small one keeps its promises, and wrong decisions are found."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from msgspec.structs import replace

from mcpx.cluster.placement import MEMORY_RESERVE, candidates, moves, spread
from scripts.lab.documentation.regions import regions
from scripts.lab.simulation.report import day_table, herd_table, markdown, spare_table
from scripts.lab.simulation.scenarios import day, herd, without_a_rack
from scripts.lab.simulation.world import small
from tests.docs import pages


@pytest.fixture(scope="module")
def simulated():
    return day(small())


def test_a_day_of_twenty_nodes_keeps_every_promise(simulated):
    assert simulated.problems == []
    assert simulated.broken == 0
    assert simulated.opened > 1500
    assert simulated.fullest <= 1
    assert sum(each.lost for each in simulated.recoveries if each.nodes > 1) > 20  # a rack died
    assert len(simulated.drained_s) == 3
    assert simulated.again >= sum(each.lost for each in simulated.recoveries)
    assert len(simulated.waits) == simulated.placed - simulated.to_the_dead - stopped(simulated)


def stopped(figures):
    """Placings that never answered: their person left, or their node died, while they started."""
    never = figures.placed - figures.to_the_dead - len(figures.waits)
    assert 0 <= never < figures.placed / 50
    return never


def test_two_days_of_one_seed_are_the_same_and_of_another_are_not(simulated):
    assert day(small()).same() == simulated.same()
    assert day(small(seed=2)).same() != simulated.same()


@pytest.mark.parametrize("seed", range(2))
def test_a_cluster_that_is_nearly_full_refuses_and_never_overfills(seed):
    figures = day(small(seed=seed, node_gb=3.2, gateways=1, people=500))
    assert figures.problems == []
    assert figures.refused > 0
    assert 0.9 < figures.fullest <= 1


def test_memory_to_spare_is_what_a_dead_rack_needs():
    world = small(rack=2)  # a tenth of the cluster
    assert without_a_rack(world, 0.02).refused > 0
    assert without_a_rack(world, 0.2).refused == 0


def test_everybody_at_once_waits_for_the_limit_of_starts():
    slow, fast = (herd(small(), within_s=10, max_starting=limit) for limit in (2, 500))
    assert slow.sessions == fast.sessions == len(fast.figures.waits)
    assert slow.all_up_s > 2 * fast.all_up_s
    assert slow.figures.late > fast.figures.late


def test_nodes_refuse_what_several_gateways_together_place_on_them():
    crowded = without_a_rack(small(rack=2), 0.02, gateways=4).figures
    assert crowded.by_nodes > 0
    assert crowded.fullest < 1 - MEMORY_RESERVE + 0.01  # what a session takes beyond what such ones took
    assert crowded.too_full == 0


def first(nodes, demand):
    """Fills one node after the other, whatever it promised."""
    return next(iter(nodes), None)


def refuses_some(nodes, demand):
    fitting = candidates(nodes, demand)
    return None if len(fitting) < 20 else min(fitting, key=lambda node: node.sessions)


def onto_suspects(nodes, demand):
    return next((node for node in nodes if node.is_suspect), None) or spread(nodes, demand)


def stays(sessions, nodes):
    """Moves nothing off a node that is drained."""
    return [move for move in moves(sessions, nodes) if move.cause == "dead"]


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({"choose": first}, "takes nothing new|no memory for it"),
        ({"choose": refuses_some}, "was refused, and node-.* has room"),
        ({"choose": onto_suspects}, "takes nothing new"),
        ({"leave": stays}, "is still drained at the end"),
        ({"leave": lambda sessions, nodes: []}, "stays on node-.* which is dead"),
    ],
    ids=["first", "refuses", "suspect", "stays", "dead"],
)
def test_a_wrong_decision_is_found(wrong, found):
    world = small(node_gb=4, end=9.6 * 3600, suspect_s=0, given_up_s=20)  # everybody is still there
    assert any(re.search(found, problem) for problem in day(world, **wrong).problems)


def test_a_node_that_joins_does_not_get_every_session(monkeypatch):
    """Or it would be asked for more starts than it can do, while others have time."""
    nothing_fails = {"deaths": 0, "rack_deaths": (), "drains": 0}
    world = small(**nothing_fails, rack=1, joins=(9.1 * 3600,), people=2500, node_gb=64, gateways=1)
    world = replace(world, arrival=(9 * 3600, 60), starts_per_s=1.8, end=9.3 * 3600)
    limited = day(world)
    monkeypatch.setattr("mcpx.cluster.placement.MAX_STARTING", 1 << 30)
    assert max(day(world).waits) > 2 * max(limited.waits)


def test_the_tables_are_those_of_the_page(simulated):
    world = small()
    drawn = {
        "simulated-day": day_table(world, simulated),
        "simulated-herd": herd_table(world, [], 60.0),
        "simulated-spare": spare_table([]),
    }
    text = (pages.ROOT / "docs" / "scale.md").read_text()
    bodies = {name: body for kind, name, body in regions(text) if kind == "measured"}
    for name, table in drawn.items():
        columns = markdown(table).splitlines()[0].count("|")
        assert bodies[name].splitlines()[0].count("|") == columns
    first_cells = [line.split("|")[1].strip() for line in bodies["simulated-day"].splitlines()[2:]]
    shown = [row[0] for row in drawn["simulated-day"][1]]
    assert [cell for cell in first_cells if "dies" not in cell] == [
        cell for cell in shown if "dies" not in cell
    ]


def test_the_command_prints_the_table_and_its_exit_code_says_that_all_was_well():
    command = [sys.executable, "-m", "scripts.lab.simulation", "--nodes", "8", "--rack", "2"]
    command += ["--people", "50", "--deaths", "1", "--drains", "1", "--gateways", "1"]
    command += ["--only", "day", "--markdown"]
    done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    assert "| promises broken | 0 |" in done.stdout

"""What one node carries: a run with a few sessions, and the tables of it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from scripts.lab.benchmarks.process import Unmeasured
from scripts.lab.documentation.regions import regions
from scripts.lab.nodebench import cluster_report
from scripts.lab.nodebench.measure import Node, measure
from scripts.lab.nodebench.over_nodes import Group, OverNodes, Waiting
from scripts.lab.nodebench.report import markdown
from scripts.lab.nodebench.servers import KINDS, Kind
from tests.docs import pages

SMALL = KINDS[0]
REGIONS = ("node-sessions", "node-process", "scale-model")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_few_sessions_are_opened_called_and_ended() -> None:
    with tempfile.TemporaryDirectory(prefix="mcpx-") as folder:  # short, for the names of sockets
        node = measure(SMALL, Path(folder) / "node", sessions=6, people=3, seconds=0.1, idle_s=0.1)
    assert node.sessions == 6
    assert node.server_pss > 1 << 20
    assert node.server_rss >= node.server_pss
    assert node.server_threads == 1
    assert 3 <= node.descriptors <= 8  # its standard streams, and what waits for its end
    assert node.tasks >= 1
    assert 0 < node.starts_per_s < 10_000
    assert node.calls_per_s > 10
    assert node.first_call_s > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_that_does_not_run_is_no_figure() -> None:
    broken = Kind("broken", [sys.executable, "-c", "pass"], sys.executable)
    with (
        tempfile.TemporaryDirectory(prefix="mcpx-") as folder,
        pytest.raises(Unmeasured, match="broken has left"),
    ):
        measure(broken, Path(folder) / "node", sessions=2, people=2, seconds=0.1, idle_s=0)


def test_the_tables_are_those_of_the_page() -> None:
    figures = {field.name: 1.0 if field.type is float else 1 for field in msgspec.structs.fields(Node)} | {
        "kind": "real"
    }
    drawn = [part.splitlines()[:2] for part in markdown([Node(**figures)]).split("\n\n")]
    page = pages.ROOT / "docs" / "scale.md"
    heads = [body.splitlines()[:2] for body in measured(page, *REGIONS)]
    assert heads == drawn


def test_the_tables_of_a_cluster_are_those_of_the_page() -> None:
    group = Group(1, 1 << 20, 1)
    figures = {field.name: 1 for field in msgspec.structs.fields(OverNodes)}
    groups = dict.fromkeys(("servers", "nodes", "gateway", "Ray"), group)
    found = OverNodes(**figures | {"on_each": [1], "groups": groups, "before": groups})
    waiting = Waiting(nodes=1, sessions=1, calls_per_s=1, most_per_s=1, call_p50_s=1)
    drawn = cluster_report.markdown(found, [waiting]).split("\n\n")
    page = measured(pages.ROOT / "docs" / "scale.md", "cluster-groups", "cluster-sessions", "cluster-waiting")
    assert [body.splitlines()[:2] for body in page] == [part.splitlines()[:2] for part in drawn]
    assert [_names(body) for body in page[:2]] == [_names(part) for part in drawn[:2]]


def _names(table: str) -> list[str]:
    return [row.split("|")[1].strip() for row in table.splitlines()[2:]]


def measured(page: Path, *names: str) -> list[str]:
    found = {name: body for kind, name, body in regions(page.read_text()) if kind == "measured"}
    return [found[name] for name in names]

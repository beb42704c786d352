"""`scripts/faults` as its users run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.hostile import HostileSeen
from tests.faults.report import hostile_markdown
from tests.faults.rows import ROWS
from tests.faults.rows_hostile import HOSTILE_ROWS
from tests.forking.client import run

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left over is read from /proc")


def faults(*arguments):
    command = [sys.executable, "-m", "tests.faults", *arguments]
    return run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50)


def test_a_row_as_json():
    done = faults("--only", "command not found", "--json")
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert row["fault"] == "command not found"
    assert (row["caller_saw"], row["ended"]) == ("server_unavailable, not_sent", "parked")
    assert (row["left"], row["problems"]) == (0, [])
    assert done.stderr == "1/1 command not found\n"


def test_a_row_as_a_table():
    done = faults("--only", "exits mid-call")
    assert done.returncode == 0
    assert "server_died, unknown" in done.stdout
    assert "ok" in done.stdout


def test_a_hostile_row_as_json_and_as_a_table():
    done = faults("--hostile", "--only", "nothing out of the ordinary", "--json")
    (row,) = json.loads(done.stdout)
    assert row["fault"] == "nothing out of the ordinary"
    assert (row["caller_saw"], row["left"], row["memory_bound_mb"]) == ("the answer", 0, 32.0)
    assert row["neighbour_calls"] >= 100
    assert done.returncode == int(bool(row["problems"]))  # a loaded machine may be late, and then it says so
    assert "| the answer |" in hostile_markdown([HostileSeen(**row)])


def test_deaths_as_json():
    done = faults("--kills", "10", "--json")
    seen = json.loads(done.stdout)
    assert seen["load"]["kills"] == 10
    assert seen["load"]["problems"] == []
    assert done.returncode == int(bool(seen["late"]))  # a loaded machine may be late, and then it says so


def test_the_rows_are_named_and_a_wrong_name_is_told():
    assert faults("--list").stdout.splitlines() == [*ROWS, *HOSTILE_ROWS]
    assert faults("--hostile", "--list").stdout.splitlines() == list(HOSTILE_ROWS)
    done = faults("--only", "no such fault")
    assert done.returncode == 2
    assert "no fault's name contains 'no such fault'; --list names them" in done.stderr


def test_the_documentation_shows_every_row():
    page = (ROOT / "docs" / "faults.md").read_text("utf-8")
    assert [fault for fault in ROWS if f"| {fault} |" not in page] == []

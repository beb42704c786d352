"""The benchmark, as a smoke run: every target that is installed is measured, and a failure is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "lab" / "benchmarks"
PEERS = BENCH / ".venv-peers"
NAMES = (
    "direct",
    "mcpx",
    "mcpx, native",
    "mcpx, with rules",
    "mcpx, no audit",
    "mcp-compressor",
    "fastmcp proxy",
)
MISSING = (
    set()
    if (PEERS / ".installed").exists()
    else {"mcp-compressor", "fastmcp proxy"}  # scripts/bench installs them
)


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCH, "--rounds", "1", "--seconds", "0.02", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_measures_small_calls_of_every_target_and_names_those_that_are_not_installed() -> None:
    done = bench("--only", "calls", "--json")
    assert (done.returncode, bool(done.stdout)) == (bool(MISSING), True), done.stderr
    figures = json.loads(done.stdout)
    assert set(figures["calls"]) == {*NAMES} - MISSING
    for name in MISSING:
        assert f"not measured: {name}: not installed, run scripts/bench" in done.stderr
    assert all(rounds["p50_ms"][0] > 0 and rounds["per_s"][0] > 0 for rounds in figures["calls"].values())
    assert len(figures["goals"]) == (9 if not MISSING else 3)


def test_measures_calls_over_http_in_both_revisions_and_names_what_is_missing() -> None:
    done = bench("--only", "http", "--json")
    figures = json.loads(done.stdout)
    there = {name: its for name, its in figures["http"].items() if "missing" not in its}
    for target in ("mcpx, HTTP to stdio", "mcpx, HTTP to HTTP", "the HTTP server itself"):
        for era in ("2025-11-25", "2026-07-28"):
            its = there[f"{target}, {era}, JSON or SSE"]
            assert its["p50_ms"][0] > 0
            assert its["per_s"][0] > 0
            assert its["errors"] == [0]
            assert its["answers"] in {"JSON", "SSE"}
    measured = " ".join(goal["measure"] for goal in figures["goals"])
    assert "mcpx, HTTP to HTTP, 2026-07-28, JSON or SSE, p50, ms beyond the server's own" in measured
    for name, its in figures["http"].items():
        assert ("missing" in its) == (f"not measured: {name}: " in done.stderr)


def test_shows_tables_and_the_targets() -> None:
    done = bench("--only", "toon")
    assert done.returncode == bool(MISSING), done.stderr
    assert "share of the TOON encoder" in done.stdout


def test_what_cannot_be_measured_is_told_with_the_reason(tmp_path: Path) -> None:
    done = bench("--only", "start", "--catalogue", str(tmp_path / "nothing.json"), "--json")
    assert done.returncode == 1
    assert "not measured: start" in done.stderr
    assert "nothing.json" in done.stderr
    assert "start" not in json.loads(done.stdout)

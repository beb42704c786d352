"""`mcpx stats`: the table, as text, and where its numbers come from."""

from __future__ import annotations

import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from mcpx.cli.main import cli
from mcpx.cli.operations.stats import TERMINAL_BAR, render
from mcpx.core.events.stats import Count, Totals, report
from mcpx.core.events.stats_file import StatsFile
from mcpx.paths import configuration_folder


def totals(*rows):
    summed = Totals(since="2026-11-02")
    for client, server, tool, *count in rows:
        summed.add(client, server, tool, Count(*count))
    return summed


SUMMED = totals(
    ("claude-code", "git", "(menu)", 0, 4000, 300),
    ("claude-code", "git", "git_log", 41, 36_000, 9_500),
    ("cursor", "web", "fetch", 3, 8_000, 8_000),
    ("cursor", "(mcpx)", "(inspect)", 2, 0, 420),
)


def printed(given, *, width=80, terminal=False, **options):
    file = io.StringIO()
    surroundings = {"TERM": "xterm-256color"}
    console = Console(file=file, width=width, force_terminal=terminal, _environ=surroundings)
    console.print(render(given, **options))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_it_reads_like_this():
    started = totals(("claude-code", "git", "git_log", 1, 900, 90))
    assert printed(report(SUMMED, started)) == [
        "since 2026-11-02, 46 calls: 48k tokens directly, 18k through MCPX (62 % saved)",
        "since the start, 1 call: 900 tokens directly, 90 through MCPX (90 % saved)",
        "",
        "server calls direct mcpx saved",
        "git       41    40k 9.8k  76 % ######..................",
        "web        3   8.0k 8.0k   0 % #####",
        "(mcpx)     2      0  420     -",
    ]


def test_a_row_can_be_a_client_or_a_tool():
    assert [line.split()[0] for line in printed(report(SUMMED, None), by="client")[2:]] == [
        "client",
        "claude-code",
        "cursor",
    ]
    rows = printed(report(SUMMED, None), by="tool")[3:]
    assert [line.split("  ")[0].rstrip() for line in rows] == [
        "git git_log",
        "web fetch",
        "git (menu)",
        "(mcpx) (inspect)",
    ]


def test_it_fits_80_cells_and_has_an_end():
    wide = totals(*((f"c{n}", "s" * 100, "t" * 100 + str(n), 10**9, 10**12, 10**13) for n in range(100)))
    lines = printed(report(wide, wide), by="tool")
    assert max(map(len, lines[3:])) <= 80
    assert lines[-1] == "and 60 more: --json has them all"


def test_colours_and_blocks_are_for_a_terminal():
    assert "\x1b[" in "".join(printed(report(SUMMED, None), terminal=True, bar=TERMINAL_BAR))
    plain = "".join(printed(report(SUMMED, None)))
    assert "\x1b" not in plain
    assert plain.isascii()


def test_names_are_neither_obeyed_nor_read_as_markup():
    text = "\n".join(printed(report(totals(("c", "[bold]x\x1b[2J", "t", 1, 1, 1)), None)))
    assert "[bold]x" in text
    assert "\x1b" not in text


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(cli, ["stats", "--config", "there-is-none.json", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_without_a_daemon_it_is_read_from_the_file(state):
    assert run().startswith("nothing counted yet")
    StatsFile(configuration_folder("there-is-none.json")).add(SUMMED)
    assert run().splitlines()[0].startswith("since 2026-11-02, 46 calls")
    assert json.loads(run("--json")) == report(SUMMED, None)


def test_a_file_that_cannot_be_opened_is_an_error(state):
    (configuration_folder("there-is-none.json") / "stats.json").mkdir(parents=True)
    done = CliRunner().invoke(cli, ["stats", "--config", "there-is-none.json"])
    assert done.exit_code == 1
    assert "stats.json" in done.stderr

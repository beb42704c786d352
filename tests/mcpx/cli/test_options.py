"""The question before a change: on a terminal, without one, and for programs."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from mcpx.cli.options import LONGEST, duration_of
from tests.mcpx.terminal import CTRL_C, Terminal

# Spans of time on the command line.


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1 h", 3600), ("0d", 0)])
def test_a_number_and_a_unit_are_a_span(text, seconds):
    assert duration_of(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "1", "1y", "-1h", "1.5h", "999999w"])
def test_anything_else_is_none(text):
    assert duration_of(text) is None


def test_the_longest_has_dates_on_both_sides():
    now = datetime.now(UTC)
    assert now - LONGEST < now < now + LONGEST


COMMAND = """
import click
from mcpx.cli.options import changing_options

@click.command()
@changing_options
def change(*, config_path, manner):
    if not manner.agrees("Change \\x1b[2Jit?"):
        manner.exit_unchanged()
    print("changed", config_path)

change()
"""
ASKED = "Change \\x1b[2Jit? [y/N]: "


def on_terminal(*arguments: str, **pipes):
    return Terminal("-c", COMMAND, *arguments, env=os.environ, **pipes)


def without(*arguments: str, given: str = "y\n"):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize(
    ("typed", "code", "said"), [("y\r", 0, "changed None"), ("\r", 1, "nothing was changed")]
)
def test_a_person_is_asked(typed, code, said):
    with on_terminal() as terminal:
        end = terminal.wait_for(ASKED)
        terminal.type(typed)
        assert terminal.end() == code
        assert said in terminal.written[end:]


def test_an_interrupted_question_changes_nothing():
    with on_terminal() as terminal:
        terminal.wait_for(ASKED)
        terminal.type(CTRL_C)
        assert terminal.end() != 0
        assert "changed" not in terminal.written


@pytest.mark.parametrize("pipe", ["stdin", "stderr"])
def test_without_a_terminal_at_either_end_nobody_is_asked(pipe):
    with on_terminal(**{pipe: subprocess.DEVNULL}) as terminal:
        assert terminal.end() == 1
        assert "[y/N]" not in terminal.written


def test_without_a_terminal_only_yes_counts():
    refused = without()
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "nothing was changed; to do it: mcpx --yes\n"
    agreed = without("--yes", "--config", "x.json")
    assert (agreed.returncode, agreed.stdout, agreed.stderr) == (0, "changed x.json\n", "")


def test_a_dry_run_changes_nothing_whatever_else_is_said():
    done = without("--dry-run", "--yes")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "nothing was changed: --dry-run\n"


def test_programs_are_never_asked():
    with on_terminal("--json") as terminal:
        assert terminal.end() == 1
        assert "[y/N]" not in terminal.written

"""`mcpx` alone: five lines on where things stand, and the next command, at a terminal and in a pipe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcpx.cli.operations.running import Standing, lines, next_step
from tests.mcpx.cli.setup.ten_clients import environment, make_home, mcpx
from tests.mcpx.serving import run_cli
from tests.mcpx.terminal import Terminal

HERE = Standing(file="/c.json", exists=True, with_mcpx=["Cursor"], servers=[{"name": "a", "state": "ready"}])


def changed(**fields):
    return replace(HERE, **fields)


def of(*states):
    return [{"name": f"s {number}", "state": state} for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("standing", "command"),
    [
        (changed(exists=False), "mcpx setup"),
        (changed(exists=False, with_mcpx=[]), "mcpx add NAME -- COMMAND"),
        (changed(problem="c.json:1:1: wrong"), "mcpx check "),
        (changed(servers=[]), "mcpx add NAME -- COMMAND"),
        (changed(servers=of("parked", "needs sign-in")), "mcpx login 's 1'"),
        (changed(servers=of("ready", "parked")), "mcpx doctor "),
        (changed(upgrade={"installed": "9", "command": "mcpx daemon restart"}), "mcpx daemon restart "),
        (changed(with_mcpx=[], without=["Zed"]), "mcpx setup "),
        (HERE, "mcpx ui "),
    ],
)
def test_what_is_worst_is_next(standing, command):
    assert next_step(standing).startswith(command)


def test_faults_come_first_and_are_named():
    said = [*lines(changed(servers=of("ready", "ready", *["parked"] * 4, "needs setup")))]
    assert len(said) == 5
    assert said[1] == "servers: 4 parked (s 2, s 3, s 4, ...), 1 needs setup (s 6), 2 ready"


def test_at_a_terminal_it_says_where_things_stand_and_what_is_next(tmp_path):
    make_home(tmp_path)
    env = {name: value for name, value in environment(tmp_path).items() if value is not None}
    with Terminal("-m", "mcpx", env={**env, "LANG": "C.UTF-8"}) as terminal:
        assert terminal.end() == 0
        said = terminal.written
    assert "not set up yet, there is no ~/.config/mcpx/config.json" in said
    assert "next: mcpx setup" in said
    assert mcpx(tmp_path, "setup", "cursor", "--yes", "--no-start").exit_code == 0
    said = mcpx(tmp_path).output
    assert "2 servers in ~/.config/mcpx/config.json" in said
    assert "clients with MCPX: Cursor\n" in said


def test_in_a_pipe_without_a_configuration_it_says_how_to_begin(tmp_path):
    done = run_cli(tmp_path, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.endswith("; to begin: mcpx setup\n")

"""Commands that look at a daemon, typed at a terminal."""

from __future__ import annotations

import os
import signal

import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import environment
from tests.mcpx.terminal import CTRL_C, CTRL_Z, Terminal

ALTERNATE, ORDINARY = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def watching(house):
    """`mcpx status --watch` on a terminal, with a daemon of three servers."""
    house.write({name: entry() for name in ("first", "second", "third")})
    assert house.run("daemon", "start").returncode == 0
    command = ("-m", "mcpx", "status", "--watch", "--config", house.config)
    with Terminal(*command, env=environment(house.folder), rows=30) as terminal:
        assert terminal.wait_for(ALTERNATE) < terminal.wait_for("third")
        yield terminal


def test_watch_fits_the_window_and_leaves_it_as_it_was(watching):
    end = watching.wait_for("q quits")
    assert "more" not in watching.written
    watching.resize(rows=6, columns=80)
    watching.wait_for("more below", after=end)
    watching.type("q")
    assert watching.end() == 0
    assert watching.written.count(ALTERNATE) == watching.written.count(ORDINARY) == 1


def test_watch_outlives_a_restart_of_the_daemon(house, watching):
    old = house.pid
    assert house.run("daemon", "stop").returncode == 0
    end = watching.wait_for("no daemon serves")
    assert house.run("daemon", "start").returncode == 0
    watching.wait_for(f"pid {house.pid}", after=end)
    assert house.pid != old
    watching.type(CTRL_C)
    assert watching.end() == 130
    assert "Aborted" not in watching.written


def test_a_terminal_is_as_it_was_after_a_signal_too(watching):
    os.kill(watching.process.pid, signal.SIGTERM)
    assert watching.end() == 128 + signal.SIGTERM
    assert watching.written.endswith(ORDINARY + "\x1b[?25h")


def test_a_watch_that_is_stopped_gives_the_terminal_back_until_it_goes_on(watching):
    end = watching.wait_for("q quits")
    watching.type(CTRL_Z)
    # nobody controls jobs here, so the system does not stop it, and it goes on at once
    back = watching.wait_for(ORDINARY + "\x1b[?25h", after=end)
    watching.wait_for("third", after=watching.wait_for(ALTERNATE, after=back))
    watching.type("q")
    assert watching.end() == 0

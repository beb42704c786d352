"""Commands that look at a daemon, typed at a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import PATIENCE_S, environment
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


pytestmark = pytest.mark.timeout(120)
IN_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # of the session that this process leads
for number in (0, 1, 2):
    os.dup2(terminal, number)
os.execv(sys.executable, [sys.executable, "-m", "mcpx", *sys.argv[2:]])
"""


@pytest.mark.anyio
async def test_the_configuration_is_read_again(house):
    house.write({"s": entry()}, watch_config=False)
    assert house.run("daemon", "start").returncode == 0
    pid = house.pid
    assert pid is not None
    house.write({"s": entry(), "added": entry()}, watch_config=False)
    os.kill(pid, signal.SIGHUP)
    await until(lambda: [line["added"] for line in events(house, "config.reloaded")] == [["added"]])
    (house.folder / "config.json").write_text("{")
    os.kill(pid, signal.SIGHUP)
    await until(lambda: events(house, "config.unusable"))
    assert [server["name"] for server in house.status()["servers"]] == ["s", "added"]
    assert house.pid == pid


def events(house, name: str) -> list[dict]:
    return [line for line in house.log() if line["event"] == name]


def test_in_a_terminal_it_is_the_end_when_that_is_closed(house):
    house.write({"s": entry()})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", IN_TERMINAL, os.ttyname(theirs), "daemon", "run"]
    with subprocess.Popen([*command, "--config", house.config], start_new_session=True) as daemon:
        try:
            shown_until(ours, b"socket.listening")
            os.close(theirs)
            os.kill(daemon.pid, signal.SIGHUP)  # the terminal is there: somebody asks for a reload
            shown_until(ours, b"config.reloaded")
            assert house.pid == daemon.pid
        finally:
            os.close(ours)
        assert daemon.wait(PATIENCE_S) == 0


def shown_until(terminal: int, text: bytes) -> None:
    shown = b""
    while text not in shown:
        shown += os.read(terminal, 65536)

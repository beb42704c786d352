"""SIGHUP: the daemon reads its configuration again; one in a terminal ends when that is closed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.mcpx.core.daemon.daemons import until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import PATIENCE_S

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

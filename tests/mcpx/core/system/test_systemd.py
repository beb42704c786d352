"""The line to systemd, with a real datagram socket at the other end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager

import anyio
import pytest

from mcpx.core.system.systemd import Notifier
from mcpx.parts import open_hub
from tests.mcpx.scripted import PATIENCE_S, config_of, entry
from tests.mcpx.serving import serving, write_config

pytestmark = pytest.mark.anyio


class Manager:
    """A service manager: hears datagrams."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)
        self.name = "@" + address[1:] if address.startswith("\0") else address
        self.heard = []

    def drain(self):
        try:
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return self.heard

    async def hear(self, *lines, count=1):
        """Wait for datagrams that hold these lines; when they have come."""
        with anyio.fail_after(PATIENCE_S):
            while len(self.of(*lines)) < count:
                await anyio.wait_readable(self.socket)
        return time.monotonic()

    def of(self, *lines):
        return [each for each in self.drain() if set(lines) <= set(each.splitlines())]


@contextmanager
def managing(address):
    manager = Manager(str(address))
    try:
        yield manager
    finally:
        manager.socket.close()


@pytest.fixture
def manager(tmp_path):
    with managing(tmp_path / "notify") as made:
        yield made


def kept(given, **more):
    return {"NOTIFY_SOCKET": given.name, **more}


def test_without_a_service_manager_nothing_is_said_and_nothing_fails(manager):
    for address in ("", "relative/path", "vsock:2:1"):
        quiet = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
        quiet.send("READY=1")
        assert not quiet.enabled
        assert quiet.watchdog_s is None
    assert manager.drain() == []


def test_several_assignments_are_one_datagram_and_none_can_be_smuggled_in(manager):
    Notifier(kept(manager)).send("READY=1", "STATUS=two\nMAINPID=1")
    assert manager.drain() == ["READY=1\nSTATUS=two MAINPID=1"]


@pytest.mark.linux("abstract sockets")
def test_an_abstract_socket_is_reached():
    with managing(f"\0mcpx-test-{os.getpid()}-{time.monotonic_ns()}") as manager:
        Notifier(kept(manager)).send("READY=1")
        assert manager.drain() == ["READY=1"]


def test_a_manager_that_is_gone_or_full_costs_nothing(tmp_path, manager):
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).send("READY=1")
    Notifier({"NOTIFY_SOCKET": "/" + "long" * 100}).send("READY=1")
    full = Notifier(kept(manager))
    began = time.monotonic()
    for _ in range(5000):  # far beyond any queue of datagrams
        full.send("STATUS=" + "x" * 1000)
    assert time.monotonic() - began < 10
    assert 0 < len(manager.drain()) < 5000
    full.send("READY=1")
    assert manager.drain()[-1] == "READY=1"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "our own"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_kept_where_it_is_meant_for_this_process(manager, given, seconds):
    if given.get("WATCHDOG_PID") == "our own":
        given = given | {"WATCHDOG_PID": str(os.getpid())}
    assert Notifier(kept(manager, **given)).watchdog_s == seconds


def test_a_reload_is_told_with_its_time_and_ends_ready_even_if_it_fails(manager):
    before = time.monotonic_ns() // 1000
    with pytest.raises(ZeroDivisionError), Notifier(kept(manager)).reloading():
        raise ZeroDivisionError
    reloading, ready = manager.drain()
    first, stamp = reloading.splitlines()
    assert (first, ready) == ("RELOADING=1", "READY=1")
    name, _, usec = stamp.partition("=")
    assert name == "MONOTONIC_USEC"
    assert before <= int(usec) <= time.monotonic_ns() // 1000


async def test_the_manager_hears_of_a_reload_of_the_hub(manager):
    config = config_of({"s": entry()})
    async with open_hub(config, reloading=Notifier(kept(manager)).reloading) as hub:
        await hub.reload(config_of({"s": entry(), "t": entry()}))
    reloading, ready = manager.drain()
    assert reloading.startswith("RELOADING=1\n")
    assert ready == "READY=1"


async def test_a_loop_that_hangs_gives_no_sign_of_life_and_one_that_runs_does(manager):
    notifier = Notifier(kept(manager, WATCHDOG_USEC="200000"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(notifier.watch, lambda: "1 of 1 servers ready")
        await manager.hear("WATCHDOG=1", count=3)
        so_far = len(manager.of("WATCHDOG=1"))
        time.sleep(0.5)  # noqa: ASYNC251 - this is the hang
        assert len(manager.of("WATCHDOG=1")) == so_far
        await manager.hear("WATCHDOG=1", count=so_far + 1)
        tasks.cancel_scope.cancel()
    assert len(manager.of("STATUS=1 of 1 servers ready")) == 1  # it did not change


async def test_a_served_mcpx_says_ready_lives_and_says_that_it_is_stopping(tmp_path, manager):
    config = write_config(tmp_path, {"s": entry()})
    arguments = ("serve", config, "--transport", "http", "--port", "0")
    async with serving(tmp_path, *arguments, **kept(manager, WATCHDOG_USEC="400000")) as served:
        began = await manager.hear("READY=1")
        await manager.hear("STATUS=1 of 1 servers ready")
        ended = await manager.hear("WATCHDOG=1", count=6)
        assert ended - began < 5
        os.kill(served.process.pid, signal.SIGTERM)
        await manager.hear("STOPPING=1")
        assert await served.exit_code() == 0
    heard = [line for each in manager.drain() for line in each.splitlines()]
    assert heard.count("READY=1") == heard.count("STOPPING=1") == 1


def test_the_reference_sender_and_this_say_the_same(manager):
    Notifier(kept(manager)).send("READY=1", "STATUS=hello")
    [ours] = manager.drain()
    assert ours == "READY=1\nSTATUS=hello"  # as sd_notify(3) has it
    if shutil.which("systemd-notify"):
        command = ["systemd-notify", "--no-block", "--ready", "--status=hello"]
        subprocess.run(command, env={**os.environ, **kept(manager)}, check=True, timeout=PATIENCE_S)
        _, theirs = manager.drain()  # all that it has heard
        assert set(ours.splitlines()) <= set(theirs.splitlines())

"""The daemon with thousands of connections that say nothing: it answers, and its servers restart."""

from __future__ import annotations

import json
import resource
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.mcpx.core.daemon.daemons import processes, until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import serving, started_with

pytestmark = pytest.mark.anyio

MANY = 2000


@pytest.fixture(autouse=True)
def _enough_descriptors():
    """For the test's own ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < MANY + 200:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 200), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def crowd(family, address, said=b"", *, count=MANY, waits=False):
    """Connections that say this and no more. Only if it `waits`, those are waited for that find no place."""
    with ExitStack() as stack:
        for _ in range(count):
            joined = stack.enter_context(socket.socket(family))
            joined.setblocking(family == socket.AF_UNIX or waits)
            joined.connect_ex(address)
            if said:
                joined.send(said)
        yield


def check(house, pid):
    """The daemon answers, and restarts a server; the sum of its descriptors is bounded."""
    status = house.status()
    assert status["daemon"]["pid"] == pid
    assert status["servers"][0]["state"] == "ready"
    done = house.run("restart", "s")
    assert done.returncode == 0, done.stderr
    assert house.status()["servers"][0]["state"] == "ready"
    if (opened := Path(f"/proc/{pid}/fd")).exists():
        assert len(list(opened.iterdir())) < 700


@pytest.mark.parametrize("said", [b"", b'{"mcpx": "sta'])
async def test_silence_on_the_socket_costs_nobody_else_anything(house, ears, said):
    house.write({"s": entry(ears)}, startup_wait=20)
    async with serving(house.folder, "daemon", "run", "--config", house.config) as daemon:
        await daemon.logged("upstream.ready")
        with crowd(socket.AF_UNIX, str(house.place.socket), said):
            check(house, daemon.process.pid)
            async with house.attached() as client:
                await client.initialize()
                answer = await client.call(
                    "exec", server_name="s", tool_name="echo", arguments={"text": "hi"}
                )
                assert answer["content"][0]["text"] == "hi"
        said_so = [line for line in daemon.log if line["event"].startswith("socket.")]
        assert [line["event"] for line in said_so].count("socket.full") == 1
        assert len(said_so) < 10


async def test_silence_on_the_http_port_costs_nobody_else_anything(house, ears):
    house.write({"s": entry(ears)}, startup_wait=20, http={"port": 0, "max_connections": 256})
    async with serving(house.folder, "daemon", "run", "--config", house.config) as daemon:
        await daemon.logged("upstream.ready")
        url = urlsplit((await daemon.logged("http.listening"))["url"])
        with crowd(socket.AF_INET, (url.hostname, url.port)):
            await daemon.logged("http.full")
            check(house, daemon.process.pid)
        assert len([line for line in daemon.log if line["event"] == "http.full"]) == 1
        assert daemon.other_stderr == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
async def test_a_reload_among_more_connections_than_select_can_see_reads_shell_and_secret(house, ears):
    (house.folder / ".profile").write_text("export OF_LOGIN=yes\n")
    secret = f"cat {house.folder}/secret"
    (house.folder / "secret").write_text("old")
    server = {**entry(ears), "env": {"KEY": f"${{OF_LOGIN}} ${{cmd:{secret}}}"}}
    house.write({"s": server}, startup_wait=20, http={"port": 0, "max_connections": MANY})
    run = ("daemon", "run", "--config", house.config)
    async with serving(house.folder, *run, HOME=str(house.folder), SHELL="/bin/sh") as daemon:
        await daemon.logged("upstream.ready")
        url = urlsplit((await daemon.logged("http.listening"))["url"])
        with crowd(socket.AF_INET, (url.hostname, url.port), count=1100, waits=True):
            await until(lambda: opened(daemon.process.pid).issuperset(range(1024)))
            (house.folder / "secret").write_text("new")
            done = house.run("reload")
            assert done.returncode == 0, done.stderr
            after = await ears.hear("started", count=2)
        assert started_with(after["pid"], "KEY", "yes new")
        assert processes(secret) == []


async def test_the_limit_of_descriptors_is_raised_and_children_keep_theirs(house, ears):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    house.write({"s": entry(ears)}, startup_wait=20)
    try:
        run = ("daemon", "run", "--config", house.config)
        async with serving(house.folder, *run, real=True) as daemon:  # with the limits of this process
            await daemon.logged("upstream.ready")
            child = (await ears.hear("started"))["pid"]
            assert limit(daemon.process.pid) == min(hard, 65536)
            assert limit(child) == 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert json.dumps(daemon.log)


def opened(pid: int) -> set[int]:
    return {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}


def limit(pid: int) -> int:
    limits = Path(f"/proc/{pid}/limits")
    if not limits.exists():
        pytest.skip("limits are read from /proc")
    line = next(line for line in limits.read_text().splitlines() if line.startswith("Max open files"))
    return int(line.split()[3])

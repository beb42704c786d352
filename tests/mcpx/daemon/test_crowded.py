"""The daemon's doors with thousands of connections that say nothing: it answers, and its servers restart."""

from __future__ import annotations

import json
import resource
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import serving

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
def crowd(family, address, said=b""):
    """Connections that say this and no more. Those that find no place are not waited for."""
    with ExitStack() as stack:
        for _ in range(MANY):
            joined = stack.enter_context(socket.socket(family))
            joined.setblocking(family == socket.AF_UNIX)
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


def limit(pid: int) -> int:
    limits = Path(f"/proc/{pid}/limits")
    if not limits.exists():
        pytest.skip("limits are read from /proc")
    line = next(line for line in limits.read_text().splitlines() if line.startswith("Max open files"))
    return int(line.split()[3])

"""A daemon that was started with nothing: what its servers are given is what their clients have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.system.environment import CHILD_MARK, environment_of_client
from tests.forking.client import run
from tests.mcpx.core.daemon.daemons import House, until
from tests.mcpx.scripted import entry
from tests.mcpx.serving import environment

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc"),
    pytest.mark.anyio,
]
OFFICE = {
    "HTTPS_PROXY": "http://me:pw@proxy.example:3128",
    "no_proxy": "localhost",
    "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    "SSL_CERT_FILE": "/etc/all.pem",
    "DISPLAY": ":1",
    "XAUTHORITY": "/home/me/.Xauthority",
    "SSH_AUTH_SOCK": "/run/agent-1",
    "UV_INDEX_URL": "https://pypi.example/simple",
    "GITHUB_TOKEN": "ghp-x",
    "MY_API_KEY": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "PGPASSWORD": "p",
    "LD_LIBRARY_PATH": "/x",
    "MY_OWN": "1",
}


@pytest.fixture
def start(house: House) -> Callable[..., None]:
    """Starts a daemon in an empty environment, with these servers."""

    def begin(servers: dict[str, Any]) -> None:
        house.write(servers, login_shell=False)
        command = [sys.executable, "-m", "mcpx", "daemon", "start", "--config", house.config]
        state = {"MCPX_STATE_DIR": str(house.folder / "state"), "MCPX_LOG_FORMAT": "json"}
        done = run(command, env=state, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr

    return begin


def environ_of(house: House, name: str) -> dict[str, str]:
    """The variables that the process of a server was started with; none while there is none."""
    pid = next(each["pid"] for each in house.status()["servers"] if each["name"] == name)
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    return dict(each.split("=", 1) for each in os.fsdecode(data).split("\0") if each)


def stated(house: House, more: Mapping[str, str]) -> dict[str, str]:
    """What a client with this environment tells the daemon."""
    return environment_of_client(environment(house.folder, **more))


async def call(client: Any, server: str) -> None:
    found = await client.call("exec", server_name=server, tool_name="echo", arguments={"text": "said"})
    assert found["content"][0]["text"] == "said"


async def test_a_server_is_given_the_stated_variables_of_its_client_and_no_others(house, start):
    start({"s": entry(), "own": {**entry(), "env": {"https_proxy": "http://own"}, "inherit": ["MY_*"]}})
    await until(lambda: all(each["state"] == "ready" for each in house.status()["servers"]))
    assert "HTTPS_PROXY" not in environ_of(house, "s")
    async with house.attached(**OFFICE) as client:
        await client.initialize()
        await call(client, "s")
        given = environ_of(house, "s")
        assert given.pop(CHILD_MARK)
        assert given == stated(house, OFFICE)
        assert {name for name in OFFICE if name in given} == set(list(OFFICE)[:8])
        assert not [name for name in given if any(w in name for w in ("KEY", "TOKEN", "SECRET", "PASSWORD"))]
        await call(client, "own")
        own = environ_of(house, "own")
        assert (own["https_proxy"], "HTTPS_PROXY" in own) == ("http://own", False)
        shown = house.run("status", "s").stdout
        assert "given by the client that attached last:" in shown
        assert "  HTTPS_PROXY=http://***@proxy.example:3128" in shown
        said = json.loads(house.run("status", "own", "--json").stdout)
        assert [each["name"] for each in said["servers"]] == ["own"]
        assert {"name": "https_proxy", "value": "***", "source": "its own env"} in said["variables"]
        found = json.loads(house.run("doctor", "--no-start", "--json").stdout)["findings"]
        (about,) = [each for each in found if each["subject"] == "environment"]
        assert "DISPLAY=:1" in about["text"]
        assert "pw@" not in json.dumps(about)


async def test_another_logins_display_counts_once_it_has_attached_and_a_used_server_keeps_its_own(
    house, start
):
    start({"s": entry()})
    other = {**OFFICE, "DISPLAY": ":2", "SSH_AUTH_SOCK": "/run/agent-2"}
    async with house.attached(**OFFICE) as first:
        await first.initialize()
        await call(first, "s")
        pid = house.status()["servers"][0]["pid"]
        async with house.attached(**other) as second:
            await second.initialize()
            await call(second, "s")
            assert house.status()["servers"][0]["pid"] == pid  # the first client's work is in it
            assert house.run("restart", "s").returncode == 0
            assert environ_of(house, "s")["DISPLAY"] == ":2"
            assert environ_of(house, "s")["SSH_AUTH_SOCK"] == "/run/agent-2"
            await call(second, "s")
    await house.joined(0)
    async with house.attached(**OFFICE) as third:  # the login that it was started in is gone
        await third.initialize()
        await call(third, "s")
        assert environ_of(house, "s")["DISPLAY"] == ":1"
    await house.joined(0)
    async with house.attached(**OFFICE) as again:
        await again.initialize()
        pid = house.status()["servers"][0]["pid"]
        await call(again, "s")
        assert house.status()["servers"][0]["pid"] == pid

"""A daemon that was started with nothing: what its servers are given is what their clients have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpx.core.system.environment import CHILD_MARK, LOGINS, environment_of_client
from tests.docs import pages
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


def documented():
    """The variables that the documentation says a server is given."""
    text = (pages.ROOT / "docs" / "configuration.md").read_text()
    table = text.partition("<!-- generated: environment -->")[2].partition("<!-- end -->")[0]
    return set(re.findall(r"`(\w+)`", table))


KEYS = (
    *(
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "GITHUB_TOKEN",
        "GH_HOST",
    ),
    *("NPM_TOKEN", "NPM_CONFIG__AUTH", "npm_config_//registry.npmjs.org/:_authToken", "UV_PUBLISH_PASSWORD"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_AUTH_CONFIG", "PGPASSWORD", "SSH_ASKPASS", "OPENAI_API_KEY"),
    *("VAULT_ADDR", "KUBECONFIG", "CLAUDE_PROJECT_SECRET", "UV_INDEX_PRIVATE_USERNAME", "TWINE_PASSWORD"),
)


async def test_the_documented_variables_are_those_that_a_server_is_given_and_none_is_a_key(house, start):
    known = documented()
    assert len(known) > 100
    start({"s": entry()})
    values = {name: f"/value/of/{name}" for name in known if name not in {"PATH", "HOME"}}
    async with house.attached(**values, **dict.fromkeys(KEYS, "a-secret-value")) as client:
        await client.initialize()
        await call(client, "s")
        given = environ_of(house, "s")
        assert set(given) == known | {CHILD_MARK}
        assert "a-secret-value" not in given.values()
        said = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
        assert not [name for name in given if any(word in name.upper() for word in said)]


OF_LOGINS = tuple(name for login in LOGINS for name in login.names)


async def own_environ(client, name, arguments):
    """The environment of the process that answers a client's call."""
    found = await client.request("tools/call", {"name": name, "arguments": arguments})
    pid = found["content"][0]["text"].removeprefix("pid ")
    data = await anyio.Path(f"/proc/{pid}/environ").read_bytes()
    return dict(each.split("=", 1) for each in os.fsdecode(data).split("\0") if each)


async def test_the_process_of_one_client_has_the_login_of_that_client(house, start):
    counts = {"tools/call count": [{"say": "pid @{pid}"}]}
    start({"own": {**entry(answers=counts), "sessions": "per_client"}})
    logins = [
        {"DISPLAY": ":1", "XAUTHORITY": "/one", "SSH_AUTH_SOCK": "/agent-1", "TZ": "Asia/Tokyo"},
        {"DISPLAY": ":2", "SSH_AUTH_SOCK": "/agent-2", "HTTPS_PROXY": "http://two"},
        {"SSH_AUTH_SOCK": "/agent-3"},  # by ssh: it has no display
    ]
    absent = dict.fromkeys(OF_LOGINS, "")
    async with AsyncExitStack() as stack:
        shims = [house.attached(**{**absent, **login}) for login in logins]
        shims.append(house.attached("--server", "own", **{**absent, **logins[0]}))
        clients = [await stack.enter_async_context(shim) for shim in shims]
        for client in clients:
            await client.initialize()
        call_of_own = {"server_name": "own", "tool_name": "count", "arguments": {}}
        calls = [*[("exec", call_of_own)] * len(logins), ("count", {})]
        for client, called, login in zip(clients, calls, [*logins, logins[0]], strict=True):
            given = await own_environ(client, *called)
            assert {name: given[name] for name in OF_LOGINS if given.get(name)} == {
                name: value for name, value in login.items() if name in OF_LOGINS
            }
            assert given.get("TZ", login.get("TZ")) == login.get("TZ", given.get("TZ"))

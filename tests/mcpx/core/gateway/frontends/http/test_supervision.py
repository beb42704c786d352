"""The HTTP side of a daemon: what is wrong with its port or token costs nobody else anything, and passes."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import httpx2
import pytest
import structlog

from mcpx.core.config import parse
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http import supervision as http_supervision
from mcpx.core.gateway.frontends.http.supervision import SupervisedHttp
from mcpx.parts import open_hub
from supervisors import Backoff
from tests.mcpx.core.daemon.daemons import until

pytestmark = pytest.mark.anyio
QUICK = Backoff(initial=0.01, cap=0.02)


@pytest.fixture
def taken():
    """A port that another program listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other


def config_on(port, where="c.json"):
    servers = {"s": {"command": "true", "disabled": True}}
    return parse(json.dumps({"mcpServers": servers, "http": {"port": port}}), where=where)


@asynccontextmanager
async def served(tmp_path, monkeypatch, port):
    """A hub with an HTTP side, and the log."""
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    config = parse(
        f'{{"mcpServers": {{"s": {{"command": "true", "disabled": true}}}}, "http": {{"port": {port}}}}}',
        where=str(tmp_path / "c.json"),
    )
    http = SupervisedHttp(config, backoff=QUICK)
    with structlog.testing.capture_logs() as logged:
        async with open_hub(config, state=tmp_path) as hub:
            hub.root.add(http.serve(Endpoints(hub, ClientSessions(hub))))
            yield http, logged


def warnings(logged):
    return [line["cause"] for line in logged if line["event"] == "http.unavailable"]


async def answers(url):
    async with httpx2.AsyncClient(timeout=50) as client:
        return (await client.post(url, json={})).status_code == 401


async def test_a_taken_port_is_said_once_and_served_when_it_is_free(tmp_path, monkeypatch, taken):
    port = taken.getsockname()[1]
    async with served(tmp_path, monkeypatch, port) as (http, logged):
        problem = f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another http.port"
        assert http.status().error == problem
        with anyio.fail_after(50):
            while http.status().next_attempt_in_s is None:
                await anyio.lowlevel.checkpoint()
        assert (http.status().error, http.status().url) == (problem, None)
        taken.close()
        await until(lambda: http.status().url is not None)
        assert http.status().error is None
        assert await answers(http.status().url)
        assert warnings(logged) == [problem]


async def test_a_port_that_is_lost_later_is_listened_on_again(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch, 0) as (http, logged):
        await until(lambda: http.status().url is not None)
        before = http.frontend
        assert await answers(http.status().url)
        before._listener.shutdown(socket.SHUT_RDWR)
        await until(lambda: http.frontend not in {None, before})
        assert await answers(http.status().url)
        assert "was lost" in warnings(logged)[0]


async def test_a_token_that_cannot_be_used_costs_http_alone(tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text("mine")
    token.chmod(0o644)
    async with served(tmp_path, monkeypatch, 0) as (http, _logged):
        await until(lambda: http.status().error is not None)
        assert "others may read it" in http.status().error
        token.chmod(0o600)
        await until(lambda: http.status().url is not None)
        assert await answers(http.status().url)


async def test_a_fault_of_the_frontend_is_contained_and_it_is_tried_again(tmp_path, monkeypatch):
    faults = [RuntimeError(str(number)) for number in range(5)]  # more than the root would suffer
    contained = []

    async def run(_frontend, incarnation):
        if len(contained) < len(faults):
            raise faults[len(contained)]
        incarnation.ready()
        await incarnation.stopping.wait()

    monkeypatch.setattr(http_supervision.HttpFrontend, "run", run)
    monkeypatch.setattr(http_supervision, "contain", lambda error, _place: contained.append(error))
    async with served(tmp_path, monkeypatch, 0) as (http, logged):
        await until(lambda: http.frontend is not None)
        assert contained == faults
        assert warnings(logged) == ["MCPX failed (RuntimeError); its log says more"]


async def test_where_it_never_served_its_socket_is_closed(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    config = parse(
        '{"mcpServers": {"s": {"command": "true", "disabled": true}}, "http": {"port": 0}}', where="c.json"
    )
    http = SupervisedHttp(config)
    port = http._listener.getsockname()[1]
    http.close()
    with socket.socket() as again:
        again.bind(("127.0.0.1", port))

"""What machines get over HTTP: who may scrape, what the figures say, and when MCPX is healthy and ready."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import HttpGateway
from mcpx.core.daemon import monitoring
from mcpx.core.daemon.metric_families import FAMILIES
from mcpx.core.daemon.monitoring import Scrapes, exposition, read
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http import frontend as http_monitoring
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.policy.tokens import issue, revoke
from mcpx.core.system.linux import LINUX
from mcpx.core.telemetry.contained import contain
from mcpx.errors import CallError
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import HttpEndpoint
from tests.mcpx.scripted import PATIENCE_S, Gate, config_of, entry, open_watched, soon
from tests.mcpx.serving import serving, write_config

pytestmark = pytest.mark.anyio
TOKEN = "the-default-token"
KEY = {"Authorization": f"Bearer {TOKEN}"}
PROBES = ("/healthz", "/readyz")
ALL = ("/metrics", *PROBES)
NAME = 'so "quick" \\ 漢字'  # a server's


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))


class Site:
    """A hub that is served over HTTP, and a client."""

    def __init__(self, watch, http, client):
        self.watch, self.hub, self.http, self.client = watch, watch.hub, http, client
        self.origin = http.url.removesuffix("/mcp")

    async def get(self, path, headers=KEY, method="GET"):
        return await self.client.request(method, self.origin + path, headers=headers)

    async def endpoint(self):
        """A client of the endpoint."""
        endpoint = HttpEndpoint(self.client, self.http.url, modern=True)
        endpoint._headers |= KEY
        await endpoint.open()
        return endpoint

    async def metrics(self):
        """The values of a scrape, by metric and labels."""
        answer = await self.get("/metrics", KEY | {"Accept": "application/openmetrics-text"})
        assert answer.status_code == 200, answer.text
        families = text_string_to_metric_families(answer.text)
        samples = [sample for family in families for sample in family.samples]
        found = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}
        assert len(found) == len(samples)
        return found

    async def of(self, name, **labels):
        return (await self.metrics()).get((f"mcpx_{name}", *sorted(labels.items())))


@asynccontextmanager
async def served(servers, *, token=TOKEN, host="127.0.0.1", settled=True, **settings):
    config = config_of(servers, **settings)
    async with (
        open_watched(config, settled=settled) as watch,
        httpx2.AsyncClient(timeout=PATIENCE_S) as client,
    ):
        clients = ClientSessions(watch.hub)
        watch.hub.root.add(ChildSpec(name="clients", run=clients.run))
        with listen(host, 0) as listener:
            endpoints = Endpoints(watch.hub, clients)
            http = HttpFrontend(endpoints, listener, HttpGateway(), token=token, limit=1 << 24)
            watch.hub.root.add(ChildSpec(name="http", run=http.run))
            yield Site(watch, http, client)


async def test_contained_faults_are_counted_by_the_place_where_they_ended():
    async with served({"s": entry()}) as site:
        assert await site.of("faults_contained_total", place="router") is None
        for _ in range(2):
            contain(ValueError("odd"), "router")
        assert await site.of("faults_contained_total", place="router") == 2


# --- who


async def test_metrics_are_for_a_token_that_shows_all_servers():
    made = {"given": {"profile": None}, "narrow": {"profile": "work"}}
    secrets = {name: issue(name, expires=None, now=datetime.now(UTC), **it)[0] for name, it in made.items()}
    profiles = {"work": {"servers": ["s"]}}
    async with served({"s": entry()}, profiles=profiles) as site:
        assert (await site.get("/metrics")).status_code == 200

        async def with_token(token):
            return await site.get("/metrics", {"Authorization": f"Bearer {token}"})

        assert (await with_token(secrets["given"])).status_code == 200
        refused = await with_token(secrets["narrow"])
        assert (refused.status_code, "mcpx_" in refused.text) == (403, False)
        revoke("given")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            answer = await site.get("/metrics", headers)
            assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
            assert "mcpx_" not in answer.text
        assert (await with_token(secrets["given"])).status_code == 401


async def test_without_auth_metrics_are_open_and_probes_always_are():
    async with served({"s": entry()}, token=None) as site:
        for path in ALL:
            assert (await site.get(path, {})).status_code == 200
    async with served({"s": entry()}) as site:
        for path in PROBES:
            for headers in ({}, KEY, {"Authorization": "Bearer wrong"}):
                assert (await site.get(path, headers)).status_code == 200


@pytest.mark.parametrize("path", ALL)
async def test_a_foreign_host_or_page_gets_nothing(path):
    async with served({"s": entry()}) as site:
        port = site.origin.rpartition(":")[2]
        assert (await site.get(path, KEY | {"Host": f"evil.example:{port}"})).status_code == 421
        assert (await site.get(path, KEY | {"Origin": "https://evil.example"})).status_code == 403
        assert (await site.get(path, KEY | {"Host": f"localhost:{port}"})).status_code == 200


async def test_where_other_hosts_come_probes_may_name_any_address():
    async with served({"s": entry()}, host="0.0.0.0") as site:
        site.origin = site.origin.replace("0.0.0.0", "127.0.0.1")
        host = {"Host": "10.1.2.3:80"}
        assert [(await site.get(path, KEY | host)).status_code for path in ALL] == [421, 200, 200]


@pytest.mark.parametrize("path", ALL)
async def test_only_reading_is_allowed(path):
    async with served({"s": entry()}) as site:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            answer = await site.get(path, method=method)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), method
        head = await site.get(path, method="HEAD")
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) > 0


# --- what


async def test_figures_follow_what_happens(ears):
    async with served({"s": entry(ears)}) as site:
        watch, up = site.watch, ("mcpx_server_up", ("server", "s"))
        before = await site.metrics()
        assert before[up] == 1
        assert before["mcpx_server_offers", ("kind", "tools"), ("server", "s")] == 13
        assert before["mcpx_server_calls_total", ("server", "s")] == 0
        for _ in range(3):
            await watch.text("echo", {"text": "x"})
        await watch.failure("fail", {"text": "x"})
        after = await site.metrics()
        assert after["mcpx_server_calls_total", ("server", "s")] == 4
        assert after["mcpx_server_errors_total", ("code", "upstream_error"), ("server", "s")] == 1
        assert after["mcpx_server_errors_total", ("code", "timeout"), ("server", "s")] == 0
        assert after["mcpx_server_call_duration_seconds_count", ("server", "s")] >= 3
        assert 0 < after["mcpx_server_call_duration_seconds_sum", ("server", "s")] < PATIENCE_S
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.text, "hang")
            await ears.hear("call", tool="hang")
            assert await site.of("server_calls_in_flight", server="s") == 1
            await watch.text("release")
        assert await site.of("server_restarts_total", server="s") == 0
        with pytest.raises(CallError):
            await watch.text("die")
        await watch.leaves(State.READY)
        await watch.becomes(State.READY)
        assert await site.of("server_restarts_total", server="s") == 1
        assert await site.of("server_errors_total", server="s", code="server_died") == 1
        assert await site.of("servers", state="ready") == 1


async def test_a_server_that_cannot_run_is_down_and_one_that_is_disabled_is_neither():
    servers = {"bad": {"command": "false"}, "off": entry(settings={"disabled": True}), "s": entry()}
    async with served(servers) as site:
        values = await site.metrics()
        ups = {key[1][1]: value for key, value in values.items() if key[0] == "mcpx_server_up"}
        assert ups == {"bad": 0, "s": 1}
        for name in servers:
            states = [
                value
                for key, value in values.items()
                if key[0] == "mcpx_server_state" and ("server", name) in key
            ]
            assert (len(states), sum(states)) == (len(State), 1)
        assert values["mcpx_server_state", ("server", "off"), ("state", "disabled")] == 1
        assert sum(value for key, value in values.items() if key[0] == "mcpx_servers") == 3


async def test_tokens_are_counted_by_client_and_server():
    async with served({"s": entry()}) as site:
        endpoint = await site.endpoint()
        call = {"server_name": "s", "tool_name": "echo", "arguments": {"text": "word " * 400}}
        await endpoint.answer("tools/call", {"name": "exec", "arguments": call})
        await endpoint.answer("tools/list", {})
        values = await site.metrics()
        (client,) = {key[1][1] for key in values if key[0] == "mcpx_client_calls_total"}
        assert values["mcpx_client_calls_total", ("client", client)] == 1
        for kind in ("direct", "spent"):
            of_client = values[f"mcpx_client_{kind}_tokens_total", ("client", client)]
            assert of_client == values[f"mcpx_server_{kind}_tokens_total", ("server", "s")] > 300


def check(promtool, text):
    """What promtool says of a scrape."""
    command = [promtool, "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, timeout=50, check=False)
    return done.returncode, done.stdout + done.stderr


async def test_the_processes_of_servers_are_seen_and_their_time_never_runs_back():
    enough = 0.1 if LINUX else 1.1  # `ps` may count in whole seconds
    spin = f"import sys, time\nwhile time.process_time() < {enough}: pass\nsys.stdin.read()"
    servers = {
        "s": entry(),
        "busy": {"command": sys.executable, "args": ["-S", "-E", "-c", spin], "startup_timeout": 60},
        "far": {"url": "http://127.0.0.1:9/mcp"},
        "off": {"command": "x", "disabled": True},
    }
    async with served(servers, settled=False) as site:
        await site.watch.becomes(State.READY, "s")
        used = 0.0
        with anyio.fail_after(PATIENCE_S):
            while used < 0.05:
                values = await site.metrics()
                before, used = used, values["mcpx_server_cpu_seconds_total", ("server", "busy")]
                assert used >= before
        memory = {key[1][1]: value for key, value in values.items() if key[0] == "mcpx_server_memory_bytes"}
        assert set(memory) == {"s", "busy"}
        assert min(memory.values()) > 1 << 20
        assert ("mcpx_server_cpu_seconds_total", ("server", "far")) not in values
        pid = site.hub.upstreams["busy"].pid
        os.killpg(pid, signal.SIGKILL)
        await soon(lambda: site.hub.upstreams["busy"].pid != pid)
        assert await site.of("server_cpu_seconds_total", server="busy") >= used


@pytest.mark.others
async def test_promtool_finds_nothing_to_say():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    async with served({NAME: entry(), "off": {"command": "x", "disabled": True}}) as site:
        await site.watch.text("echo", {"text": "x"}, server=NAME)
        answer = await site.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert check(promtool, answer.content) == (0, b"")
        code, said = check(promtool, answer.content.replace(b"# HELP mcpx_servers ", b"# "))
        assert code != 0
        assert b"mcpx_servers" in said
        assert await site.of("server_up", server=NAME) == 1


async def test_every_metric_of_the_table_is_to_be_had_and_no_other(tmp_path, ears):
    servers = {"s": entry(ears), "alone": entry(settings={"sessions": "per_client"})}
    contain(ValueError("odd"), "router")  # there are counts by place where there was a fault
    async with served(servers) as site:
        endpoint = await site.endpoint()
        await endpoint.answer("tools/list", {})
        text = (await site.get("/metrics")).text
    found = set(re.findall(r"^# TYPE (mcpx_\S+)", text, re.MULTILINE))
    elsewhere = ("mcpx_node_", "mcpx_peer_", "mcpx_cluster_")  # where there is such a thing
    assert found == {family.name for family in FAMILIES if not family.name.startswith(elsewhere)}
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.help.endswith(".")


async def test_labels_differ_and_are_bounded_whatever_the_names():
    shared = "x" * 300
    names = [f"{shared}{n}" for n in range(3)]
    async with served({name: {"command": "x", "disabled": True} for name in names}) as site:
        hub = site.hub
        values = await site.metrics()
        found = {dict(key[1:])["server"] for key in values if key[0] == "mcpx_server_info"}
        cut = "x" * 200 + "..."
        assert found == {cut, f"{cut} (2)", f"{cut} (3)"}
        upstream = hub.upstreams[names[0]]
        hub.upstreams.update({str(n): upstream for n in range(1500)})  # more than one configures
        body, _ = exposition(read(hub, clients=0), Scrapes(), "")
        assert body.count(b"\nmcpx_server_info{") == 1000
        assert b'mcpx_servers{state="disabled"} 1503' in body


async def test_a_process_is_scraped_with_the_token_of_its_file(tmp_path):
    config = write_config(tmp_path, {"s": entry()}, startup_wait=20)
    async with serving(tmp_path, "serve", config, "--transport", "http", "--port", "0") as mcpx:
        origin = (await mcpx.logged("http.listening"))["url"].removesuffix("/mcp")
        key = {"Authorization": f"Bearer {(tmp_path / 'state' / 'token').read_text().strip()}"}
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:
            assert (await client.get(f"{origin}/healthz")).text == "ok\n"
            assert (await client.get(f"{origin}/metrics")).status_code == 401
            up = 'mcpx_server_up{server="s"} 1.0\n'
            with anyio.fail_after(PATIENCE_S):
                while up not in (await client.get(f"{origin}/metrics", headers=key)).text:
                    pass
            assert (await client.get(f"{origin}/readyz")).text == "ready\n"


# --- health


async def test_it_is_ready_when_the_servers_have_settled(tmp_path):
    with Gate(tmp_path / "gate") as gate:
        async with served({"s": entry(gate=str(gate.path))}, settled=False) as site:
            answer = await site.get("/readyz", {})
            assert (answer.status_code, answer.text) == (503, "not ready: servers are starting\n")
            assert (await site.get("/healthz", {})).text == "ok\n"
            gate.let_one_through()
            await site.watch.becomes(State.READY)
            answer = await site.get("/readyz", {})
            assert (answer.status_code, answer.text) == (200, "ready\n")
            assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("servers", "status"),
    [
        ({}, 200),
        ({"off": {"command": "x", "disabled": True}}, 200),
        ({"secret-name": {"command": "false"}}, 503),
        ({"secret-name": {"command": "false"}, "s": entry()}, 200),
    ],
)
async def test_it_is_ready_as_long_as_one_server_can_be_called(servers, status):
    async with served(servers) as site:
        answer = await site.get("/readyz", {})
        assert (answer.status_code, "secret" in answer.text) == (status, False)


async def test_it_is_not_ready_while_no_call_may_run(monkeypatch, tmp_path):
    async with served({"s": entry()}, audit="on", audit_required=True) as site:
        assert (await site.get("/readyz", {})).status_code == 200
        site.hub.audit.problem = "no space"
        answer = await site.get("/readyz", {})
        assert (answer.status_code, answer.text) == (503, "not ready: the audit log cannot be written\n")
        assert await site.of("audit_writable") == 0


async def test_an_open_page_makes_no_audit_log_of_one_that_is_off():
    async with served({"s": entry()}, audit="off") as site:
        assert await site.of("audit_writable") is None
        with site.hub.call_watch.following():
            assert await site.of("audit_writable") is None


async def test_asking_is_no_use_of_the_daemon():
    async with served({"s": entry()}) as site:
        so_far = site.http.use().so_far
        for path in ALL * 3:
            await site.get(path)
        await site.get("/metrics", {})  # refused
        await soon(lambda: site.http.use().so_far == so_far)
        await site.client.post(site.http.url, json={}, headers=KEY)
        await soon(lambda: site.http.use().so_far == so_far + 1)


async def test_many_scrapes_at_once_are_all_answered():
    async with served({str(n): {"command": "x", "disabled": True} for n in range(50)}) as site:
        answers = []

        async def scrape():
            answers.append(await site.get("/metrics"))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(scrape)
        assert {answer.status_code for answer in answers} == {200}


async def test_a_fault_of_its_own_is_an_answer_too(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret")

    async with served({"s": entry()}) as site:
        monkeypatch.setattr(monitoring, "read", fail)
        answer = await site.get("/metrics")
        assert (answer.status_code, "secret" in answer.text) == (500, False)
        monkeypatch.undo()
        assert (await site.get("/metrics")).status_code == 200


def test_serving_http_imports_nothing_of_it_before_the_first_scrape():
    program = (
        f"import json, sys, {http_monitoring.__name__}, mcpx.core.gateway.frontends.http.supervision\n"
        "print(json.dumps([name for name in sys.modules if name.split('.')[0] in "
        "('prometheus_client', 'PIL')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=50)
    assert json.loads(done.stdout) == []

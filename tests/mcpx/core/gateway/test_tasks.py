"""Extensions and tasks of 2026-07-28 pass between clients and servers, and a task is its client's alone."""

from __future__ import annotations

import json
import math
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from supervisors import ChildSpec
from tests.mcpx.core.gateway.task_server import (
    CAPABILITIES_KEY,
    EXTENSIONS,
    NOT_FOUND,
    TASKS,
    TaskServer,
    serve_http,
)
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S, QUICK, Watch, config_of, open_watched
from tests.mcpx.serving import ENVELOPE, MODERN

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).with_name("task_server.py")
TAKES = {"extensions": {TASKS: {}, "com.acme/y": {"n": None, "x": 1e2}}}
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
MISSING = {
    "code": -32021,
    "message": "Missing required client capability",
    "data": {"requiredCapabilities": {"extensions": {TASKS: {}}}},
}


def entry(*arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", "-E", str(SERVER), *arguments], "restart": QUICK}


class Client:
    """A client of 2026-07-28 at one endpoint."""

    takes: Any = TAKES
    """Its capabilities."""
    name = "test"

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        raise NotImplementedError

    async def ask(self, method: str, **params: Any) -> Any:
        """The result, without the envelope of MCPX; or the error."""
        about = {"io.modelcontextprotocol/clientInfo": {"name": self.name, "version": "1"}}
        params["_meta"] = ENVELOPE | about | {CAPABILITIES_KEY: self.takes} | params.get("_meta", {})
        answer = await self.answer(method, params)
        if answer.get("error"):
            return answer["error"]
        result = answer["result"]
        assert result.pop("_meta")[SERVER_INFO]["name"] == "mcpx"
        return result

    async def call(self, tool: str, *, server: str = "s", native: bool = False, **arguments: Any) -> Any:
        if native:
            return await self.ask("tools/call", name=f"{server}__{tool}", arguments=arguments)
        given = {"server_name": server, "tool_name": tool, "arguments": arguments}
        return await self.ask("tools/call", name="exec", arguments=given)


class LineClient(Client):
    def __init__(self, line: Line) -> None:
        self._line = line

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"result": await self._line.ask(method, params), "error": self._line.error}


class HttpClient(Client):
    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN}
        headers["Content-Type"] = "application/json"
        headers |= {"Mcp-Method": method, "Mcp-Name": params.get("name") or params.get("taskId") or "-"}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        written = json.dumps(message).replace("Infinity", "1e400")
        response = await self._http.post(self._url, content=written, headers=headers)
        body = response.text
        if response.headers["content-type"].startswith("text/event-stream"):
            body = [line[6:] for line in body.splitlines() if line.startswith("data: ")][-1]
        return dict(json.loads(body))


class Gateway:
    """A running MCPX with clients at all endpoints, by the names of these."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.clients: dict[str, Client] = {}


@asynccontextmanager
async def open_gateway(servers: dict[str, Any], **settings: Any):
    async with AsyncExitStack() as stack:
        config = config_of(servers, expose="both", **settings)
        gateway = Gateway(await stack.enter_async_context(open_watched(config)))
        hub = gateway.watch.hub
        endpoints = Endpoints(hub, ClientSessions(hub))
        for name in ("fast", "slow"):
            line = Line(hub)
            line.slow = name == "slow"
            await stack.enter_async_context(line.connected(endpoints.gateway(DEFAULT_ENDPOINT)))
            gateway.clients[name] = LineClient(line)
        listener = stack.enter_context(listen("127.0.0.1", 0))
        http = HttpFrontend(endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
        hub.root.add(ChildSpec(name="http", run=http.run))
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE_S))
        gateway.clients["http"] = HttpClient(client, http.url)
        for each in gateway.clients.values():
            await each.ask("server/discover")  # from then on the fast path takes calls
        yield gateway


@pytest.fixture(params=["stdio", "http"])
async def gateway(request):
    """MCPX over the server `s`, which is reached in that way."""
    if request.param == "stdio":
        async with open_gateway({"s": entry()}) as opened:
            yield opened
        return
    with serve_http(TaskServer()) as url:
        async with open_gateway({"s": {"url": url, "restart": QUICK}}) as opened:
            yield opened


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


async def test_extensions_are_declared_to_each_other(gateway):
    for client in gateway.clients.values():
        assert (await client.ask("server/discover"))["capabilities"]["extensions"] == EXTENSIONS
        for native in (False, True):
            assert json.loads(text_of(await client.call("declared", native=native))[10:]) == TAKES
        client.takes = {"sampling": {}}
        assert json.loads(text_of(await client.call("declared"))[10:]) == {"sampling": {}}


@pytest.mark.parametrize("native", [False, True], ids=["exec", "native"])
async def test_the_life_of_a_task(gateway, native):
    clients = list(gateway.clients.values())
    for at, client in enumerate(clients):
        started = await client.call("start", native=native)
        task_id = started["taskId"]
        created = {name: started[name] for name in ("status", "ttlMs", "vendor")}
        assert created == {"status": "working", "ttlMs": 60_000, "vendor": {"n": None, "x": 100.0}}
        assert started["resultType"] == "task"
        assert "inputRequests" not in started  # a task asks when it is asked for

        other = clients[at - 1]  # the same client, as it came another time
        said = await other.ask("tasks/get", taskId=task_id, vendor=[None], _meta={"traceparent": "00-1"})
        assert (said["resultType"], said["status"]) == ("complete", "input_required")
        assert said["inputRequests"] == {
            "a": {"method": "elicitation/create", "params": {"message": "s asks:\n\n?", "vendor": None}}
        }
        assert (said["asked"]["taskId"], said["asked"]["vendor"]) == (task_id, [None])
        assert said["asked"]["_meta"]["traceparent"] == "00-1"
        assert said["asked"]["_meta"][CAPABILITIES_KEY] == TAKES
        assert said["name"] in {task_id, None}

        answers = {"a": {"action": "accept", "content": {"n": None}}}
        said = await client.ask("tasks/update", taskId=task_id, inputResponses=answers)
        assert said["asked"]["inputResponses"] == answers
        said = await other.ask("tasks/get", taskId=task_id)
        assert (said["status"], said["result"]) == ("completed", {"content": [], "answers": answers})
        assert (await client.ask("tasks/cancel", taskId=task_id))["resultType"] == "complete"
        assert (await client.ask("tasks/get", taskId=task_id))["status"] == "cancelled"


def question(**params: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": params}


@pytest.mark.parametrize(
    "asks",
    [
        {"mcpx/approval": question(message="Which?")},
        {"a": question(message="Which?"), "b": question(message="May this tool be run?")},
        {"a": question(message="x", mode="url", url="javascript:alert(1)", elicitationId="1")},
        {"a": question(message=5)},
        [question(message="Which?")],
    ],
)
async def test_nobody_is_asked_by_a_task_what_nobody_may_be_asked(gateway, asks):
    for client in gateway.clients.values():
        task_id = (await client.call("start", asks=asks))["taskId"]
        said = await client.ask("tasks/get", taskId=task_id)
        assert "MCPX does not pass this question on" in said["message"]
        assert "inputRequests" not in json.dumps(said)


async def test_a_task_is_asked_for_over_http_by_its_header():
    with serve_http(TaskServer()) as url:
        async with open_gateway({"s": {"url": url}}) as gateway:
            client = gateway.clients["slow"]
            await client.call("start", task_id="é1")
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                said = await client.ask(method, taskId="é1", inputResponses={})
                assert said["name"] == "=?base64?w6kx?="


async def test_the_task_of_another_client_is_none(gateway):
    for client in gateway.clients.values():
        client.name = "mine"
        task_id = (await client.call("start"))["taskId"]
        for other in gateway.clients.values():
            other.name = "other"
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                error = await other.ask(method, taskId=task_id, inputResponses={})
                assert error["code"] == -32602
                unknown = await other.ask(method, taskId="x" * len(task_id), inputResponses={})
                assert unknown["message"] == error["message"].replace(task_id, "x" * len(task_id))
            for odd in ({}, {"taskId": None}, {"taskId": ""}, {"taskId": "x" * 5000}):
                assert (await gateway.clients["slow"].ask("tasks/get", **odd))["code"] == -32602
        client.name = "mine"
        assert (await client.ask("tasks/get", taskId=task_id))["status"] == "input_required"


async def test_clients_that_take_no_tasks(gateway):
    for client in gateway.clients.values():
        task_id = (await client.call("start"))["taskId"]
        client.takes = {"extensions": {"com.acme/y": {}}}
        for native in (False, True):
            refused = await client.call("start", native=native)
            assert refused["isError"]
            assert "Missing required client capability" in text_of(refused)
            refused = await client.call("start", native=native, rude=True)
            assert refused["isError"]
            assert "protocol_error" in text_of(refused)
            assert "may have taken effect" in text_of(refused)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert await client.ask(method, taskId=task_id) == MISSING
        assert await client.ask("subscriptions/listen", notifications={"taskIds": [task_id]}) == MISSING


async def test_clients_of_older_revisions_get_an_error(gateway):
    client = Line(gateway.watch.hub)
    server = Endpoints(gateway.watch.hub, ClientSessions(gateway.watch.hub)).gateway(DEFAULT_ENDPOINT)
    async with client.connected(server):
        greeting = {"protocolVersion": "2025-11-25", "capabilities": TAKES | {"roots": {}}}
        greeted = await client.ask("initialize", greeting | {"clientInfo": {"name": "test", "version": "1"}})
        assert "extensions" not in greeted["capabilities"]
        for slow in (False, True):
            client.slow = slow
            call = {"server_name": "s", "tool_name": "declared"}
            said = await client.ask("tools/call", {"name": "exec", "arguments": call})
            assert json.loads(text_of(said)[10:]) == {"roots": {}}
            call = {"server_name": "s", "tool_name": "start", "arguments": {"rude": True}}
            said = await client.ask("tools/call", {"name": "exec", "arguments": call})
            assert said["isError"]
            assert "protocol_error" in text_of(said)
            assert await client.ask("tasks/get", {"taskId": "task-0"}) is None
            assert client.error["code"] == -32601


async def test_a_server_that_has_lost_its_tasks_says_so_itself():
    async with open_gateway({"s": entry()}) as gateway:
        client = gateway.clients["fast"]
        task_id = (await client.call("start"))["taskId"]
        assert (await client.call("die"))["isError"]
        await gateway.watch.becomes(State.READY)
        for each in gateway.clients.values():
            assert await each.ask("tasks/get", taskId=task_id) == NOT_FOUND


async def test_what_cannot_be_asked_of_a_server_has_its_outcome():
    async with open_gateway({"s": entry(), "t": entry()}) as gateway:
        client = gateway.clients["fast"]
        await client.call("start", task_id="1")
        hub = gateway.watch.hub
        await hub.reload(config_of({"t": entry()}, expose="both"))
        for each in gateway.clients.values():
            error = await each.ask("tasks/get", taskId="1")
            assert error["code"] == -32602
            assert error["data"]["outcome"] == "not_sent"


async def test_numbers_that_json_cannot_say_are_refused(gateway):
    client = gateway.clients["http"]
    task_id = (await client.call("start"))["taskId"]
    for params in ({"inputResponses": {"a": math.inf}}, {"vendor": math.inf}):
        error = await client.ask("tasks/update", taskId=task_id, **params)
        assert (error["code"], error["message"]) == (-32700, "The parameters cannot be read")


async def test_two_servers_may_give_the_same_id():
    other = json.dumps({TASKS: {}, "com.acme/x": {"speed": 2}, "com.acme/z": {}})
    async with open_gateway({"s": entry(), "t": entry(other)}) as gateway:
        for client in gateway.clients.values():
            client.name = f"client {id(client)}"
            declared = (await client.ask("server/discover"))["capabilities"]["extensions"]
            assert declared == {TASKS: {}, "com.acme/x": {}, "com.acme/z": {}}
            assert (await client.call("start", task_id="1"))["taskId"] == "1"
            assert (await client.call("start", server="t", task_id="1"))["taskId"] == "t:1"
            await client.ask("tasks/cancel", taskId="1")
            said = await client.ask("tasks/get", taskId="t:1")
            assert (said["taskId"], said["asked"]["taskId"]) == ("t:1", "1")
            assert said["status"] == "input_required"
            assert (await client.ask("tasks/get", taskId="1"))["status"] == "cancelled"


async def test_tasks_of_a_server_that_is_not_shown_are_unknown():
    async with open_gateway({"s": entry(), "t": entry(), "u": entry("{}")}) as gateway:
        task_id = (await gateway.clients["fast"].call("start"))["taskId"]
        hub = gateway.watch.hub
        endpoints = Endpoints(hub, ClientSessions(hub))
        for only, refusal in (("s", None), ("t", "This client has no task"), ("u", "Method not found")):
            async with Line(hub).connected(endpoints.gateway(Endpoint(only=(only,)))) as line:
                client = LineClient(line)
                declared = (await client.ask("server/discover"))["capabilities"].get("extensions", {})
                assert (TASKS in declared) is (only != "u")
                said = await client.ask("tasks/get", taskId=task_id)
                assert said.get("message", "").startswith(refusal or "")
                assert ("code" in said) is (refusal is not None)


async def test_without_servers_that_have_tasks_there_is_nothing_of_them():
    async with open_gateway({"s": entry("{}")}) as gateway:
        for client in gateway.clients.values():
            assert "extensions" not in (await client.ask("server/discover"))["capabilities"]
            assert (await client.ask("tasks/get", taskId="1"))["code"] == -32601

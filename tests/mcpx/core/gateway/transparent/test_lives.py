"""The transparent endpoint through the server's and the configuration's lives."""

from __future__ import annotations

import json
import os
import signal
import sys

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import parse
from mcpx.core.servers.passthrough.client import DirectClient
from tests.mcpx.core.gateway.transparent.talking import SERVER, on_stream
from tests.mcpx.core.gateway.transparent.test_equality import ENVELOPE, HELLO
from tests.mcpx.scripted import PATIENCE_S, QUICK, STARTED_QUICKLY, config_of, open_watched, soon
from tests.mcpx.scripted import SERVER as OLD_SERVER

pytestmark = pytest.mark.anyio


def entry(ears, **settings):
    args = [*STARTED_QUICKLY, str(SERVER), str(ears)]
    return {"command": sys.executable, "args": args, "restart": QUICK, **settings}


def heard(ears):
    """What the servers heard, as (process, method), without what MCPX's own session says."""
    lines = ears.read_text().splitlines() if ears.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


def methods(ears):
    """The methods that a transparent client's servers heard: MCPX's own session names itself in its first."""
    return [each.get("method") for each in heard(ears)]


async def greet(talk, version="2025-11-25"):
    answer = await talk.ask("initialize", HELLO % version, "first")
    assert answer["result"]["protocolVersion"] == version
    await talk.send("notifications/initialized")


def direct(watch, server="odd"):
    return list(watch.hub.upstreams[server].direct.values())


async def test_a_server_that_dies_in_a_call_is_lost_with_the_outcome_and_comes_back(tmp_path):
    ears = tmp_path / "ears"
    async with open_watched(config_of({"odd": entry(ears)})) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        await talk.ask("logging/setLevel", '{"level":"debug"}', 2)
        await talk.ask("resources/subscribe", '{"uri":"odd://x"}', 3)
        await talk.ask("tools/list", None, 4)
        lost = await talk.ask("tools/call", '{"name":"die"}', 5)
        assert lost["error"]["code"] == -32603
        assert lost["error"]["data"]["code"] == "server_died"
        assert lost["error"]["data"]["outcome"] == "unknown"
        ears.unlink()
        assert await talk.ask("ping", None, 6) == {"jsonrpc": "2.0", "id": 6, "result": {"pong": True}}
        assert methods(ears)[:4] == [
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe",
        ]
        assert heard(ears)[0]["params"] == json.loads(HELLO % "2025-11-25")
        while [
            pair for pair in talk.heard[-1] if pair == ("method", "notifications/resources/updated")
        ] == []:
            await talk.take()


async def test_a_safe_request_survives_the_death_of_its_server(tmp_path):
    ears = tmp_path / "ears"
    async with open_watched(config_of({"odd": entry(ears)})) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        session = direct(watch)[0]
        os.kill(session.pid, signal.SIGSTOP)
        await talk.send("resources/read", '{"uri":"odd://x"}', 2)
        await soon(lambda: watch.hub.upstreams["odd"].counters.in_flight == 1)
        os.kill(session.pid, signal.SIGKILL)
        while "id" not in (answer := await talk.take()):
            pass
        assert answer["id"] == 2
        assert "result" in answer


async def test_each_older_client_has_its_own_server_and_questions_find_it(tmp_path):
    ears = tmp_path / "ears"
    async with (
        open_watched(config_of({"odd": entry(ears)})) as watch,
        on_stream(watch.hub) as one,
        on_stream(watch.hub) as two,
    ):
        await greet(one)
        await greet(two, "2024-11-05")
        one.reply = '"result":{"who":"one"}'
        two.reply = '"result":{"who":"two"}'
        ask = '{"name":"ask","arguments":{"method":"elicitation/create"}}'
        await one.send("tools/call", ask, 2)
        await two.send("tools/call", ask, 2)
        for talk, who in ((two, "two"), (one, "one")):
            while "id" not in (answer := await talk.take()) or "method" in answer:
                pass
            assert answer["result"]["answered"]["result"] == {"who": who}
        assert len(direct(watch)) == 2
    await soon(lambda: not direct(watch))


async def test_modern_clients_share_a_session_though_their_ids_and_tokens_are_the_same(tmp_path):
    ears = tmp_path / "ears"
    async with (
        open_watched(config_of({"odd": entry(ears)})) as watch,
        on_stream(watch.hub) as one,
        on_stream(watch.hub) as two,
    ):
        listen = '{"notifications":{"toolsListChanged":true},' + ENVELOPE + "}"
        for talk in (one, two):
            await talk.send("subscriptions/listen", listen, 1)
        for talk in (one, two):
            for method in ("notifications/subscriptions/acknowledged", "notifications/tools/list_changed"):
                message = await talk.take()
                assert message["method"] == method
                assert message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
        assert len(direct(watch)) == 1
        os.kill(direct(watch)[0].pid, signal.SIGKILL)
        for talk in (one, two):  # each hears what may have changed, and nothing of the restart
            methods_heard = {(await talk.take())["method"] for _ in range(2)}
            assert methods_heard == {"notifications/tools/list_changed"}
        await one.send("notifications/cancelled", '{"requestId":1}')
        await soon(lambda: any(each.get("method") == "notifications/cancelled" for each in heard(ears)))
        assert (await two.ask("tools/list", "{" + ENVELOPE + "}", 2))["result"]["tools"]


async def test_a_changed_server_is_greeted_again_and_a_removed_one_says_so(tmp_path):
    ears, other = tmp_path / "ears", tmp_path / "other"
    async with open_watched(config_of({"odd": entry(ears)})) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        changed = {"shutdown_grace": 0.2, "mcpServers": {"odd": entry(other)}}
        await watch.hub.reload(parse(json.dumps(changed), where="test"))
        await soon(lambda: "notifications/initialized" in methods(other))
        assert (await talk.ask("ping", None, 2))["result"] == {"pong": True}
        gone = {"shutdown_grace": 0.2, "mcpServers": {"s": {"command": "true"}}}
        await watch.hub.reload(parse(json.dumps(gone), where="test"))
        refused = await talk.ask("ping", None, 3)
        assert refused["error"]["data"]["code"] == "unknown_server"
        assert refused["error"]["data"]["outcome"] == "not_sent"


async def test_a_server_that_cannot_start_says_why_and_when_it_is_tried_next(tmp_path):
    broken = {"command": str(tmp_path / "nothing"), "restart": QUICK}
    async with open_watched(config_of({"odd": broken})) as watch, on_stream(watch.hub) as talk:
        refused = await talk.ask("initialize", HELLO % "2025-11-25", 1)
        assert refused["error"]["data"]["code"] == "server_unavailable"
        assert "command not found" in refused["error"]["message"]


async def test_an_unknown_server_is_refused_at_the_first_request():
    servers = {"s": {"command": "true"}}
    async with open_watched(config_of(servers)) as watch, on_stream(watch.hub, "nothing") as talk:
        refused = await talk.ask("initialize", HELLO % "2025-11-25", 1)
        assert refused["error"]["data"]["code"] == "unknown_server"


async def test_a_cancelled_request_is_cancelled_at_the_server_and_never_answered(tmp_path):
    ears = tmp_path / "ears"
    async with open_watched(config_of({"odd": entry(ears)})) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        talk.reply = '"result":{}'
        await talk.send("tools/call", '{"name":"ask","arguments":{"method":"vendor/wait"}}', "wait")
        await talk.send("notifications/cancelled", '{"requestId":"wait","reason":"enough"}')
        await soon(lambda: "notifications/cancelled" in methods(ears))
        await talk.ask("ping", None, 9)
        assert all(("id", "wait") not in message for message in talk.heard)


async def test_notifications_of_the_client_reach_the_server_as_they_are(tmp_path):
    ears = tmp_path / "ears"
    async with open_watched(config_of({"odd": entry(ears)})) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        await talk.send("notifications/roots/list_changed")
        await talk.send("notifications/vendor/x", '{"b":1e400,"a":null}')
        await talk.ask("ping", None, 2)
        assert '"params":{"b":1e400,"a":null}' in ears.read_text()
        assert "notifications/roots/list_changed" in methods(ears)


async def test_a_batch_of_2025_03_26_is_answered_in_one_array(tmp_path):
    async with (
        open_watched(config_of({"odd": entry(tmp_path / "ears")})) as watch,
        on_stream(watch.hub) as talk,
    ):
        await greet(talk, "2025-03-26")
        ping = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"error"}}'
        await talk.write(f"[{ping % 1},{ping % 2}]")
        with anyio.fail_after(PATIENCE_S):
            array = json.loads(await talk.read())
        assert [each["id"] for each in array] == [1, 2]
        assert all(each["error"]["vendor"] == [1.0] for each in array)


async def test_a_server_is_told_once_that_it_may_speak_one_era_only(tmp_path):
    """A client of the other era gets the refusal that a server of that era gives."""
    for era, method, code in (("handshake", "server/discover", -32601), ("modern", "initialize", -32022)):
        servers = {"odd": entry(tmp_path / "ears", era=era)}
        async with open_watched(config_of(servers)) as watch, on_stream(watch.hub) as talk:
            params = "{" + ENVELOPE + "}" if era == "handshake" else HELLO % "2025-11-25"
            assert (await talk.ask(method, params, 1))["error"]["code"] == code
            assert not direct(watch)


async def test_a_probe_that_the_server_refuses_is_followed_by_its_handshake(tmp_path):
    args = ["-S", "-E", str(OLD_SERVER), "{}"]
    servers = {"odd": {"command": sys.executable, "args": args, "restart": QUICK}}
    async with open_watched(config_of(servers)) as watch, on_stream(watch.hub) as talk:
        refused = await talk.ask("server/discover", "{" + ENVELOPE + "}", "probe")
        assert refused["error"] == {"code": -32601, "message": "Method not found: server/discover"}
        assert (await talk.ask("initialize", HELLO % "2025-11-25", 1))["result"]["serverInfo"][
            "name"
        ] == "scripted"
        assert len(direct(watch)) == 2


async def test_a_server_that_does_not_answer_initialize_is_given_up_in_the_connect_timeout(tmp_path):
    args = ["-S", "-E", str(OLD_SERVER), '{"silent": true}']
    more = {"restart": QUICK, "connect_timeout": 0.3}
    servers = {"odd": {"command": sys.executable, "args": args, **more}}
    async with open_watched(config_of(servers)) as watch, on_stream(watch.hub) as talk:
        refused = await talk.ask("initialize", HELLO % "2025-11-25", 1)
        assert "no answer to initialize within 0.3 s" in refused["error"]["message"]


async def test_of_many_clients_that_may_have_left_only_the_latest_keep_their_sessions(tmp_path, monkeypatch):
    monkeypatch.setattr("mcpx.core.servers.fleet.direct_sessions.MAX_IDLE", 1)
    monkeypatch.setattr("mcpx.core.servers.passthrough.session.IDLE_AFTER_S", -1.0)
    async with open_watched(config_of({"odd": entry(tmp_path / "ears")})) as watch:
        upstream, clients = (
            watch.hub.upstreams["odd"],
            [DirectClient(None, may_vanish=True) for _ in range(4)],
        )
        for client in clients:
            watch.hub.fleet.direct.get_or_open(upstream, client)
        assert set(upstream.direct) == set(clients[-2:])


async def test_a_list_that_differs_after_a_restart_is_announced_and_one_that_does_not_is_not(tmp_path):
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name":"die","inputSchema":{"type":"object"}}]')
    args = ["-S", "-E", str(OLD_SERVER), json.dumps({"tools": str(tools)})]
    servers = {"odd": {"command": sys.executable, "args": args, "restart": QUICK}}
    async with open_watched(config_of(servers)) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        await talk.ask("tools/list", None, 2)
        for number in (3, 4):
            lost = await talk.ask("tools/call", '{"name":"die"}', number)
            assert lost["error"]["data"]["outcome"] == "unknown"
            await talk.ask("ping", None, "back")
            if number == 3:
                tools.write_text('[{"name":"die","inputSchema":{"type":"object"}},{"name":"b"}]')
        while [("method", "notifications/tools/list_changed")] not in talk.heard:
            await talk.take()
        assert len((await talk.ask("tools/list", None, 5))["result"]["tools"]) == 2
        changed = [each for each in talk.heard if each[0] == ("method", "notifications/tools/list_changed")]
        assert len(changed) == 1


async def test_a_transparent_client_leaves_the_servers_own_session_asleep(tmp_path):
    ears = tmp_path / "ears"
    config = config_of({"odd": entry(ears)})
    async with open_watched(config):
        pass
    async with open_watched(config) as watch, on_stream(watch.hub) as talk:
        await greet(talk)
        assert await talk.ask("ping", None, 6) == {"jsonrpc": "2.0", "id": 6, "result": {"pong": True}}
        assert direct(watch)[0].pid is not None
        assert watch.state("odd") is State.ASLEEP

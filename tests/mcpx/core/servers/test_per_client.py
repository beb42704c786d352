"""`sessions: per_client`: each client has a session of its own with the server, while it is there."""

from __future__ import annotations

import json
import os
import signal
from contextlib import asynccontextmanager
from functools import partial

import anyio
import httpx2
import msgspec
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CLIENT_INFO_META_KEY, Implementation

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.server import GatewayServer
from mcpx.core.protocol.context import SESSIONLESS, ClientId, Origin
from mcpx.core.servers import side_sessions
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.core.gateway.transparent.talking import over_http
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, one_server, open_watched, soon
from tests.mcpx.serving import ENVELOPE, alive_in_group, serving, write_config

pytestmark = pytest.mark.anyio
OWN = {"sessions": "per_client"}
CALL = {"server_name": "s", "tool_name": "count", "arguments": {}}


async def call(watch, client, tool="echo", arguments=None):
    arguments = {"text": "x"} if arguments is None else arguments
    with anyio.fail_after(PATIENCE_S):
        done = await watch.hub.calls.exec("s", tool, arguments, client=client)
    return done.shaped.content[0]["text"]


async def process(watch, ears, client):
    """The process that a client's calls go to."""
    await call(watch, client, "count", {})
    return ears.of("call", tool="count")[-1]["pid"]


async def gone(pid):
    await soon(lambda: not alive_in_group(pid))


async def test_each_client_has_a_process_of_its_own_from_its_first_call_on(ears):
    async with one_server(ears, settings=OWN) as watch:
        one, two = ClientId(), ClientId()
        shared = watch.hub.upstreams["s"].pid
        assert len(ears.of("started")) == 1  # for the catalogue; clients that call nothing cost nothing
        pids = [await process(watch, ears, client) for client in (one, two, one, two, None)]
        assert pids[0] == pids[2]
        assert pids[1] == pids[3]
        assert pids[4] == shared  # a program that uses MCPX as a library
        assert len(set(pids)) == len(ears.of("started")) == 3


async def test_the_silence_of_one_session_is_seen_whichever_was_opened_last(ears):
    async with one_server(ears, settings=OWN) as watch, anyio.create_task_group() as tasks:
        one, two, counters = ClientId(), ClientId(), watch.hub.upstreams["s"].counters
        tasks.start_soon(call, watch, one, "hang")
        await ears.hear("call", tool="hang")
        await process(watch, ears, two)
        assert counters.silent_since is not None
        tasks.cancel_scope.cancel()
    assert counters.silent_since is None
    assert len(counters.silences) == 0  # of sessions that are over


async def test_it_ends_when_the_client_leaves_and_leaves_nothing_behind(ears):
    async with one_server(ears, settings=OWN) as watch:
        one, two = ClientId(), ClientId()
        first, second = await process(watch, ears, one), await process(watch, ears, two)
        watch.hub.client_left(one)
        await gone(first)
        assert await process(watch, ears, two) == second
        error = await failure(watch, one)
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
        assert "the client has left" in str(error)
        watch.hub.client_left(two)
        await gone(second)
        await watch.until(lambda: watch.hub.supervisor.names() == ["s"])
        assert [upstream.name for upstream in watch.hub.fleet.children()] == ["s"]
        assert len(watch.hub.upstreams["s"].clients.by_client) == 0
        watch.hub.client_left(two)  # twice is harmless


async def failure(watch, client):
    with pytest.raises(CallError) as error:
        await call(watch, client)
    return error.value


async def test_a_shared_server_is_shared():
    async with one_server() as watch:
        one, two = ClientId(), ClientId()
        assert await call(watch, one) == await call(watch, two) == "x"
        assert watch.hub.supervisor.names() == ["s"]
        watch.hub.client_left(one)
        assert await call(watch, two) == "x"


async def test_the_death_of_one_clients_process_is_that_clients_alone_and_it_is_started_again(ears):
    async with one_server(ears, settings=OWN) as watch:
        one, two = ClientId(), ClientId()
        first, second = await process(watch, ears, one), await process(watch, ears, two)
        async with anyio.create_task_group() as tasks:
            answers = []

            async def hang():
                answers.append(await call(watch, two, "hang", {}))

            tasks.start_soon(hang)
            await ears.hear("call", tool="hang")
            with pytest.raises(CallError) as died:
                await call(watch, one, "die", {"code": 9})
            assert (died.value.code, died.value.outcome) == (Code.SERVER_DIED, Outcome.UNKNOWN)
            again = await process(watch, ears, one)  # waits for the new one
            assert again not in {first, second}
            assert answers == []
            await call(watch, two, "release", {})
        assert answers == ["released"]
        assert await process(watch, ears, two) == second


async def test_the_first_calls_of_many_clients_at_once_each_get_one_process(ears):
    async with one_server(ears, settings=OWN) as watch:
        clients = [ClientId() for _ in range(6)]
        async with anyio.create_task_group() as tasks:
            for client in clients * 3:
                tasks.start_soon(call, watch, client)
        assert len(ears.of("started")) == 7
        for client in clients:
            watch.hub.client_left(client)
        await watch.until(lambda: watch.hub.supervisor.names() == ["s"])


async def test_a_client_that_leaves_before_its_process_is_ready_leaves_no_process(ears, tmp_path):
    (wanted := tmp_path / "wanted").touch()
    async with one_server(ears, settings=OWN, wants=str(wanted), without="silent") as watch:
        wanted.unlink()  # from now on none becomes ready
        for round_ in range(5):
            client, codes = ClientId(), []

            async def first_call(client=client, codes=codes):
                codes.append((await failure(watch, client)).code)

            before = len(ears.of("started"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first_call)
                await soon(lambda: len(watch.hub.upstreams["s"].clients.by_client))
                if round_ % 2:
                    await ears.hear("started", count=before + 1)
                watch.hub.client_left(client)
            assert codes == [Code.SERVER_UNAVAILABLE]
            await watch.until(lambda: watch.hub.supervisor.names() == ["s"])
        pids = {event["pid"] for event in ears.of("started")} - {watch.hub.upstreams["s"].pid}
        assert [pid for pid in pids if alive_in_group(pid)] == []


async def named_process(watch, token, name):
    """The process that calls without a session go to, of clients of that name with a token of that name."""
    origin = Origin(transport="http", name=name)
    with anyio.fail_after(PATIENCE_S):
        done = await watch.hub.calls.exec("s", "count", {}, client=token, origin=origin)
    return int(done.shaped.content[0]["text"].removeprefix("pid "))


COUNTS = {"tools/call count": [{"say": "pid @{pid}"}]}


async def test_clients_without_sessions_are_told_apart_by_token_and_name(ears):
    async with one_server(ears, settings=OWN, answers=COUNTS) as watch:
        server = watch.hub.upstreams["s"]
        other = ClientId(sessionless=True, principal="another token")
        long = "x" * 10_000
        who = [
            (SESSIONLESS, "a"),
            (SESSIONLESS, "b"),
            (SESSIONLESS, None),
            (other, long),
            (other, f"{long}y"),
        ]
        first = [await named_process(watch, *each) for each in who]
        assert [await named_process(watch, *each) for each in who] == first
        assert len({*first, server.pid}) == 6
        watch.hub.client_left(other)  # the token lets nobody in any more
        for pid in first[3:]:
            await gone(pid)
        assert [await named_process(watch, *each) for each in who[:3]] == first[:3]
        assert await named_process(watch, *who[3]) not in first


async def test_one_without_a_session_that_is_idle_is_forgotten_and_no_number_of_names_is_too_much(
    ears, monkeypatch
):
    monkeypatch.setattr(side_sessions, "MAX_NAMED", 2)
    async with one_server(ears, settings={**OWN, "idle_stop": 0.4}, answers=COUNTS) as watch:
        server = watch.hub.upstreams["s"]
        pids = [await named_process(watch, SESSIONLESS, name) for name in "abc"]
        await gone(pids[0])  # it was used least lately
        assert len(server.clients.by_client) == 2
        for pid in pids[1:]:
            await gone(pid)
        await watch.until(lambda: not server.clients.by_client and len(watch.hub.supervisor.names()) == 1)
        async with anyio.create_task_group() as tasks:
            for name in "de":
                origin = Origin(transport="http", name=name)
                tasks.start_soon(
                    partial(watch.hub.calls.exec, client=SESSIONLESS, origin=origin), "s", "hang"
                )
            await ears.hear("call", tool="hang", count=2)
            with pytest.raises(CallError) as refused:
                await named_process(watch, SESSIONLESS, "f")
            assert (refused.value.code, refused.value.outcome) == (Code.OVERLOADED, Outcome.NOT_SENT)
            tasks.cancel_scope.cancel()


async def test_status_shows_one_row_with_the_number_of_sessions(ears):
    async with one_server(ears, settings={**OWN, "restart": {"initial": 0.01}}) as watch:
        one, two = ClientId(), ClientId()
        await call(watch, one)
        await call(watch, two)
        await failure_of_death(watch, one)
        await call(watch, one)
        (row,) = snapshot(watch.hub, clients=2, started=0).servers
        plain = msgspec.json.decode(msgspec.json.encode(row))
        assert (plain["sessions"], plain["calls"], plain["errors"], plain["restarts"]) == (2, 4, 1, 1)
        assert plain["pid"] == watch.hub.upstreams["s"].pid
        assert "exited with code 9" in plain["last_error"]


async def failure_of_death(watch, client):
    with pytest.raises(CallError):
        await call(watch, client, "die", {"code": 9})


async def test_a_restart_and_a_reload_reach_the_sessions_of_clients(ears):
    base = entry(ears, settings=OWN)
    async with open_watched(config_of({"s": base, "t": entry()})) as watch:
        client = ClientId()
        first = await process(watch, ears, client)
        assert (await watch.hub.restart("s")).state is State.READY
        second = await process(watch, ears, client)
        assert second != first
        await watch.hub.reload(config_of({"s": {**base, "env": {"A": "b"}}, "t": entry()}))
        assert alive_in_group(second) == []
        third = await process(watch, ears, client)
        await watch.hub.reload(config_of({"t": entry()}))
        assert alive_in_group(third) == []
        assert (await failure(watch, client)).code is Code.UNKNOWN_SERVER
        await watch.hub.reload(config_of({"s": entry(ears), "t": entry()}))
        await watch.becomes(State.READY)
        assert await process(watch, ears, client) == watch.hub.upstreams["s"].pid  # shared now
    assert [event["pid"] for event in ears.of("started") if alive_in_group(event["pid"])] == []


async def test_when_mcpx_ends_so_do_the_sessions_of_its_clients(ears):
    async with one_server(ears, settings=OWN) as watch:
        pids = [await process(watch, ears, ClientId()) for _ in range(3)]
        assert all(alive_in_group(pid) for pid in pids)
    assert [alive_in_group(pid) for pid in pids] == [[], [], []]


# --- through the endpoints


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_at_a_stream_endpoint_a_connection_is_one_client_in_both_lanes(ears, modern):
    meta = {"_meta": ENVELOPE} if modern else {}
    async with one_server(ears, settings=OWN) as watch:
        server = GatewayServer(watch.hub, ClientSessions(watch.hub))
        pids = []
        for _ in range(2):
            async with Line(watch.hub).connected(server) as line:
                if modern:
                    await line.ask("server/discover", meta)
                else:
                    await line.initialize()
                for slow in (False, True, False):
                    line.slow = slow
                    result = await line.ask("tools/call", {"name": "exec", "arguments": CALL, **meta})
                    assert result["isError"] is False, result
                assert line.fast == 2
            await gone(ears.of("call", tool="count")[-1]["pid"])
            pids.append({event["pid"] for event in ears.of("call", tool="count")[-3:]})
        assert [len(each) for each in pids] == [1, 1]
        assert pids[0] != pids[1]
        assert watch.hub.upstreams["s"].pid not in pids[0] | pids[1]


async def test_over_http_a_session_is_a_client_and_without_one_the_name_is(tmp_path, ears):
    config = write_config(
        tmp_path, {"s": entry(ears, settings=OWN, answers=COUNTS, modern=True)}, startup_wait=20
    )
    arguments = ["serve", config, "--transport", "http", "--port", "0", "--no-auth"]

    @asynccontextmanager
    async def connected(url, mode, name="test"):
        about = Implementation(name=name, version="1")
        async with (
            httpx2.AsyncClient() as http,
            McpClient(
                streamable_http_client(url, http_client=http), mode=mode, cache=None, client_info=about
            ) as session,
        ):
            yield session

    async with serving(tmp_path, *arguments) as mcpx:
        url = (await mcpx.logged("http.listening"))["url"]
        with anyio.fail_after(40):
            async with connected(url, "legacy") as two:
                async with connected(url, "legacy") as one:
                    found = [await session.call_tool("exec", CALL) for session in (one, two, one, two)]
                pids = [int(each.content[0].text.removeprefix("pid ")) for each in found]
                assert pids[:2] == pids[2:]
                assert pids[0] != pids[1]
                await gone(pids[0])  # it has said goodbye
                assert alive_in_group(pids[1]) == [pids[1]]
            found = []
            for name in ("a", "b", "a"):
                async with connected(url, "auto", name) as stateless:
                    found.append((await stateless.call_tool("exec", CALL)).content[0].text)
            assert (found[0], found[0] != found[1]) == (found[2], True)
            direct = []
            for name in ("a", "b", "a"):
                async with over_http(f"{url}/servers/s") as talk:
                    talk.headers["mcp-protocol-version"] = "2026-07-28"
                    meta = ENVELOPE | {CLIENT_INFO_META_KEY: {"name": name, "version": "1"}}
                    answer = await talk.ask("tools/call", json.dumps({"name": "count", "_meta": meta}), 1)
                    direct.append(answer["result"]["content"][0]["text"])
            assert (direct[0], direct[0] != direct[1]) == (direct[2], True)
            assert not {*found} & {*direct}
        os.kill(mcpx.process.pid, signal.SIGTERM)
        assert await mcpx.exit_code() == 0

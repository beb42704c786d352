"""Servers over HTTP that speak both eras, or one: each client is served in its own where that is possible."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
import structlog

from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.status_snapshot import snapshot
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Exec
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.servers.call_queue import RawReply
from mcpx.errors import CallError, Code
from tests.mcpx.core.servers.dual_http import DISCOVER, INITIALIZE, TOOL, dual_http
from tests.mcpx.core.servers.relay.calling import FakeCaller
from tests.mcpx.scripted import PATIENCE_S, QUICK, config_of, open_watched, soon

pytestmark = pytest.mark.anyio

ELSEWHERE = {"code": -32601, "message": "no such method"}


@asynccontextmanager
async def hub_of(dual, **settings):
    async with open_watched(config_of({"s": {"url": dual.url, "restart": QUICK, **settings}})) as watch:
        yield watch


def send(watch, modern, client=None, tool="era"):
    """A call of a client of that era; None: of a program."""
    reply = RawReply()
    caller = None if modern is None else FakeCaller(modern=modern)
    watch.hub.calls.call(Exec("s", tool, b"{}", RequestContext(caller=caller, client=client)), reply)
    return reply


async def answer(reply):
    with anyio.fail_after(PATIENCE_S):
        return msgspec.json.decode(await reply.wait())["content"][0]["text"]


async def era_of(watch, modern, client=None):
    """The era in which the server has served such a call."""
    return await answer(send(watch, modern, client))


def companion(watch):
    return watch.hub.upstreams["s"].other_era.session


async def test_each_client_is_served_in_its_own_era():
    with dual_http() as dual:
        async with hub_of(dual) as watch:
            assert [await era_of(watch, modern) for modern in (True, None)] == ["modern"] * 2
            assert dual.heard == [DISCOVER]  # nobody needs the other era
            assert [await era_of(watch, modern) for modern in (False, True, False)] == [
                "handshake",
                "modern",
                "handshake",
            ]
            assert dual.heard == [DISCOVER, INITIALIZE]
            (row,) = snapshot(watch.hub, clients=2, started=0).servers
            assert (row.protocol_version, row.calls, row.restarts, row.queued) == ("2026-07-28", 5, 0, 0)
        assert dual.sessions == set()  # it said goodbye


async def test_the_first_calls_of_both_eras_at_once_open_one_session_each():
    with dual_http() as dual:
        async with hub_of(dual) as watch:
            replies = [send(watch, number % 2 == 0) for number in range(12)]
            assert [await answer(reply) for reply in replies] == ["modern", "handshake"] * 6
            assert dual.heard == [DISCOVER, INITIALIZE]


REFUSALS = {
    "an error": ELSEWHERE,
    "no shared revision": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}},
    "400": 400,
    "404": 404,
    "405": 405,
    "415": 415,
}


@pytest.mark.parametrize("how", REFUSALS)
async def test_a_server_of_the_modern_era_alone_serves_all_in_it(how):
    with dual_http(initialize=REFUSALS[how]) as dual, structlog.testing.capture_logs() as logged:
        async with hub_of(dual) as watch:
            replies = [send(watch, modern=False) for _ in range(3)]
            assert [await answer(reply) for reply in replies] == ["modern"] * 3
            assert await era_of(watch, modern=False) == "modern"
            assert dual.heard == [DISCOVER, INITIALIZE]  # asked once
            main = watch.hub.upstreams["s"]
            await watch.until(lambda: watch.hub.supervisor.names() == ["s"])
            assert (main.counters.calls, main.main.last_error) == (4, None)
    assert [each for each in logged if each["log_level"] == "warning"] == []


async def test_a_server_that_is_silent_in_one_era_serves_all_in_the_other():
    with dual_http(initialize="silent") as dual:
        async with hub_of(dual, queue_timeout=2) as watch:
            assert await era_of(watch, modern=False) == "modern"
            await watch.until(lambda: watch.hub.supervisor.names() == ["s"])
            assert dual.heard == [DISCOVER, INITIALIZE, INITIALIZE]  # it may only have been slow
            assert await era_of(watch, modern=False) == "modern"
            dual.release.set()


async def test_a_server_of_the_handshake_era_alone_serves_all_in_it():
    with dual_http(discover=400) as dual:
        async with hub_of(dual) as watch:
            assert [await era_of(watch, modern) for modern in (True, False, None)] == ["handshake"] * 3
            assert dual.heard == [DISCOVER, INITIALIZE]


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_pinned_server_serves_all_in_that_era(era):
    with dual_http() as dual:
        async with hub_of(dual, era=era) as watch:
            assert [await era_of(watch, modern) for modern in (True, False, None)] == [era] * 3
            assert dual.heard == [INITIALIZE if era == "handshake" else DISCOVER]


async def test_while_the_other_session_alone_cannot_be_opened_the_main_one_serves_its_clients():
    with dual_http(initialize=503) as dual:
        async with hub_of(dual) as watch:
            assert await era_of(watch, modern=False) == "modern"
            del dual.answers[INITIALIZE]  # it has recovered
            await watch.until(lambda: companion(watch).info().ready)
            assert await era_of(watch, modern=False) == "handshake"


async def test_a_session_that_the_server_forgets_is_opened_again():
    with dual_http() as dual:
        async with hub_of(dual) as watch:
            assert await era_of(watch, modern=False) == "handshake"
            dual.sessions.clear()
            assert await era_of(watch, modern=False) == "handshake"
            assert await era_of(watch, modern=True) == "modern"
            assert dual.heard == [DISCOVER, INITIALIZE, INITIALIZE]


async def test_a_restart_opens_both_again_and_asks_anew_what_the_server_speaks():
    with dual_http(initialize=400) as dual:
        async with hub_of(dual) as watch:
            assert await era_of(watch, modern=False) == "modern"
            del dual.answers[INITIALIZE]
            await watch.hub.restart("s")
            assert await era_of(watch, modern=False) == "handshake"
            one = companion(watch).queue.lifecycle().generation
            await watch.hub.restart("s")
            assert [await era_of(watch, modern) for modern in (False, True)] == ["handshake", "modern"]
            assert companion(watch).queue.lifecycle().generation == one + 1
            assert len(dual.sessions) == 1


async def test_a_server_that_speaks_the_handshake_era_alone_after_a_restart_has_one_session():
    with dual_http() as dual:
        async with hub_of(dual) as watch:
            assert await era_of(watch, modern=False) == "handshake"
            dual.answers[DISCOVER] = 400
            await watch.hub.restart("s")
            assert [await era_of(watch, modern) for modern in (False, True)] == ["handshake"] * 2
            await watch.until(lambda: watch.hub.supervisor.names() == ["s"])
            assert companion(watch) is None


async def test_a_reload_ends_both_sessions_and_the_new_server_opens_its_own():
    with dual_http() as dual, dual_http() as other:
        async with hub_of(dual) as watch:
            assert await era_of(watch, modern=False) == "handshake"
            await watch.hub.reload(config_of({"s": {"url": other.url, "restart": QUICK}}))
            assert dual.sessions == set()
            assert [await era_of(watch, modern) for modern in (False, True)] == ["handshake", "modern"]
            assert (dual.calls, other.calls) == (["handshake"], ["handshake", "modern"])
            await watch.hub.reload(config_of({"t": {"url": other.url, "disabled": True}}))
            assert other.sessions == set()
            assert watch.hub.supervisor.names() == []


async def test_a_server_that_is_away_is_waited_for_in_both_eras():
    with dual_http() as dual:
        async with hub_of(dual) as watch:
            assert [await era_of(watch, modern) for modern in (False, True)] == ["handshake", "modern"]
            dual.answers |= {INITIALIZE: 503, DISCOVER: 503}
            dual.sessions.clear()
            watch.hub.supervisor.recycle("s")
            await watch.leaves(State.READY)
            replies = [send(watch, modern) for modern in (False, True)]
            await watch.until(lambda: watch.hub.upstreams["s"].queue.lifecycle().failures > 1)
            dual.answers.clear()
            assert [await answer(reply) for reply in replies] == ["handshake", "modern"]


async def test_calls_in_flight_in_both_eras_are_counted_together():
    with dual_http(call="silent") as dual:
        async with hub_of(dual) as watch:
            replies = [send(watch, modern) for modern in (False, True)]
            counters = watch.hub.upstreams["s"].counters
            await soon(lambda: counters.in_flight == 2)
            dual.release.set()
            assert [await answer(reply) for reply in replies] == ["handshake", "modern"]
            assert (counters.in_flight, counters.calls) == (0, 2)


async def test_a_changed_list_that_one_session_hears_of_is_listed_for_all():
    with dual_http() as dual:
        async with hub_of(dual) as watch:
            assert await era_of(watch, modern=False) == "handshake"
            dual.tools = [TOOL, {**TOOL, "name": "new"}]
            dual.notify("notifications/tools/list_changed")
            await watch.until(lambda: watch.hub.registry.get_tool("s", "new") is not None)


async def test_what_is_refused_says_which_server_it_was():
    with dual_http() as dual:
        async with hub_of(dual, restart={**QUICK, "park_after": 1, "park_probe": 60}) as watch:
            assert await era_of(watch, modern=False) == "handshake"
            dual.answers |= {INITIALIZE: 503, DISCOVER: 503}
            dual.sessions.clear()
            watch.hub.supervisor.recycle("s")
            await watch.leaves(State.READY)
            with pytest.raises(CallError) as refused:
                await era_of(watch, modern=False)
            assert refused.value.code is Code.SERVER_UNAVAILABLE
            assert refused.value.server == "s"


async def test_clients_with_sessions_of_their_own_have_them_in_their_era():
    with dual_http() as dual:
        async with hub_of(dual, sessions="per_client") as watch:
            clients = [(ClientId(), modern) for modern in (True, False, False)]
            for _ in range(2):
                eras = [await era_of(watch, modern, client) for client, modern in clients]
                assert eras == ["modern", "handshake", "handshake"]
            assert dual.heard == [DISCOVER, DISCOVER, INITIALIZE, INITIALIZE]
            watch.hub.client_left(clients[1][0])
            await soon(lambda: len(dual.sessions) == 1)


async def test_clients_with_sessions_of_their_own_get_those_that_the_server_speaks():
    with dual_http(initialize=400) as dual:
        async with hub_of(dual, sessions="per_client") as watch:
            assert [await era_of(watch, False, ClientId()) for _ in range(2)] == ["modern"] * 2
            assert dual.heard == [DISCOVER, INITIALIZE, DISCOVER, DISCOVER]


@pytest.mark.parametrize("is_remembered", [False, True])
async def test_a_subscription_that_only_the_handshake_era_has_is_made_there_and_outlives_a_reload(
    is_remembered,
):
    updates = []
    with dual_http() as dual:
        config = {"url": dual.url, "restart": QUICK, "auto_describe": False}
        async with open_watched(config_of({"s": config})) as watch:
            main = watch.hub.upstreams["s"]
            end = await main.subscribe("a:b", updates.append, b"", modern=False)
            assert dual.subscribed == ["a:b"]
            await soon(lambda: dual.streams)
            dual.notify("notifications/resources/updated", '{"uri":"a:b"}')
            await soon(lambda: "a:b" in updates)
            if is_remembered:  # what the server offered is read from its file again
                known = watch.hub.fleet.catalogues
                await soon(lambda: known.load(watch.hub.config.servers["s"]) is not None)
            await watch.hub.reload(config_of({"s": {**config, "call_timeout": 7}}))
            await soon(lambda: dual.subscribed == ["a:b"] * 2)
            await soon(lambda: len(dual.streams) == 2)
            updates.clear()
            dual.notify("notifications/resources/updated", '{"uri":"a:b"}')
            await soon(lambda: "a:b" in updates)
            end()
            assert companion(watch).subscriptions.uris == []
            with pytest.raises(CallError):
                await watch.hub.upstreams["s"].subscribe("a:b", updates.append, b"", modern=True)

"""Calls of clients that open links: the person signs in, and the call runs, once."""

from __future__ import annotations

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from mcpx.core.catalog.snapshot import State
from mcpx.core.events.stats import Count
from mcpx.core.protocol.context import InputAnswers
from mcpx.core.protocol.messages import Exec
from mcpx.core.servers.call_errors import LINK_KEY
from mcpx.errors import CallError, Code
from tests.mcpx.core.calls.signing import COUNTED, Person, needs_sign_in, scene_with
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.scripted import PATIENCE_S, soon

pytestmark = pytest.mark.anyio

FREE = {"login_port": 18767}


async def call(scene, person, request=COUNTED):
    """The result of a call; a client of 2026-07-28 comes back with what its person did."""
    answers = None
    with anyio.fail_after(PATIENCE_S):
        for _ in range(9):
            context = person.context(answers)
            result = await scene.hub.calls.run(replace(request, context=context), msgspec.json.decode)
            if result.get("resultType") != "input_required":
                return result
            given = {
                key: await person.shown(asked["params"]) for key, asked in result["inputRequests"].items()
            }
            answers = InputAnswers(msgspec.json.encode(given), result.get("requestState"))
    raise AssertionError("it asks for ever")


def ends(scene):
    """How the calls have ended."""
    return scene.hub.meter.since_start().total


@pytest.fixture(params=[False, True], ids=["handshake", "modern"])
def modern(request):
    return request.param


async def test_a_person_signs_in_by_the_link_and_the_call_runs_once(tmp_path, modern):
    async with needs_sign_in(tmp_path, top=FREE) as scene:
        person = Person(scene, modern=modern)
        assert "k" in str(await call(scene, person))
        assert (scene.issuer.calls, len(person.asked), scene.issuer.asked) == (["k"], 1, 1)
        assert scene.state() is State.READY
        assert "k" in str(await call(scene, person))
        assert len(person.asked) == 1
        assert ends(scene) == Count(2, ok=2)  # the question is no end of the first


async def test_64_calls_ask_the_person_once(tmp_path, modern):
    async with needs_sign_in(tmp_path, top=FREE) as scene, anyio.create_task_group() as tasks:
        person = Person(scene, modern=modern)
        for number in range(64):
            request = Exec("s", "count", msgspec.json.encode({"key": str(number)}))
            tasks.start_soon(call, scene, person, request)
    assert sorted(scene.issuer.calls, key=int) == [str(number) for number in range(64)]
    assert (len(person.asked), scene.issuer.asked) == (1, 1)
    assert ends(scene) == Count(64, ok=64)


async def test_64_calls_on_their_way_when_a_sign_in_is_taken_back_ask_once(tmp_path, modern):
    async with needs_sign_in(tmp_path, top={**FREE, "shutdown_grace": 10}) as scene:
        person = Person(scene, modern=modern)
        await call(scene, person)
        scene.issuer.revoke_all()
        async with anyio.create_task_group() as tasks:
            for number in range(64):
                request = Exec("s", "count", msgspec.json.encode({"key": str(number)}))
                tasks.start_soon(call, scene, person, request)
    assert sorted(scene.issuer.calls[1:], key=int) == [str(number) for number in range(64)]
    assert (len(person.asked), scene.issuer.asked) == (2, 2)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_person_who_does_not_open_it_gets_the_error(tmp_path, modern, action):
    async with needs_sign_in(tmp_path, top=FREE) as scene:
        with pytest.raises(CallError, match=r"needs sign-in: run: mcpx login s .*did not open") as caught:
            await call(scene, Person(scene, modern=modern, action=action))
        assert caught.value.code is Code.SERVER_UNAVAILABLE
        assert (scene.issuer.calls, scene.state()) == ([], State.NEEDS_SIGN_IN)
        await soon(lambda: scene.hub.sign_ins.pending("s") is None)


async def test_a_person_who_is_refused_there_is_told_why(tmp_path, modern):
    async with needs_sign_in(tmp_path, top=FREE, consent="deny") as scene:
        with pytest.raises(CallError, match=r"denied|refused|said no"):
            await call(scene, Person(scene, modern=modern))
        assert scene.state() is State.NEEDS_SIGN_IN


async def test_a_call_that_needs_another_scope_goes_on_when_it_was_agreed_to(tmp_path, modern):
    async with needs_sign_in(tmp_path, top=FREE) as scene:
        person = Person(scene, modern=modern)
        await call(scene, person)
        result = await call(scene, person, Exec("s", "admin", b'{"key":"x"}'))
        assert "isError" not in result
        assert (scene.issuer.calls, len(person.asked)) == (["k", "x"], 2)
        first, second = (asked["message"] for asked in person.asked)
        assert "wants you to sign in before" in first
        assert "wants you to agree to more (write) before" in second
        assert scene.hub.upstreams["s"].queue.lifecycle().generation == 2  # the session went on
        assert sorted(scene.status().sign_in.scopes) == ["read", "write"]


async def test_who_does_not_agree_to_another_scope_keeps_what_there_is(tmp_path, modern):
    async with needs_sign_in(tmp_path, top=FREE) as scene:
        await scene.sign_in("read")
        await scene.becomes(State.READY)
        with pytest.raises(CallError, match=r"write.*mcpx login s") as caught:
            await call(scene, Person(scene, modern=modern, action="decline"), Exec("s", "admin", b"{}"))
        error = caught.value
        assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, "not_sent")
        assert error.details["wanted_scopes"] == ["write"]
        assert scene.status().sign_in.wanted_scopes == ["write"]
        assert "k" in str(await call(scene, Person(scene, modern=modern)))


async def test_a_link_comes_before_the_question_whether_a_tool_may_run(tmp_path, modern):
    asks = {"tools": {"ask": ["count"]}}
    async with needs_sign_in(tmp_path, top=FREE, settings=asks) as scene:
        await scene.sign_in()
        await scene.becomes(State.READY)
        scene.issuer.grants.access.clear()
        await scene.failure("look")
        await scene.becomes(State.NEEDS_SIGN_IN)
        person, shown = Person(scene, modern=modern), []
        opened = person.shown

        async def decide(params):
            shown.append(params.get("mode", "form"))
            if params.get("mode") == "url":
                return await opened(params)
            return {"action": "accept", "content": {"decision": "once"}}

        person.shown = decide
        assert "k" in str(await call(scene, person))
        assert shown == ["url", "form"]
        assert scene.issuer.calls == ["k"]


async def test_an_answer_that_comes_after_the_sign_in_does_not_reach_the_server(tmp_path):
    async with needs_sign_in(tmp_path, top=FREE) as scene:
        await scene.sign_in()
        await scene.becomes(State.READY)
        person = Person(scene, modern=True)
        answers = InputAnswers(msgspec.json.encode({LINK_KEY: {"action": "accept"}}))
        result = await scene.hub.calls.run(replace(COUNTED, context=person.context(answers)), bytes)
        assert b"k" in result
        sent = [each for each in scene.issuer.seen("mcp:tools/call") if b"inputResponses" in each.body]
        assert sent == []


async def test_the_link_is_given_too_where_the_tools_are_those_of_last_time(tmp_path, modern):
    with scripted_issuer() as issuer:
        async with scene_with(issuer, tmp_path, **FREE) as scene:
            await scene.sign_in()
            await scene.becomes(State.READY)
        issuer.grants.access.clear()
        async with scene_with(issuer, tmp_path, **FREE) as scene:
            person = Person(scene, modern=modern)
            assert await scene.hub.calls.resolve("s", "count") == ("s", "count")
            assert "k" in str(await call(scene, person))
            assert (issuer.calls, len(person.asked)) == (["k"], 1)

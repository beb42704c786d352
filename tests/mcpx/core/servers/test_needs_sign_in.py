"""A server that wants a sign-in: it is not tried by itself, and everybody is told how to sign in."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from mcpx.core.catalog.snapshot import State
from mcpx.errors import Code, Outcome
from tests.mcpx.core.calls.signing import COUNTED, Person, needs_sign_in, scene_with
from tests.mcpx.oauth.scripted_issuer import Fault, scripted_issuer

pytestmark = pytest.mark.anyio

COMMAND = "mcpx login s --config test"
SAID = f"needs sign-in: run: {COMMAND}"


async def test_it_is_asked_once_and_never_by_a_timer_or_a_call(tmp_path):
    with capture_logs() as logs:
        async with needs_sign_in(tmp_path, settings={"restart": {"park_probe": 0.01}}) as scene:
            assert scene.state() is State.NEEDS_SIGN_IN
            tried = scene.tried()
            life = scene.hub.upstreams["s"].queue.lifecycle()
            assert (life.next_attempt_at, life.failures, life.generation) == (None, 0, 1)
            for _ in range(3):
                await scene.failure("count")
            assert (scene.tried(), scene.issuer.calls) == (tried, [])
    held = [each for each in logs if each["event"] == "upstream.held"]
    assert [(each["server"], each["log_level"]) for each in held] == [("s", "warning")]
    assert COMMAND in held[0]["cause"]


async def test_calls_are_told_the_command_before_and_after_its_tools_are_known(tmp_path):
    async with needs_sign_in(tmp_path) as scene:
        for _ in range(2):
            error = await scene.failure("count")
            assert SAID in str(error)
            assert (error.code, error.outcome) == (Code.SERVER_UNAVAILABLE, Outcome.NOT_SENT)
            assert (error.details["state"], error.details["sign_in"]) == ("needs sign-in", COMMAND)
            assert "retry_in_s" not in error.details
            await scene.sign_in()
            assert await scene.text("count", {"key": "k"}) == "k"
            scene.issuer.grants.access.clear()
        assert scene.issuer.calls == ["k", "k"]


async def test_status_has_the_command_and_what_is_known_of_the_account(tmp_path):
    async with needs_sign_in(tmp_path) as scene:
        row = scene.status()
        assert (row.state, row.sign_in.command) == ("needs sign-in", COMMAND)
        assert row.last_error
        assert not row.sign_in.expires_at
        await scene.sign_in("read")
        await scene.becomes(State.READY)
        row = scene.status()
        assert (row.state, row.last_error, row.restarts, row.failures) == ("ready", None, 0, 0)
        assert (row.sign_in.scopes, row.sign_in.command) == (["read"], COMMAND)
        assert row.sign_in.expires_at.endswith("+00:00")
        assert not row.sign_in.wanted_scopes


async def test_status_says_why_a_sign_in_does_not_suffice(tmp_path):
    wanted = {"www-authenticate": 'Bearer error="insufficient_scope", scope="admin"'}
    async with needs_sign_in(tmp_path) as scene:
        scene.issuer.faults["mcp:initialize"] = scene.issuer.faults["mcp:server/discover"] = Fault(
            403, headers=wanted
        )
        await scene.sign_in("read")
        await scene.becomes(State.NEEDS_SIGN_IN)
        sign_in = scene.status().sign_in
        assert (sign_in.scopes, sign_in.wanted_scopes) == (["read"], ["admin"])
        assert "the server wants the scopes admin" in sign_in.problem


async def test_a_server_that_wants_no_sign_in_has_none_in_its_status(tmp_path):
    async with needs_sign_in(tmp_path, is_open=True) as scene:
        assert scene.state() is State.READY
        assert not scene.status().sign_in


async def test_inspect_shows_the_state_and_the_tools_that_are_remembered(tmp_path):
    async with needs_sign_in(tmp_path) as scene:
        calls = scene.hub.calls
        assert SAID in (await calls.inspect()).content[0]["text"]
        page = await calls.inspect("s")
        assert SAID in page.content[0]["text"]
        assert page.structured_content["sign_in"] == COMMAND
        assert SAID in (await calls.list_resources("s")).content[0]["text"]
        await scene.sign_in()
        await scene.becomes(State.READY)
        scene.issuer.grants.access.clear()
        await scene.failure("count")
        await scene.becomes(State.NEEDS_SIGN_IN)
        for page in await calls.inspect("s"), await calls.inspect("s", "count"), await calls.inspect():
            text = page.content[0]["text"]
            assert SAID in text
            assert "count" in text


async def test_its_tools_are_remembered_by_the_next_mcpx(tmp_path):
    with scripted_issuer() as issuer:
        async with scene_with(issuer, tmp_path) as scene:
            await scene.sign_in()
            await scene.becomes(State.READY)
        issuer.grants.access.clear()
        async with scene_with(issuer, tmp_path) as scene:
            assert SAID in str(await scene.failure("count"))
            text = (await scene.hub.calls.inspect("s")).content[0]["text"]
            assert SAID in text
            assert "count" in text


async def test_a_call_that_waits_when_it_becomes_known_is_refused_at_once(tmp_path):
    with scripted_issuer() as issuer:
        issuer.faults["resource_metadata"] = Fault(hold=True)
        async with (
            scene_with(issuer, tmp_path, settled=False, settings={"queue_timeout": 60}) as scene,
            anyio.create_task_group() as tasks,
        ):
            failed = anyio.Event()

            async def call():
                assert SAID in str(await scene.failure("count"))
                failed.set()

            tasks.start_soon(call)
            await anyio.to_thread.run_sync(issuer.wait_for, "resource_metadata")
            assert not failed.is_set()
            issuer.release()


async def test_a_sign_in_that_ends_shows_before_anybody_calls(tmp_path):
    async with needs_sign_in(tmp_path) as scene:
        await scene.sign_in()
        await scene.becomes(State.READY)
        scene.hub.upstreams["s"].account._need_sign_in("it has expired")
        await scene.becomes(State.NEEDS_SIGN_IN)
        assert scene.status().sign_in.problem
        assert not scene.status().sign_in.expires_at


async def test_all_its_sessions_go_on_when_somebody_signs_in(tmp_path):
    async with needs_sign_in(tmp_path, settings={"sessions": "per_client"}) as scene:
        await scene.sign_in()
        await scene.becomes(State.READY)
        people = Person(scene, action="decline"), Person(scene, action="decline")

        async def call(person):
            return await scene.hub.calls.run(replace(COUNTED, context=person.context()), bytes)

        for person in people:
            await call(person)
        sessions = scene.hub.upstreams["s"].sessions()
        assert len(sessions) == 3
        scene.issuer.grants.access.clear()
        for person in people:
            with pytest.raises(Exception, match="needs sign-in"):
                await call(person)
        await scene.sign_in()
        assert not any(each.queue.is_held for each in sessions)
        for person in people:
            assert b"k" in await call(person)


async def test_a_401_of_a_server_that_opens_a_stream_for_any_address_is_no_sign_in(tmp_path):
    with scripted_issuer(discovery="none") as issuer:
        stream = {"content-type": "text/event-stream"}
        for step in "resource_metadata", "metadata", "other":
            issuer.faults[step] = Fault(status=200, headers=stream, body=b":" * 2000, slowly=True)
        async with scene_with(issuer, tmp_path) as scene:
            assert scene.state() is State.PARKED

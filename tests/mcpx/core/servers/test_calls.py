"""Calls over a live session: answers, deadlines, progress, cancellation, and how many at a time."""

from __future__ import annotations

import anyio
import pytest

from mcpx.core.protocol.requests import CallTool
from mcpx.errors import Code, Outcome
from supervisors import Reply
from tests.mcpx.scripted import PATIENCE_S, config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio

LIMIT = 20_000


async def test_it_connects_lists_calls_and_reads():
    document = {"uri": "doc:///a", "name": "a", "mimeType": "text/plain", "text": "the text"}
    async with one_server(resources=[document]) as watch:
        hub = watch.hub
        info = hub.registry.get_server_info("s")
        assert info.ready
        assert info.instructions == "Does what its script says."
        assert hub.registry.get_tool("s", "echo").description == "Says the text."
        assert await watch.text("echo", {"text": "héllo"}) == "héllo"
        assert await hub.registry.read_resource("s", "doc:///a") == "the text"


async def test_an_error_of_the_server_is_told_unaltered():
    async with one_server() as watch:
        error = await watch.failure("fail", {"text": "no such moon"})
        assert (error.code, error.outcome, str(error)) == (
            Code.UPSTREAM_ERROR,
            Outcome.FAILED,
            "no such moon",
        )
        said = {"code": -31234, "message": "no such moon", "data": {"kept": [1, None]}}
        assert error.details["upstream"] == said


async def test_pages_are_followed_to_the_end():
    async with one_server() as whole, one_server(pages=5) as paged:
        assert set(paged.hub.registry.get_server_info("s").tools) == set(
            whole.hub.registry.get_server_info("s").tools
        )


async def test_a_call_past_its_deadline_is_cancelled_at_the_server_and_its_slot_is_free(ears):
    settings = {"call_timeout": 0.3, "max_concurrency": 1}
    async with one_server(ears, settings=settings) as watch:
        error = await watch.failure("hang")
        assert (error.code, error.outcome) == (Code.TIMEOUT, Outcome.UNKNOWN)
        assert "0.3 s" in str(error)
        sent = await ears.hear("call", tool="hang")
        assert (await ears.hear("cancelled"))["id"] == sent["id"]
        assert await watch.text("echo", {"text": "free"}) == "free"
        assert len(ears.of("started")) == 1


async def test_progress_starts_the_deadline_anew_and_reaches_the_caller(ears):
    seconds = 0.5
    heard: list[tuple[float, str | None]] = []

    def on_progress(progress: float, _total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with one_server(ears, settings={"call_timeout": seconds}) as watch:
        texts: list[str] = []

        async def call() -> None:
            done = await watch.hub.calls.exec("s", "hang", {}, on_progress)
            texts.append(done.shaped.content[0]["text"])

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await ears.hear("call", tool="hang")
                until = anyio.current_time() + 3 * seconds
                while anyio.current_time() < until:
                    await watch.text("nudge")
                    await ears.hear("call", tool="nudge")  # and so never so full that the server waits
                assert await watch.text("release") == "done"
        assert texts == ["released"]
        assert heard[-1][1] == "still at it"
        assert [progress for progress, _ in heard] == sorted(progress for progress, _ in heard)


async def test_a_caller_that_goes_away_has_its_call_cancelled_at_the_server(ears):
    async with one_server(ears, settings={"max_concurrency": 1}) as watch:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.hub.calls.exec, "s", "hang")
            sent = await ears.hear("call", tool="hang")
            tasks.cancel_scope.cancel()
        assert (await ears.hear("cancelled"))["id"] == sent["id"]
        assert await watch.text("echo", {"text": "free"}) == "free"
        assert watch.hub.upstreams["s"].counters.in_flight == 0


async def test_a_caller_that_goes_away_before_its_turn_is_never_sent(ears):
    async with one_server(ears, settings={"max_concurrency": 1}) as watch:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.hub.calls.exec, "s", "hang")
            await ears.hear("call", tool="hang")
            with anyio.CancelScope() as leaving:
                upstream = watch.hub.upstreams["s"]
                reply: Reply = Reply()
                upstream.submit(CallTool("count", b"{}", safe=False), reply)
                leaving.cancel()
                await reply.wait()
            tasks.cancel_scope.cancel()
        assert await watch.text("echo", {"text": "after"}) == "after"
        assert ears.of("call", tool="count") == []


async def test_no_more_calls_are_in_flight_than_allowed_and_no_fewer():
    async with one_server(settings={"max_concurrency": 3}) as watch:
        texts: list[str] = []

        async def join() -> None:
            texts.append(await watch.text("crowd", {"size": 3}))

        async with anyio.create_task_group() as tasks:
            for _ in range(9):
                tasks.start_soon(join)
        assert texts == ["at most 3"] * 9


async def test_calls_to_one_server_do_not_wait_for_another(ears):
    config = config_of({"slow": entry(ears), "s": entry()})
    async with open_watched(config) as watch, anyio.create_task_group() as tasks:
        tasks.start_soon(watch.hub.calls.exec, "slow", "hang")
        await ears.hear("call", tool="hang")
        assert await watch.text("echo", {"text": "quick"}) == "quick"
        tasks.cancel_scope.cancel()


async def test_rubbish_between_the_answers_is_survived():
    async with one_server(noise=True) as watch:
        for text in ("one", "two", "three"):
            assert await watch.text("echo", {"text": text}) == text
        upstream = watch.hub.upstreams["s"]
        assert upstream.counters.malformed > 0
        assert upstream.queue.lifecycle().generation == 1


async def test_a_message_over_the_limit_is_skipped_and_the_session_lives_on(ears):
    config = config_of({"s": entry(ears)}, max_message_bytes=LIMIT)
    async with open_watched(config) as watch:
        assert await watch.text("huge", {"bytes": 10 * LIMIT, "note": True}) == "after the note"
        assert len(ears.of("started")) == 1
        assert await watch.text("huge", {"bytes": LIMIT // 2}) == "x" * (LIMIT // 2)


async def test_an_answer_over_the_limit_fails_its_call_and_the_session_lives_on(ears):
    config = config_of({"s": entry(ears, settings={"call_timeout": 5})}, max_message_bytes=LIMIT)
    async with open_watched(config) as watch:
        error = await watch.failure("huge", {"bytes": 10 * LIMIT})
        assert (error.code, error.outcome) == (Code.RESPONSE_TOO_LARGE, Outcome.UNKNOWN)
        assert await watch.text("echo", {"text": "alive"}) == "alive"
        assert len(ears.of("started")) == 1

"""How long a question lives: no longer than its call, its client, or the time that they are given."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import anyio
import msgspec
import pytest

from mcpx.core.protocol.context import InputAnswers
from mcpx.core.rendering.result_reading import to_client
from mcpx.core.servers.call_queue import RawReply
from mcpx.errors import CallError, Code
from supervisors import Abandoned
from tests.mcpx.core.servers.relay.answering import PATIENCE_S, ROOTS, SAMPLE
from tests.mcpx.core.servers.relay.calling import CallSite, FakeCaller, open_call_site

pytestmark = pytest.mark.anyio
ONE = {"questions": [ROOTS]}
TWO = {"questions": [ROOTS, SAMPLE]}


async def failure(reply: RawReply) -> CallError:
    with anyio.fail_after(PATIENCE_S), pytest.raises(CallError) as caught:
        await reply.wait()
    return caught.value


async def held(at: CallSite, ann: FakeCaller, **questions: object) -> str:
    """A call of a 2026-07-28 client that has asked; its requestState."""
    result = await at.result(at.call(ann, "ask", **questions))
    assert result["resultType"] == "input_required"
    (question,) = result["inputRequests"].values()
    assert question["method"] == "roots/list"
    assert at.in_flight == 1
    return to_client(result["requestState"])


def back(state: str, answers: bytes = b'{"1":{"roots":[]}}') -> InputAnswers:
    return InputAnswers(answers, state)


async def is_back(at: CallSite) -> None:
    """The server answers again; a call that it took to the grave is not the last word."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            with suppress(CallError):
                await at.said(at.call(None, "steps", count=1))
                return


# --- a client that is asked by requests


async def test_a_client_that_never_answers_costs_the_call_its_timeout_and_no_more(tmp_path):
    async with open_call_site(tmp_path, call_timeout=0.5) as at:
        ann = FakeCaller()
        error = await failure(at.call(ann, "ask", **ONE))
        assert error.code is Code.TIMEOUT
        with anyio.fail_after(PATIENCE_S):
            await ann.request_cancelled.wait()
        assert at.in_flight == 0
        assert await at.said(at.call(FakeCaller(), "steps", count=1)) == "stepped"


async def test_a_client_that_goes_away_frees_its_call_and_its_question(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller()
        reply = at.call(ann, "ask", **ONE)
        with anyio.fail_after(PATIENCE_S):
            await ann.was_asked.wait()
            reply.abandon()
            await ann.request_cancelled.wait()
        assert at.in_flight == 0
        assert isinstance(reply.error, Abandoned)


async def test_a_server_that_dies_takes_its_question_along(tmp_path):
    async with open_call_site(tmp_path, real=True) as at:
        ann = FakeCaller()
        reply = at.call(ann, "ask", **ONE)
        with anyio.fail_after(PATIENCE_S):
            await ann.was_asked.wait()
            assert at.upstream.pid is not None
            os.kill(at.upstream.pid, signal.SIGKILL)
            assert (await failure(reply)).code is Code.SERVER_DIED
            await ann.request_cancelled.wait()


async def test_each_answer_gives_the_call_its_time_anew(tmp_path):
    """Three questions, each answered after most of the timeout: together they take longer than it."""
    async with open_call_site(tmp_path, call_timeout=1.0) as at:
        ann = FakeCaller()
        began = anyio.current_time()
        reply = at.call(ann, "rounds", count=3)
        with anyio.fail_after(PATIENCE_S):
            for _ in range(3):
                await ann.was_asked.wait()
                ann.was_asked = anyio.Event()
                await anyio.sleep(0.7)  # a person who thinks: the time itself is what is tested
                ann.may_answer.set()
                ann.may_answer = anyio.Event()
        assert await at.said(reply) == [{"roots": []}] * 3
        assert anyio.current_time() - began > 2


@pytest.mark.parametrize("kind", ["stdio-handshake", "http-handshake"])
async def test_a_question_that_the_server_gives_up_is_given_up_at_the_client(tmp_path, kind):
    async with open_call_site(tmp_path, kind) as at:
        ann = FakeCaller()
        reply = at.call(ann, "patient", question=ROOTS, seconds=0.2)
        with anyio.fail_after(PATIENCE_S):
            await ann.request_cancelled.wait()
        assert "timed out" in (await at.said(reply))[0].lower()


@pytest.mark.parametrize("kind", ["stdio-handshake", "http-handshake"])
async def test_progress_on_a_question_reaches_the_server_and_its_token_not_the_client(tmp_path, kind):
    async with open_call_site(tmp_path, kind) as at:
        ann = FakeCaller()
        ann.steps = [(1, 2, "thinking"), (2, None, None)]
        ann.may_answer.set()
        said = await at.said(at.call(ann, "patient", question=SAMPLE, seconds=PATIENCE_S))
        assert said == [[1, 2, "thinking"], [2, None, None]]
        assert ann.asked == [(SAMPLE["method"], SAMPLE["params"])]


# --- a client that is asked by results


async def test_a_held_call_goes_on_when_its_client_comes_back(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        state = await held(at, ann, **TWO)
        second = await at.result(at.call(ann, "ask", answers=back(state), **TWO))
        (question,) = second["inputRequests"].items()
        assert question[1] == {"method": "sampling/createMessage", "params": SAMPLE["params"]}
        assert to_client(second["requestState"]) == state
        answer = b'{"%s":{"role":"assistant","content":{"type":"text","text":"3"},"model":"m"}}'
        last = at.call(ann, "ask", answers=back(state, answer % question[0].encode()), **TWO)
        said = await at.said(last)
        assert said[0] == {"roots": []}
        assert said[1]["content"]["text"] == "3"
        assert at.in_flight == 0


async def test_a_question_that_was_left_out_is_asked_again(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        state = await held(at, ann, **ONE)
        again = await at.result(at.call(ann, "ask", answers=back(state, b"{}"), **ONE))
        assert list(again["inputRequests"]) == ["1"]
        assert await at.said(at.call(ann, "ask", answers=back(state), **ONE)) == [{"roots": []}]


async def test_a_client_that_does_not_come_back_has_its_call_cancelled(tmp_path):
    async with open_call_site(tmp_path, call_timeout=0.5) as at:
        ann = FakeCaller(modern=True)
        state = await held(at, ann, **ONE)
        with anyio.fail_after(PATIENCE_S):
            await at.freed.wait()
        assert at.in_flight == 0
        error = await failure(at.call(ann, "ask", answers=back(state), **ONE))
        assert (error.code, error.outcome) == (Code.CANCELLED, "unknown")
        assert "waited for these answers is over" in str(error)


async def test_a_client_that_leaves_has_its_held_calls_cancelled_and_no_others(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann, bob = FakeCaller(modern=True), FakeCaller(modern=True)
        await held(at, ann, **ONE)
        at.hub.clients.leave(bob)
        assert at.in_flight == 1
        at.hub.clients.leave(ann)
        assert at.in_flight == 0
        assert not len(at.upstream.main._suspended)


async def test_a_client_that_cancels_the_repeated_request_cancels_the_call(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        state = await held(at, ann, **ONE)
        reply = at.call(ann, "ask", answers=back(state), **ONE)
        reply.abandon()
        assert await at.said(at.call(ann, "steps", count=1)) == "stepped"
        assert at.in_flight == 0


async def test_a_held_call_whose_server_died_says_so_when_its_client_comes_back(tmp_path):
    async with open_call_site(tmp_path, real=True) as at:
        ann = FakeCaller(modern=True)
        state = await held(at, ann, **ONE)
        assert at.upstream.pid is not None
        os.kill(at.upstream.pid, signal.SIGKILL)
        await is_back(at)
        error = await failure(at.call(ann, "ask", answers=back(state), **ONE))
        assert error.code is Code.SERVER_DIED


async def test_a_state_opens_its_own_call_only_and_that_only_once(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        state = await held(at, ann, **ONE)
        other = await failure(at.call(ann, "rounds", answers=back(state), count=1))
        assert (other.code, other.outcome) == (Code.INVALID_ARGUMENTS, "not_sent")
        unknown = await failure(at.call(ann, "ask", answers=back(state + "x"), **ONE))
        assert unknown.code is Code.CANCELLED
        assert await at.said(at.call(ann, "ask", answers=back(state), **ONE)) == [{"roots": []}]
        spent = await failure(at.call(ann, "ask", answers=back(state), **ONE))
        assert spent.code is Code.CANCELLED


async def test_a_client_with_several_calls_in_flight_is_asked_by_the_results_of_them(tmp_path):
    """Which of its calls has asked is not known; the answers find their way all the same."""
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        calls = [{"name": "m", "size": 3, "questions": [each]} for each in (ROOTS, SAMPLE, ROOTS)]
        asked = [await at.result(reply) for reply in [at.call(ann, "meet", **each) for each in calls]]
        assert [each["resultType"] for each in asked] == ["input_required"] * 3
        repeated = []
        for result, call in zip(asked, calls, strict=True):
            answers = {key: _answer_to(each) for key, each in result["inputRequests"].items()}
            given = back(to_client(result["requestState"]), msgspec.json.encode(answers))
            repeated.append(at.call(ann, "meet", answers=given, **call))
        said = [await at.said(reply) for reply in repeated]
        assert said == [[_answer_to(each["questions"][0])] for each in calls]


def _answer_to(question):
    return {"roots": []} if question["method"] == ROOTS["method"] else {"sampled": True}


async def test_a_call_that_asks_again_in_another_call_of_its_client_is_answered(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        idle = at.call(ann, "meet", name="m", size=2)
        asking = at.call(ann, "ask", **ONE)  # its question goes out with the older call
        asked = await at.result(idle)
        again = at.call(ann, "meet", answers=back(to_client(asked["requestState"])), name="m", size=2)
        assert await at.said(asking) == [{"roots": []}]
        assert await at.said(at.call(ann, "meet", name="m", size=2)) == []
        assert await at.said(again) == []
        assert at.in_flight == 0


async def test_a_question_ends_with_the_call_that_carries_it(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller(modern=True)
        idle = at.call(ann, "meet", name="n", size=2)
        asking = at.call(ann, "ask", **ONE)
        asked = await at.result(idle)
        assert asked["resultType"] == "input_required"
        at.upstream.main._suspended.cancel_for(ann)
        (refusal,) = await at.said(asking)
        assert refusal["message"] == "The client did not answer"


async def test_the_question_of_a_client_with_several_calls_lives_as_long_as_any_of_them(tmp_path):
    async with open_call_site(tmp_path) as at:
        ann = FakeCaller()
        idle = at.call(ann, "meet", name="never", size=2)
        reply = at.call(ann, "ask", **ONE)
        with anyio.fail_after(PATIENCE_S):
            await ann.was_asked.wait()
            idle.abandon()
            ann.may_answer.set()
            assert await at.said(reply) == [{"roots": []}]

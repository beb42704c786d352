"""What a suspended call does while no request of its client is open."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import pytest

from mcpx.core.protocol.context import InputAnswers
from mcpx.core.protocol.requests import CallTool, RequestContext
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.relay.suspended import MAX_MISSED_STEPS, SuspendedCalls

pytestmark = pytest.mark.anyio


def request(on_progress) -> CallTool:
    return CallTool("t", b"{}", context=RequestContext(on_progress=on_progress))


@pytest.mark.parametrize("missed", [0, 2, MAX_MISSED_STEPS + 3])
async def test_progress_since_the_question_reaches_the_request_that_brings_the_answer(missed):
    first, second = [], []
    began = request(first.append)
    call = SimpleNamespace(
        request=began, reply=RawReply(), caller=None, on_progress=began.context.on_progress
    )
    calls = SuspendedCalls("s", 5.0)
    async with anyio.create_task_group() as tasks:
        asked, suspended = call.reply, calls.suspend((call,))
        tasks.start_soon(suspended.ask, "roots/list", {})
        await asked.wait()
        for number in range(missed):
            call.on_progress(b'"progress":%d' % number)
        resumed = RawReply()
        answers = InputAnswers(b'{"1":{"roots":[]}}', suspended.state)
        assert calls.resume(
            CallTool(
                "t",
                b"{}",
                context=RequestContext(answers=answers, on_progress=second.append),
            ),
            resumed,
        )
        call.on_progress(b'"progress":%d' % missed)
    assert first == []
    kept = range(max(0, missed - MAX_MISSED_STEPS), missed + 1)
    assert second == [b'"progress":%d' % number for number in kept]
    suspended.cancel()

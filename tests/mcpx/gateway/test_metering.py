"""What the SDK's server answers is noted once, with what a server had answered, and never fails for it."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
from structlog.testing import capture_logs

from mcpx.core.messages import Exec, Read
from mcpx.core.meter import Meter
from mcpx.core.stats import INSPECT, MCPX, OTHERS, RESOURCES
from mcpx.gateway import metering
from mcpx.gateway.metering import metered_render, metered_requests

pytestmark = pytest.mark.anyio
WORDS = "some words that a server says, " * 20


def result(words):
    return {"content": [{"type": "text", "text": words}], "isError": False}


class Served:
    """A hub with a meter, and requests that its middleware sees."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(metering, "client_name", lambda session: session.name)
        self.upstreams = {"git": SimpleNamespace(catalogue=SimpleNamespace(tools={"log": None}))}
        self.meter = Meter(self.upstreams)

    async def answer(self, request, answer, *, method="tools/call", raw=None, name="exec", arguments=None):
        params = {"name": name, "arguments": arguments}
        ctx = SimpleNamespace(method=method, params=params, session=SimpleNamespace(name="c"))

        async def call_next(_ctx):
            if raw is not None:
                metered_render(request, lambda _raw: "rendered")(msgspec.Raw(msgspec.json.encode(raw)))
            return answer

        assert await metered_requests(self, None)(ctx, call_next) is answer

    def counted(self):
        return {
            (server, tool): (count.calls, count.direct > 0, count.spent > 0)
            for server, tools in self.meter.since_start().tools.items()
            for tool, count in tools.items()
        }


@pytest.fixture
def served(monkeypatch):
    return Served(monkeypatch)


async def test_a_call_is_counted_by_the_request_that_was_made_of_it(served):
    given = {"server_name": "git_log", "tool_name": None}
    await served.answer(Exec("git", "log", b"{}"), result("a few words"), raw=result(WORDS), arguments=given)
    await served.answer(
        Read("git", "a:b"), result("a few words"), raw={"contents": [{"text": WORDS}]}, name="resources"
    )
    assert served.counted() == {("git", "log"): (1, True, True), ("git", RESOURCES): (1, True, True)}
    assert served.meter.since_start().total.spent < served.meter.since_start().total.direct


async def test_an_answer_of_mcpx_itself_costs_nothing_directly(served):
    await served.answer(None, result(WORDS), name="inspect", arguments={"server_name": "git"})
    await served.answer(None, result(WORDS), name="inspect", arguments={"query": "x"})
    await served.answer(None, result(WORDS), arguments={"server_name": "git", "tool_name": "lag"})
    await served.answer(None, result(WORDS), arguments=None)
    assert served.counted() == {
        ("git", INSPECT): (1, False, True),
        (MCPX, INSPECT): (1, False, True),
        ("git", OTHERS): (1, False, True),
        (MCPX, OTHERS): (1, False, True),
    }


async def test_an_error_after_the_server_has_answered_counts_with_the_answer(served):
    failed = {**result("no such column"), "isError": True}
    await served.answer(Exec("git", "log", b"{}"), failed, raw=result(WORDS))
    assert served.counted() == {("git", "log"): (1, True, True)}


async def test_neither_input_requests_nor_native_reads_are_counted(served):
    asked = {"resultType": "input_required", "inputRequests": {}}
    await served.answer(Exec("git", "log", b"{}"), asked, raw=result(WORDS))
    contents = {"contents": [{"uri": "a:b", "text": WORDS}]}
    await served.answer(Read("git", "a:b"), contents, raw=contents, method="resources/read")
    await served.answer(None, None)
    assert served.counted() == {}


async def test_one_request_knows_nothing_of_the_one_before(served):
    await served.answer(Exec("git", "log", b"{}"), result("a few words"), raw=result(WORDS))
    await served.answer(None, result("found"), name="inspect", arguments={})
    assert served.counted()[MCPX, INSPECT] == (1, False, True)


async def test_a_fault_of_the_meter_costs_no_answer(served):
    with capture_logs() as logs:
        await served.answer(None, {"tools": [{"no": "name"}]}, method="tools/list")
    assert served.counted() == {}
    assert {line["event"] for line in logs} <= {"fault.contained"}

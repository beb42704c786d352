"""What the SDK's server answers is noted once, with what a server had answered, and never fails for it."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
from structlog.testing import capture_logs

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.events.meter import Meter
from mcpx.core.events.stats import INSPECT, MCPX, OTHERS, RESOURCES
from mcpx.core.gateway.offer import note_listing
from mcpx.core.gateway.tools.handler import MeteredCall
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.telemetry.metrics import Activity

pytestmark = pytest.mark.anyio
WORDS = "some words that a server says, " * 20


def result(words):
    return {"content": [{"type": "text", "text": words}], "isError": False}


class Served:
    """A hub with a meter, and answers that are noted in it."""

    def __init__(self):
        log = ToolInfo(server_name="git", name="log", input_schema={})
        self.upstreams = {"git": SimpleNamespace(catalogue=Catalogue(generation=1, tools={"log": log}))}
        self.meter = Meter(self.upstreams, Activity())

    def ctx(self, name="exec", arguments=None):
        params = {"name": name, "arguments": arguments}
        return SimpleNamespace(
            params=params, session=SimpleNamespace(_connection=SimpleNamespace(client_name="c"))
        )

    def answer(self, request, answer, *, raw=None, name="exec", arguments=None):
        call = MeteredCall(self, self.ctx(name, arguments))
        if raw is not None:
            encoded = msgspec.Raw(msgspec.json.encode(raw))
            assert call.rendering(request, lambda raw: [raw])(encoded) == [encoded]
        call.note([msgspec.json.encode(answer)])

    def counted(self):
        return {
            (server, tool): (count.calls, count.direct > 0, count.spent > 0)
            for server, tools in self.meter.since_start().tools.items()
            for tool, count in tools.items()
        }


@pytest.fixture
def served():
    return Served()


async def test_a_call_is_counted_by_the_request_that_was_made_of_it(served):
    given = {"server_name": "git_log", "tool_name": None}
    served.answer(Exec("git", "log", b"{}"), result("a few words"), raw=result(WORDS), arguments=given)
    served.answer(
        Read("git", "a:b"), result("a few words"), raw={"contents": [{"text": WORDS}]}, name="resources"
    )
    assert served.counted() == {("git", "log"): (0, True, True), ("git", RESOURCES): (0, True, True)}
    assert served.meter.since_start().total.spent < served.meter.since_start().total.direct


async def test_an_answer_of_mcpx_itself_costs_nothing_directly(served):
    served.answer(None, result(WORDS), name="inspect", arguments={"server_name": "git"})
    served.answer(None, result(WORDS), name="inspect", arguments={"query": "x"})
    served.answer(None, result(WORDS), arguments={"server_name": "git", "tool_name": "lag"})
    served.answer(None, result(WORDS), arguments=None)
    assert served.counted() == {
        ("git", INSPECT): (0, False, True),
        (MCPX, INSPECT): (0, False, True),
        ("git", OTHERS): (0, False, True),
        (MCPX, OTHERS): (0, False, True),
    }


async def test_an_error_after_the_server_has_answered_counts_with_the_answer(served):
    failed = {**result("no such column"), "isError": True}
    served.answer(Exec("git", "log", b"{}"), failed, raw=result(WORDS))
    assert served.counted() == {("git", "log"): (0, True, True)}


async def test_a_fault_of_the_meter_costs_no_answer(served):
    with capture_logs() as logs:
        note_listing(served, served.ctx().session, None, [SimpleNamespace(no="name")], None)
        MeteredCall(served, SimpleNamespace()).note([])
    assert served.counted() == {}
    assert {line["event"] for line in logs} <= {"fault.contained"}

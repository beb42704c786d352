"""The pipeline goes on, whatever a request makes it raise, and says so to whoever asked."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from mcpx.core.catalog.model import ToolInfo
from mcpx.core.telemetry import contained
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import one_server

pytestmark = pytest.mark.anyio
TIMES = 10


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    monkeypatch.setattr(contained, "_seen", type(contained._seen)())


class OddError(Exception):
    pass


def broken(*_: object) -> None:
    raise OddError("no such thing")


@pytest.mark.parametrize(
    ("part", "operation"),
    [
        ("pipeline.read_raw_arguments", lambda calls: calls.exec("s", "echo", {})),
        ("pipeline.resolve_uri", lambda calls: calls.read("s", "mem://a")),
        ("inspection.Inspector.inspect", lambda calls: calls.inspect("s", "echo")),
        ("inspection.Inspector.look", lambda calls: calls.inspect("s", "echo")),
    ],
)
async def test_a_fault_is_the_answer_and_is_logged_once(part, operation, monkeypatch):
    async with one_server() as watch:
        monkeypatch.setattr(f"mcpx.core.calls.{part}", broken)
        with capture_logs() as logs:
            for _ in range(TIMES):
                with pytest.raises(CallError) as caught:
                    await operation(watch.hub.calls)
                assert (caught.value.code, caught.value.outcome) == (Code.INTERNAL_ERROR, Outcome.NOT_SENT)
                assert "nothing was sent" in str(caught.value)
        assert [each["cause"] for each in logs if each["event"] == "fault.contained"] == [
            "OddError: no such thing"
        ]
        monkeypatch.undo()
        assert await watch.text("echo", {"text": "still here"}) == "still here"


async def test_a_request_that_cannot_be_written_is_not_sent_and_frees_its_slot():
    async with one_server(settings={"max_concurrency": 1}) as watch:
        upstream = watch.hub.upstreams["s"]
        name = "half a \ud800 pair"
        odd = ToolInfo(server_name="s", name=name, input_schema={})
        upstream.catalogue.tools[name] = odd
        for _ in range(TIMES):
            with pytest.raises(CallError) as caught:
                await watch.hub.calls.exec("s", name, {})
            assert (caught.value.code, caught.value.outcome) == (Code.INTERNAL_ERROR, Outcome.NOT_SENT)
        assert upstream.counters.in_flight == 0
        assert await watch.text("echo", {"text": "still here"}) == "still here"


async def test_inspect_says_which_tools_are_not_checked_and_why():
    async with one_server() as watch:
        tools = watch.hub.upstreams["s"].catalogue.tools
        tools["odd"] = ToolInfo(server_name="s", name="odd", input_schema={"type": "object", "$ref": "#"})
        shown = await watch.hub.calls.inspect("s", "odd")
        assert shown.structured_content["unchecked"] == "the schema refers to itself without end"
        assert "without end" in shown.content[0]["text"]
        whole = await watch.hub.calls.inspect("s")
        assert "unchecked: odd" in whole.content[0]["text"]
        marked = {each["name"]: each.get("unchecked") for each in whole.structured_content["tools"]}
        assert marked["odd"] == "the schema refers to itself without end"
        assert marked["echo"] is None
        assert "unchecked" not in (await watch.hub.calls.inspect("s", "echo")).structured_content

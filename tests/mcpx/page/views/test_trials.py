"""Trying tools, resources and prompts from the page: the way of every call, with its rules."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest

from mcpx.core.config import Config
from mcpx.page.views import trials
from mcpx.page.views.trials import PageClients
from tests.mcpx.page.signed_in import visiting
from tests.mcpx.scripted import Ears, config_of, entry, one_server, soon

pytestmark = pytest.mark.anyio


def asking(**settings: Any) -> Config:
    """A configuration in which a person is asked about everything that writes."""
    return config_of({"s": entry(settings={"approve": "writes", **settings})})


async def test_a_tool_is_run_and_its_result_shown_as_it_came_and_as_a_model_has_it():
    async with visiting(config_of({"s": entry()})) as visitor:
        rows = json.dumps([{"id": number, "name": "x" * 20} for number in range(50)])
        done = await visitor.call("echo", {"text": rows})
        assert done["content"] == [{"type": "text", "text": rows}]
        assert done["is_error"] is False
        assert done["took_ms"] > 0
        assert done["model"]["text"] != rows
        assert done["model"]["tokens"] < done["model"]["tokens_direct"]
        failed = await visitor.call("fail", {"text": "no"})
        assert failed["failed"]["code"] == "upstream_error"


async def test_arguments_are_checked_as_in_exec():
    async with visiting(config_of({"s": entry()})) as visitor:
        wrong = (await visitor.call("echo", {"text": 3}))["failed"]
        assert wrong["code"] == "invalid_arguments"
        assert wrong["outcome"] == "not_sent"
        assert wrong["problems"][0]["path"] == "$.text"
        unreadable = await visitor.post("/call", {"server": 3}, status=400)
        assert "cannot be read" in unreadable["error"]


async def test_rules_hold_and_the_audit_log_says_that_it_was_the_page(tmp_path):
    config = config_of({"s": entry(settings={"tools": {"deny": ["count"]}})}, audit="full")
    state = tmp_path / "state"
    async with visiting(config, state=state) as visitor:
        await visitor.call("echo", {"text": "noted"})
        assert (await visitor.call("count", {}))["failed"]["code"] == "unknown_tool"
    lines = [
        json.loads(line)
        for file in (state / "audit").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    said = [each for each in lines if each.get("transport") == "page"]
    assert [each["name"] for each in said] == ["echo", "count"]
    assert said[0]["values"] == {"text": "noted"}


async def test_a_person_is_asked_on_the_page_and_their_answer_counts_for_that_call_alone(ears: Ears):
    config = config_of({"s": entry(ears, settings={"approve": "writes"})})
    async with visiting(config) as visitor:
        asked = await visitor.call("echo", {"text": "a"})
        key, question = next(iter(asked["asked"].items()))
        assert "May this tool be run?" in question["message"]
        assert question["schema"]["properties"]["decision"]["enum"] == ["once", "session", "always", "no"]
        assert not ears.of("request", method="tools/call")

        def answer(decision: str) -> dict[str, Any]:
            given = {key: {"action": "accept", "content": {"decision": decision}}}
            return {"answers": given, "state": asked["state"]}

        other = await visitor.call("echo", {"text": "b"}, **answer("once"))
        assert other["asked"]  # another call than the one that was agreed to
        done = await visitor.call("echo", {"text": "a"}, **answer("once"))
        assert done["content"][0]["text"] == "a"
        again = await visitor.call("echo", {"text": "a"})
        assert again["asked"]
        declined = {"answers": {key: {"action": "decline"}}, "state": again["state"]}
        refused = await visitor.call("echo", {"text": "a"}, **declined)
        assert refused["failed"]["code"] == "not_approved"


async def test_agreeing_for_the_session_holds_until_the_page_has_tried_nothing_for_a_while(monkeypatch):
    async with visiting(asking()) as visitor:
        asked = await visitor.call("echo", {"text": "a"})
        given = {key: {"action": "accept", "content": {"decision": "session"}} for key in asked["asked"]}
        monkeypatch.setattr("mcpx.page.views.trials.CLIENT_S", 0.01)
        await visitor.call("echo", {"text": "a"}, answers=given, state=asked["state"])
        await soon(lambda: not visitor.hub.approvals._sessions)
        assert (await visitor.call("echo", {"text": "a"}))["asked"]


async def test_a_call_is_cancelled_when_its_browser_leaves(ears: Ears):
    async with visiting(config_of({"s": entry(ears)})) as visitor:
        with pytest.raises(httpx2.TimeoutException):
            await visitor._http.post(
                "/ui/api/call", json={"server": "s", "tool": "hang", "arguments": {}}, timeout=0.5
            )
        await ears.hear("cancelled")
        assert (await visitor.call("echo", {"text": "still here"}))["content"][0]["text"] == "still here"


async def test_resources_are_read_as_text_or_bytes():
    picture = base64.b64encode(b"\x89PNG" * 10).decode()
    resources = [
        {"uri": "x://text", "name": "t", "text": "<script>alert(1)</script>", "mimeType": "text/html"},
        {"uri": "x://picture", "name": "p", "blob": picture, "mimeType": "image/png"},
    ]
    async with visiting(config_of({"s": entry(resources=resources)})) as visitor:
        text = (await visitor.post("/read", {"server": "s", "uri": "x://text"}))["content"][0]
        assert text["text"] == "<script>alert(1)</script>"
        shown = (await visitor.post("/read", {"server": "s", "uri": "x://picture"}))["content"][0]
        assert (shown["data"], shown["bytes"], shown["mimeType"]) == (picture, 40, "image/png")
        unknown = await visitor.post("/read", {"server": "s", "uri": "x://none"})
        assert unknown["failed"]["code"] == "unknown_resource"


def test_results_are_bounded_in_plain_sight(monkeypatch):
    monkeypatch.setattr(trials, "MAX_TEXT_CHARS", 10)
    monkeypatch.setattr(trials, "MAX_BINARY_CHARS", 8)
    monkeypatch.setattr(trials, "MAX_BLOCKS", 4)
    shown = trials.blocks(
        [
            {"type": "text", "text": "12345678"},
            {"type": "text", "text": "abcdef"},
            {"type": "image", "data": "A" * 12, "mimeType": "image/png"},
            "nonsense",
            {"type": 3, "text": ["no"], "uri": 7},
            {"type": "text", "text": "more"},
        ]
    )
    assert shown == [
        {"type": "text", "text": "12345678"},
        {"type": "text", "text": "ab", "cut": 4},
        {"type": "image", "mimeType": "image/png", "bytes": 9},
        {"type": "more", "blocks": 2},
    ]


async def test_a_page_is_one_client_while_several_trials_run():
    async with one_server() as watch:
        clients = PageClients(watch.hub)
        with clients.using(b"a") as first, clients.using(b"a") as second, clients.using(b"b") as other:
            assert first is second
            assert other is not first
        assert len(clients) == 2
        assert first.connected

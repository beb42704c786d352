"""What the page says of one server's tools, resources and prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.mcpx.core.policy import listing
from tests.mcpx.page.signed_in import visiting
from tests.mcpx.scripted import config_of, entry

pytestmark = pytest.mark.anyio
WICKED = '<img src=x onerror="alert(1)">\u202e\x1b[31m'
SCHEMA = {
    "type": "object",
    "properties": {"a/b": {"type": "string", "description": WICKED}, "n": {"type": "integer", "default": 3}},
    "required": ["a/b"],
}


def tools_file(folder: Any, *tools: dict[str, Any]) -> str:
    file = folder / "tools.json"
    file.write_text(json.dumps(tools))
    return str(file)


async def test_a_server_is_listed_with_what_it_offers_and_names_are_exact(tmp_path):
    odd = {
        "name": "a/b\u202ec",
        "description": "x" * 5000,
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "title": WICKED},
    }
    hidden = {"name": "secret", "inputSchema": {"type": "object"}}
    tools = tools_file(tmp_path, odd, hidden)
    server = entry(
        settings={"tools": {"deny": ["secret"]}}, tools=tools, resources=[{"uri": "x://1", "name": "r"}]
    )
    async with visiting(config_of({"s/1": server})) as visitor:
        found = await visitor.get("/servers/s%2F1")
        assert found["card"]["name"] == "s/1"
        first, second = found["tools"]
        assert first["name"] == odd["name"]
        assert first["shown"] == "a/b\\u202ec"
        assert len(first["description"]) == 303
        assert first["read_only"] is True
        assert "hidden" not in first
        assert "\x1b" not in first["title"]
        assert second["hidden"].startswith("tools.deny")
        assert found["resources"] == [{"uri": "x://1", "name": "r"}]
        whole = await visitor.get("/servers/s%2F1/tools/a%2Fb%E2%80%AEc")
        assert len(whole["description"]) == 5000
        assert whole["input_schema"]["properties"]["a/b"]["type"] == "string"
        assert "\u202e" not in whole["input_schema"]["properties"]["a/b"]["description"]
        assert "'a/b': string" in whole["typescript"]
        assert whole["example"] == {"a/b": "<a/b>", "n": 3}
        assert whole["tokens"] > 1000
        assert "example" not in await visitor.get("/servers/s%2F1/tools/secret")


async def test_what_there_is_not_is_said_so():
    async with visiting(config_of({"s": entry()})) as visitor:
        assert "did you mean echo" in (await visitor.get("/servers/s/tools/ecko"))["failed"]["error"]
        assert (await visitor.get("/servers/t"))["failed"]["code"] == "unknown_server"
        for path in ("/servers/s/", "/servers/s/tools", "/servers/s/tools/echo/more"):
            assert (await visitor.get(path, status=404))["error"]
        assert (await visitor.get("/servers/"))["failed"]["code"] == "unknown_server"
        assert (await visitor.post("/servers/s/explode", status=404))["error"]
        assert (await visitor.post("/servers/t/restart"))["failed"]["code"] == "unknown_server"


async def test_a_list_of_very_many_is_cut_in_plain_sight(tmp_path, monkeypatch):
    monkeypatch.setattr("mcpx.page.views.offers.MAX_LISTED", 3)
    many = [{"name": f"t{number}", "inputSchema": {"type": "object"}} for number in range(5)]
    async with visiting(config_of({"s": entry(tools=tools_file(tmp_path, *many))})) as visitor:
        found = await visitor.get("/servers/s")
        assert [each["name"] for each in found["tools"]] == ["t0", "t1", "t2"]
        assert found["more"] == {"tools": 2}


async def test_a_changed_tool_is_shown_with_its_difference_and_can_be_approved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the file of the configuration would be
    written = {"command": "x", "env": {"KEY": "${cmd:touch RUN\u202e}"}}
    tool = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}
    tools = tools_file(tmp_path, tool)
    state = tmp_path / "state"
    config = config_of({"s": entry(settings={"pin": "block"}, tools=tools)})
    async with visiting(config, state=state) as visitor:
        assert (await visitor.get("/approvals")) == {"waiting": []}
        tools_file(tmp_path, {**tool, "description": WICKED})
        await visitor.post("/servers/s/restart")
        await visitor.watch.until(lambda: bool(visitor.hub.upstreams["s"].policy.changes()))
        listed = (await visitor.get("/servers/s"))["tools"][0]
        assert listed["change"] == "changed"
        assert "not run" in listed["refused"]
        assert listed["description"] == "Looks."  # the approved form is in force
        refused = await visitor.call("look")
        assert refused["failed"]["code"] == "not_approved"
        (tmp_path / "test").write_text(json.dumps({"mcpServers": {"s": written}}))
        waiting = (await visitor.get("/approvals?server=s"))["waiting"]
        (tmp_path / "test").unlink()
        assert waiting[0]["commands"] == ["touch RUN\\u202e"]
        assert not (tmp_path / "RUN\u202e").exists()
        change = waiting[0]["changes"][0]
        assert change["difference"][0].startswith('description: "Looks." -> ')
        assert "\x1b" not in change["difference"][0]
        assert "\u202e" not in change["difference"][0]
        agreed = [{"server": "s", "kind": change["kind"], "tool": "look", "digest": change["digest"]}]
        assert (await visitor.post("/approve", {"agreed": agreed}))["approved"]
        assert (await visitor.get("/approvals")) == {"waiting": []}
        assert "change" not in (await visitor.get("/servers/s"))["tools"][0]
        assert (await visitor.post("/approve", {"agreed": []}, status=400))[
            "error"
        ] == "nothing was agreed to"


async def test_prompts_are_listed_with_their_arguments(tmp_path):
    offer = {"tools": [], "prompts": ["greet"], "resources": [], "templates": ["x://{id}"]}
    async with visiting(config_of({"s": listing.entry("p", tmp_path / "notes", offer)})) as visitor:
        found = await visitor.get("/servers/s")
        assert found["prompts"] == [{"name": "greet", "arguments": [{"name": "about"}]}]
        assert found["templates"] == [{"uri_template": "x://{id}", "name": "x://{id}"}]
        done = await visitor.post("/prompt", {"server": "s", "prompt": "greet", "arguments": {"about": "x"}})
        assert done["messages"][0]["content"][0]["text"] == "greet of p"
        given = {"server": "s", "prompt": "greet", "arguments": {"abut": "x"}}
        wrong = await visitor.post("/prompt", given)
        assert "did you mean about" in wrong["failed"]["error"]

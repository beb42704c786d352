"""Calls from programs, over a real hub: what is refused unsent, the two forms of a result, and faults."""

from __future__ import annotations

import json

import pytest

from mcpx.core.daemon.hub_view import HubView
from mcpx.core.system.endpoint import Endpoint
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.scripted import config_of, entry, one_server, open_watched

pytestmark = pytest.mark.anyio

ROWS = [{"id": number, "name": f"row {number}", "open": True} for number in range(20)]


async def test_wrong_calls_are_refused_and_nothing_is_sent(ears):
    wrong = [
        ("t", "echo", {"text": "x"}, Code.UNKNOWN_SERVER, "t"),
        ("s", "ehco", {"text": "x"}, Code.UNKNOWN_TOOL, "echo"),
        ("s", "echo", {}, Code.INVALID_ARGUMENTS, "$.text"),
        ("s", "echo", {"text": 3}, Code.INVALID_ARGUMENTS, "$.text"),
        ("s", "echo", "[]", Code.INVALID_ARGUMENTS, "$"),
    ]
    async with one_server(ears) as watch:
        for server, tool, arguments, code, told in wrong:
            with pytest.raises(CallError) as caught:
                await watch.hub.executor.execute(server, tool, arguments)
            assert (caught.value.code, caught.value.outcome) == (code, Outcome.NOT_SENT)
            assert told in str(caught.value)
        assert ears.of("call") == []
        assert (await watch.hub.executor.execute("s", "echo", {"text": "x"})).raw_data == "x"
        assert len(ears.of("call")) == 1


async def test_arguments_as_a_json_string_are_sent_as_the_object_they_hold(ears):
    async with one_server(ears) as watch:
        done = await watch.hub.executor.execute("s", "echo", '{"text": "héllo"}')
        assert done.compressed_data == "héllo"
        assert (await ears.hear("call"))["arguments"] == {"text": "héllo"}


async def test_json_in_text_has_a_short_form_for_the_model_and_a_whole_one_for_programs():
    text = json.dumps(ROWS)
    async with one_server() as watch:
        done = await watch.hub.executor.execute("s", "echo", {"text": text})
    assert done.raw["content"] == [{"type": "text", "text": text}]
    assert done.raw_data == {"result": ROWS}
    assert len(done.compressed_data) < len(json.dumps(ROWS, separators=(",", ":")))
    assert "row 19" in done.compressed_data
    assert not done.is_error


async def test_compression_can_be_switched_off():
    text = json.dumps(ROWS)
    config = config_of({"s": entry()}, toon_compression_enabled=False)
    async with open_watched(config) as watch:
        done = await watch.hub.executor.execute("s", "echo", {"text": text})
    assert done.compressed_data == text


async def test_a_result_that_cannot_be_rendered_costs_that_call_alone(monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no such result")

    async with one_server() as watch:
        with monkeypatch.context() as patched:
            patched.setattr(watch.hub.results, "tool", broken)
            with pytest.raises(CallError) as caught:
                await watch.hub.executor.execute("s", "echo", {"text": "x"})
        assert (caught.value.code, caught.value.outcome) == (Code.INTERNAL_ERROR, Outcome.UNKNOWN)
        assert await watch.text("echo", {"text": "still here"}) == "still here"


@pytest.mark.parametrize("names", [("", "echo"), ("s.echo", ""), ("echo", "s"), ("s", "s.echo")])
async def test_a_call_that_is_nearly_right_waits_for_servers_that_start_and_is_run(names):
    async with open_watched(config_of({"s": entry()}), settled=False) as watch:
        done = await watch.hub.calls.exec(*names, {"text": "x"})
        assert (done.server_name, done.tool_name, done.raw_data) == ("s", "echo", "x")


async def test_a_name_that_could_be_several_is_refused_with_them_and_nothing_is_sent(ears):
    async with open_watched(config_of({"a": entry(ears), "b": entry(ears)})) as watch:
        with pytest.raises(CallError) as caught:
            await watch.hub.calls.exec("", "echo", {"text": "x"})
        assert (caught.value.code, caught.value.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
        assert '"echo" is a tool of a, b' in str(caught.value)
        assert ears.of("call") == []


async def test_a_string_that_spells_a_number_is_sent_as_one(ears, tmp_path):
    file = tmp_path / "tools.json"
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}
    file.write_text(json.dumps([{"name": "echo", "inputSchema": schema}]))
    async with one_server(ears, tools=str(file)) as watch:
        for given in ({"n": "5", "text": "7"}, '{"n": "5", "text": "7"}'):
            await watch.hub.calls.exec("s", "echo", given)
            assert (await ears.hear("call"))["arguments"] == {"n": 5, "text": "7"}


async def test_a_server_is_found_by_its_aliases_and_shown_by_its_name(ears):
    servers = {
        "s": entry(ears, settings={"aliases": ["t", "other", "u"]}),
        "u": entry(settings={"disabled": True, "aliases": ["t"]}),
    }
    config = config_of(servers)
    assert [notice for notice in config.notices if "has no effect" in notice]
    async with open_watched(config) as watch:
        hub = watch.hub
        done = await hub.executor.execute("t", "echo", {"text": "x"})
        assert (done.raw_data, done.server_name) == ("x", "s")
        found = (await hub.calls.inspect("other", "echo")).structured_content
        assert found["server"] == "s", found
        assert list(hub.upstreams) == ["s", "u"]
        assert hub.registry.upstream("t").name == "s"
        assert (await hub.restart("t")).name == "s"
        with pytest.raises(CallError) as caught:
            await hub.executor.execute("u", "echo", {"text": "x"})
        assert caught.value.code is Code.SERVER_UNAVAILABLE


@pytest.mark.parametrize("denied", ["t.echo", "t.*", "ot*.echo", "s.echo"])
async def test_no_rule_is_passed_by_an_alias(ears, denied):
    config = config_of({"s": entry(ears, settings={"aliases": ["t", "other"]})}, tools={"deny": [denied]})
    async with open_watched(config) as watch:
        for name in ("s", "t", "other"):
            with pytest.raises(CallError) as caught:
                await watch.hub.executor.execute(name, "echo", {"text": "x"})
            assert caught.value.code is Code.UNKNOWN_TOOL
    assert ears.of("call") == []


async def test_a_profile_means_a_server_by_an_alias_and_hides_it_by_all_of_them(ears):
    profiles = {"few": {"servers": ["t"], "tools": {"t": ["echo"]}}, "none": {"servers": ["v"]}}
    servers = {"s": entry(ears, settings={"aliases": ["t"]}), "v": entry()}
    async with open_watched(config_of(servers, profiles=profiles)) as watch:
        few, none = (HubView(watch.hub, Endpoint(profile=name)) for name in profiles)
        assert list(few.upstreams) == ["s"]
        assert (await few.calls.exec("t", "echo", {"text": "x"})).server_name == "s"
        other = next(name for name in watch.hub.upstreams["s"].catalogue.tools if name != "echo")
        for name in ("s", "t"):
            with pytest.raises(CallError) as caught:
                await few.calls.exec(name, other)
            assert caught.value.code is Code.UNKNOWN_TOOL
            with pytest.raises(CallError) as caught:
                await none.calls.exec(name, "echo", {"text": "x"})
            assert caught.value.code is Code.UNKNOWN_SERVER
        only = HubView(watch.hub, Endpoint(only=("t",)))
        assert list(only.upstreams) == ["s"]


@pytest.mark.parametrize("pattern", ["t.echo", "t.*", "s.echo", "echo"])
@pytest.mark.parametrize("by_profile", [False, True])
async def test_a_rule_for_one_server_may_name_it_by_an_alias(ears, pattern, by_profile):
    settings = {"aliases": ["other", "t"]} | ({} if by_profile else {"tools": {"deny": [pattern]}})
    profile = {"servers": ["s"], "tools": {"s": {"deny": [pattern] if by_profile else ["none"]}}}
    config = config_of({"s": entry(ears, settings=settings)}, profiles={"p": profile})
    async with open_watched(config) as watch:
        calls = HubView(watch.hub, Endpoint(profile="p")).calls
        with pytest.raises(CallError) as caught:
            await calls.exec("t", "echo", {"text": "x"})
        assert caught.value.code is Code.UNKNOWN_TOOL
    assert ears.of("call") == []


async def test_what_one_server_allows_may_be_named_by_an_alias(ears):
    settings = {"aliases": ["t"], "tools": {"allow": ["t.echo"]}}
    async with open_watched(config_of({"s": entry(ears, settings=settings)})) as watch:
        assert (await watch.hub.executor.execute("s", "echo", {"text": "x"})).raw_data == "x"

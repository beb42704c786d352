"""Calls of tools that the configuration has changed: by every way, in both eras, and what is kept back."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager

import pytest

from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.protocol.context import ClientId
from mcpx.core.system.endpoint import Endpoint
from supervisors import ChildSpec
from tests.mcpx.line import Line
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio
SECRET = "s3cr3t-of-the-house"
SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "what to look for"},
        "token": {"type": "string"},
        "root": {"type": "string"},
        "limit": {"type": "integer"},
        "dry": {"type": "boolean"},
    },
    "required": ["query", "token", "root", "limit"],
    "additionalProperties": False,
}
TOOL = {"name": "search_all", "description": "Searches all.", "inputSchema": SCHEMA}
OVERRIDE = {
    "name": "find",
    "description": "Finds papers.",
    "defaults": {"limit": 5},
    "fixed": {"token": "${HOUSE_TOKEN}", "root": "${project}"},
    "hidden": ["dry"],
}
ECHO = "@{params.name} @{params.arguments:json}"
FAILS = [
    {"error": {"code": -32000, "message": "bad token @{given.token}", "data": {"was": "@{given.token}"}}}
]
GIVEN = {"query": "x"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("HOUSE_TOKEN", SECRET)


def server(notes, *, answer=None, **settings):
    answers = {"tools/call *": [{"append": str(notes), "line": ECHO}, *(answer or [{"say": ECHO}])]}
    return entry(settings=settings, offers={"tools": [TOOL, "other"]}, answers=answers)


def arrived(notes):
    """The calls that the server got."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [(line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in lines]


def exec_of(tool, arguments=GIVEN):
    names = {"server_name": "s", "tool_name": tool}
    return "tools/call", {"name": "exec", "arguments": names | {"arguments": arguments}}


def native(tool, arguments=GIVEN):
    return "tools/call", {"name": f"s__{tool}", "arguments": arguments}


@asynccontextmanager
async def opened(entry, *, profile=None, project=None, expose="both", capabilities=None, **settings):
    """A line to a hub over one server, of a client in a project."""
    profiles = {} if profile is None else {"profiles": {"p": profile}}
    async with open_watched(config_of({"s": entry}, **profiles, **settings)) as watch:
        sessions = ClientSessions(watch.hub)
        endpoints = Endpoints(watch.hub, sessions)
        watch.hub.root.add(ChildSpec(name="clients", run=sessions.run))
        gateway = endpoints.gateway(Endpoint(expose=expose, profile=None if profile is None else "p"))
        client = ClientId()
        client.has_root(project and str(project))
        async with Line(watch.hub).connected(gateway, client) as line:
            await line.initialize(capabilities=capabilities)
            line.watch = watch
            yield line


def text_of(result):
    return result["content"][0]["text"]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("way", [exec_of, native])
@pytest.mark.parametrize("at", ["entry", "profile"])
async def test_a_call_arrives_as_the_server_wants_it_and_nothing_fixed_comes_back(tmp_path, slow, way, at):
    notes, overrides = tmp_path / "notes", {"search_all": OVERRIDE}
    entry = server(notes, **({"overrides": overrides} if at == "entry" else {}))
    profile = {"overrides": {"s": overrides}} if at == "profile" else None
    async with opened(entry, profile=profile, project=tmp_path) as line:
        line.slow = slow
        for given in (GIVEN, GIVEN | {"limit": 9}):
            result = await line.ask(*way("find", given))
            assert not result.get("isError"), result
            assert SECRET not in json.dumps(result)
            assert "***HOUSE_TOKEN***" in text_of(result)
            assert '"root": "***root***"' in text_of(result)
    fixed = {"token": SECRET, "root": str(tmp_path)}
    assert arrived(notes) == [
        ("search_all", GIVEN | {"limit": 5} | fixed),
        ("search_all", GIVEN | {"limit": 9} | fixed),
    ]
    assert (line.fast > 0) is not slow


async def test_what_is_shown_has_the_new_form_and_nothing_that_is_hidden(tmp_path):
    async with opened(
        server(tmp_path / "notes", overrides={"search_all": OVERRIDE}), project=tmp_path
    ) as line:
        asked = [
            ("tools/list", {}),
            *(
                ("tools/call", {"name": "inspect", "arguments": given})
                for given in (
                    {},
                    {"server_name": "s"},
                    {"query": "papers"},
                    {"server_name": "s", "tool_name": "find"},
                )
            ),
        ]
        answers = [json.dumps(await line.ask(*each)) for each in asked]
        assert all("find" in each for each in (answers[0], *answers[2:]))
        for hidden in (SECRET, "token", "dry", "Searches all"):
            assert not any(re.search(rf"\b{hidden}\b", each) for each in answers), hidden
        listed = next(each for each in json.loads(answers[0])["tools"] if each["name"] == "s__find")
        assert [*listed["inputSchema"]["properties"]] == ["query", "limit"]
        assert "name (search_all at the server)" in answers[-1]
        assert "changed_by_configuration" in answers[-1]


@pytest.mark.parametrize("slow", [False, True])
async def test_what_is_hidden_can_be_neither_given_nor_found(tmp_path, slow):
    notes = tmp_path / "notes"
    async with opened(server(notes, overrides={"search_all": OVERRIDE}), project=tmp_path) as line:
        line.slow = slow
        refused = [
            exec_of("find", GIVEN | {"token": "mine"}),
            exec_of("find", GIVEN | {"dry": True}),
            exec_of("search_all"),
            native("search_all"),
            exec_of("find", {}),
        ]
        answers = [await line.ask(*each) for each in refused]
        assert all(each is None or each["isError"] for each in answers)
        assert SECRET not in json.dumps(answers)
    assert arrived(notes) == []


async def test_an_error_of_the_server_loses_what_it_repeats(tmp_path):
    entry = server(tmp_path / "notes", answer=FAILS, overrides={"search_all": OVERRIDE})
    async with opened(entry, project=tmp_path) as line:
        for way in (exec_of, native):
            await line.ask(*way("find"))
            result = await line.ask(*way("find"))
            assert "bad token ***HOUSE_TOKEN***" in json.dumps([result, line.error])
            assert SECRET not in json.dumps([result, line.error])


@pytest.mark.parametrize("at", ["entry", "profile"])
async def test_what_a_server_says_on_the_way_loses_what_it_repeats(tmp_path, at):
    told, question = "with @{given.token}", {"type": "object", "properties": {}}
    steps = [
        {"progress": {"progress": 1, "message": told}},
        {"notify": "notifications/message", "params": {"level": "error", "data": told}},
        {"ask": {"method": "elicitation/create", "params": {"message": told, "requestedSchema": question}}},
        {"say": "@{answer.action}"},
    ]
    overrides = {"search_all": OVERRIDE}
    entry = server(tmp_path / "notes", answer=steps, **({"overrides": overrides} if at == "entry" else {}))
    profile = {"overrides": {"s": overrides}} if at == "profile" else None
    async with opened(entry, profile=profile, project=tmp_path, capabilities={"elicitation": {}}) as line:
        said = []

        def decode(written):
            message = json.loads(written)
            said.append(message)
            if message.get("method") == "elicitation/create":
                line.answer(message.pop("id"), {"action": "decline"})
            return message

        line.decode = decode
        await line.ask("logging/setLevel", {"level": "debug"})
        method, params = exec_of("find")
        result = await line.ask(method, params | {"_meta": {"progressToken": "t"}})
        assert text_of(result) == "decline"
    methods = [each["method"] for each in said if "method" in each]
    assert methods == ["notifications/progress", "notifications/message", "elicitation/create"]
    for each in said[1:4]:
        assert "with ***HOUSE_TOKEN***" in json.dumps(each)
    assert SECRET not in json.dumps(said)


async def test_without_a_project_a_call_that_needs_one_is_refused(tmp_path):
    notes = tmp_path / "notes"
    async with opened(server(notes, overrides={"search_all": OVERRIDE})) as line:
        result = await line.ask(*exec_of("find"))
        assert result["structuredContent"]["missing"] == ["project"]
    assert arrived(notes) == []


async def test_sessions_of_their_own_get_the_same(tmp_path):
    for sessions in ("per_client", "per_project"):
        notes = tmp_path / sessions
        entry = server(notes, overrides={"search_all": OVERRIDE}, sessions=sessions)
        async with opened(entry, project=tmp_path) as line:
            result = await line.ask(*exec_of("find"))
            assert not result.get("isError"), result
        assert arrived(notes) == [
            ("search_all", GIVEN | {"limit": 5, "token": SECRET, "root": str(tmp_path)})
        ]


async def test_an_override_that_is_wrong_takes_its_tool_away_and_disturbs_nothing_else(tmp_path):
    wrong = {"search_all": {"hidden": ["token"]}, "gone": {"name": "x"}}
    async with opened(server(tmp_path / "notes", overrides=wrong)) as line:
        answer = text_of(await line.ask("tools/call", {"name": "inspect", "arguments": {"server_name": "s"}}))
        assert "required, and hidden without a fixed value" in answer
        assert "the server has no such tool" in answer
        assert (await line.ask(*exec_of("search_all")))["isError"]
        assert not (await line.ask(*exec_of("other", {}))).get("isError")


async def test_a_profile_goes_on_top_of_the_entry(tmp_path):
    notes = tmp_path / "notes"
    entry = server(notes, overrides={"search_all": OVERRIDE})
    profile = {"overrides": {"s": {"find": {"name": "papers", "fixed": {"limit": 2}}}}}
    async with opened(entry, profile=profile, project=tmp_path) as line:
        assert not (await line.ask(*exec_of("papers"))).get("isError")
        assert (await line.ask(*exec_of("find")))["isError"]
        watched = await line.watch.hub.calls.exec("s", "find", GIVEN, client=ClientId(folder=str(tmp_path)))
        assert not watched.is_error
    assert [arguments["limit"] for _, arguments in arrived(notes)] == [2, 5]


async def test_pins_hold_the_servers_own_form_whatever_the_configuration_makes_of_it(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    entry = server(tmp_path / "notes", pin="block")
    for overrides in (
        {},
        {"search_all": OVERRIDE},
        {"search_all": {"name": "look_up", "fixed": {"limit": 1}}},
    ):
        async with open_watched(config_of({"s": entry | {"overrides": overrides}}), state=state) as watch:
            pins = watch.hub.upstreams["s"].policy.pins
            assert pins.changes() == []
            assert set(pins.names()) == {"search_all", "other"}


async def test_the_audit_log_has_the_call_as_the_client_made_it(tmp_path):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    config = config_of({"s": server(tmp_path / "notes", overrides={"search_all": OVERRIDE})}, audit="full")
    async with open_watched(config, state=state) as watch:
        client = ClientId(folder=str(tmp_path))
        assert not (await watch.hub.calls.exec("s", "find", GIVEN, client=client)).is_error
    kept = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    assert not [path for path, text in kept.items() if SECRET.encode() in text]
    logs = [text for path, text in kept.items() if "audit" in str(path.relative_to(state))]
    assert any(b'"find"' in text and b'{"query":"x"}' in text for text in logs)


async def test_a_kept_result_is_of_the_call_that_the_server_got(tmp_path):
    notes, folders = tmp_path / "notes", [tmp_path / "a", tmp_path / "b"]
    settings = {
        "overrides": {"search_all": OVERRIDE},
        "annotations": {"find": {"readOnlyHint": True}},
        "cache": {"find": 300},
    }
    async with open_watched(config_of({"s": server(notes, **settings)})) as watch:
        for folder in (*folders, *folders):
            client = ClientId(folder=str(folder))
            result = await watch.hub.calls.exec("s", "find", GIVEN, client=client)
            assert SECRET not in json.dumps(result.raw)
    assert [arguments["root"] for _, arguments in arrived(notes)] == list(map(str, folders))


async def test_a_transparent_endpoint_shows_and_runs_the_servers_own(tmp_path):
    notes = tmp_path / "notes"
    async with open_watched(config_of({"s": server(notes, overrides={"search_all": OVERRIDE})})) as watch:
        policy = watch.hub.upstreams["s"].policy
        assert not policy.alters_lists
        page = policy.shown_page(watch.hub.upstreams["s"].listed)
        assert list(page.tools) == ["search_all", "other"]
        assert page.tools["search_all"].change is None


async def test_a_secret_too_short_to_be_told_from_words_is_kept_back_in_its_argument(tmp_path, monkeypatch):
    monkeypatch.setenv("HOUSE_TOKEN", "abc")
    fixed = {"token": "Bearer ${HOUSE_TOKEN}", "root": "${HOUSE_TOKEN}"}
    entry = server(tmp_path / "notes", overrides={"search_all": OVERRIDE | {"fixed": fixed}})
    async with opened(entry) as line:
        said = text_of(await line.ask(*exec_of("find")))
    assert "abc" not in said
    assert arrived(tmp_path / "notes")[0][1]["token"] == "Bearer abc"

"""Every way to list, find, read and run a thing, times every rule: what is denied is neither seen nor run.

What is not admitted is to be as if the server did not have it. So each way is asked twice: of an MCPX with
the rule, and of one whose servers offer no more than what the rule admits. The answers must be the same, and
nothing that is denied may reach the server. What is said of a URI that a template could make cannot be the
same, because a server would be asked: there it is enough that it is refused, and never sent.
"""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx2
import pytest

from mcpx.core.calls.registry import generate_resources_description, generate_tools_description
from mcpx.core.config import HttpGateway
from mcpx.core.daemon.hub import Hub
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.gateway.frontends.operations import ControlRequest, perform
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from mcpx.errors import MCPXError
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import HttpEndpoint, envelope_of
from tests.mcpx.core.policy import listing
from tests.mcpx.line import Line
from tests.mcpx.scripted import PATIENCE_S, config_of, open_watched
from tests.mcpx.serving import run_cli, write_config

pytestmark = pytest.mark.anyio
OFFER = {
    "tools": ["look", "find", "wipe", "wipe_all"],
    "prompts": ["greet", "betray"],
    "resources": ["note:///open/a", "note:///secret/a"],
    "templates": ["note:///open/{name}", "note:///secret/{name}", "file:///{+path}"],
    "app_tools": ["tick", "wipe_app"],
    "pages": {"look": "ui://open/page", "find": "ui://secret/page", "wipe": "ui://wipe/page"},
    "skills": {
        "skill://open/SKILL.md": ["skill://open/SKILL.md", "skill://open/a.md", "skill://open/secret.md"],
        "skill://secret/SKILL.md": ["skill://secret/SKILL.md"],
    },
}
LEFT = {
    "tools": ["look", "find"],
    "prompts": ["greet"],
    "resources": ["note:///open/a"],
    "templates": ["note:///open/{name}", "file:///{+path}"],
    "app_tools": ["tick"],
    "pages": {"look": "ui://open/page"},
    "skills": {"skill://open/SKILL.md": ["skill://open/SKILL.md", "skill://open/a.md"]},
}
DENIED = re.compile(r"wipe|betray|secret")

DENY = {
    "tools": {"deny": ["wipe*"]},
    "resources": {"deny": ["note:///secret/*", "file:///*secret*", "ui://secret/*", "skill://*secret*"]},
    "prompts": {"deny": ["betray"]},
}
ALLOW = {
    "tools": {"allow": ["look", "find", "tick"]},
    "resources": {
        "allow": [
            *("note:///open/*", "file:///open/*", "ui://open/*"),
            *("skill://open", "skill://open/SKILL.md", "skill://open/[ab].md"),
        ]
    },
    "prompts": {"allow": ["greet"]},
}
NAMED = {
    "tools": {"deny": ["vault.wipe*", "other.look"]},
    "resources": {
        "deny": [
            *("mcpx://vault/note:///secret/*", "mcpx://vault/file:///*secret*"),
            *("ui://mcpx/vault/secret/*", "mcpx://vault/skill://open/secret*", "skill://mcpx/vault/secret*"),
        ]
    },
    "prompts": {"deny": ["vault.betray"]},
}
BOTH = {name: ALLOW[name] | {"allow": ["*"]} | DENY[name] for name in ALLOW}
ASKED = ALLOW | {"tools": {"allow": ["look", "tick"], "ask": ["find"]}}
HOST = {"extensions": {"io.modelcontextprotocol/ui": {}, "io.modelcontextprotocol/skills": {}}}
PROFILE = Endpoint(profile="p")
RENAMED = {"wipe": {"name": "tidy"}, "wipe_all": {"name": "clean", "description": "Cleans."}}
RULES = {
    "deny": ({}, DENY, {}, DEFAULT_ENDPOINT),
    "allow": ({}, ALLOW, {}, DEFAULT_ENDPOINT),
    "both": ({}, BOTH, {}, DEFAULT_ENDPOINT),
    "deny-for-all": (DENY, {}, {}, DEFAULT_ENDPOINT),
    "allow-for-all": (ALLOW, {}, {}, DEFAULT_ENDPOINT),
    "named-for-all": (NAMED, {}, {}, DEFAULT_ENDPOINT),
    "deny-for-all-allow": (
        DENY,
        {"tools": {"allow": ["*"]}, "prompts": {"allow": ["*"]}},
        {},
        DEFAULT_ENDPOINT,
    ),
    "allow-for-all-allow": (
        {"tools": {"allow": []}} | DENY | {"tools": {"allow": []}},
        ALLOW,
        {},
        DEFAULT_ENDPOINT,
    ),
    "profile-deny": ({}, {}, DENY, PROFILE),
    "profile-allow": ({}, {}, ALLOW, PROFILE),
    "profile-by-server": ({}, {}, DENY | {"tools": {"vault": ["look", "find", "tick"]}}, PROFILE),
    "profile-rules-by-server": ({}, {}, DENY | {"tools": {"vault": {"deny": ["wipe*"]}}}, PROFILE),
    "profile-and-server": ({}, {"tools": DENY["tools"]}, DENY | {"tools": {"allow": ["*"]}}, PROFILE),
    "profile-never-widens": ({}, DENY, {name: {"allow": ["*"]} for name in ALLOW}, PROFILE),
    "override-by-own-name": ({}, DENY | {"overrides": RENAMED}, {}, DEFAULT_ENDPOINT),
    "override-by-new-name": (
        {"tools": {"deny": ["tidy*", "vault.clean", "*_app"]}},
        {name: DENY[name] for name in ("resources", "prompts")} | {"overrides": RENAMED},
        {},
        DEFAULT_ENDPOINT,
    ),
    "override-in-profile": (
        {},
        {"overrides": {"wipe": {"name": "tidy_1"}}},
        DENY | {"tools": {"vault": {"deny": ["tidy*", "wipe_*"]}}, "overrides": {"vault": RENAMED}},
        PROFILE,
    ),
}


OVER_HTTP = ["deny", "allow-for-all", "profile-by-server"]
"""Over HTTP the requests are served as on a stream by the SDK: one rule of each kind is enough."""


def entry(folder, name, offer, **settings):
    return listing.entry(name, folder / f"{name}-notes", offer, **{"auto_describe": False, **settings})


def here_and_there(folder, rule, **more):
    """The configuration with a rule, and the one whose server offers the rest alone."""
    for_all, own, profile, endpoint = RULES[rule]
    plain = {"p": {}} if endpoint is PROFILE else {}
    (folder / "there").mkdir(exist_ok=True)
    here = config_of(
        {"vault": entry(folder, "vault", OFFER, **own)},
        **for_all,
        **more,
        **({"profiles": {"p": profile}} if plain else {}),
    )
    there = config_of({"vault": entry(folder / "there", "vault", LEFT)}, **more, profiles=plain)
    return here, there, endpoint


def sent(folder):
    """What has reached the server."""
    notes = folder / "vault-notes"
    return notes.read_text() if notes.exists() else ""


def call(tool, **arguments):
    return "tools/call", {"name": tool, "arguments": arguments}


def completion(**ref):
    return "completion/complete", {"ref": ref, "argument": {"name": "about", "value": "v"}}


SAME = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    call("inspect"),
    call("inspect", server_name="vault"),
    call("inspect", server_name="wipe"),
    call("inspect", server_name="vault.wipe"),
    call("inspect", tool_name="wipe"),
    call("inspect", tool_name=["look", "wipe", "wipe_al"]),
    call("inspect", server_name="vault", tool_name="wipe"),
    call("inspect", server_name="vault", tool_name="look"),
    call("inspect", query="wipe all of it"),
    call("inspect", query="look and find"),
    call("inspect", server_name="vault", query="wipe"),
    call("exec", server_name="vault", tool_name="look", arguments={"text": "x"}),
    call("exec", server_name="vault", tool_name="find"),
    call("exec", server_name="vault", tool_name="wipe", arguments={"text": "x"}),
    call("exec", server_name="vault", tool_name="wipe_all", arguments={"text": 3}),
    call("exec", server_name="vault", tool_name="wip"),
    call("exec", server_name="vault", tool_name="vault.wipe"),
    call("exec", server_name="vault", tool_name="wipe", arguments={}, select="a"),
    call("exec", server_name="", tool_name="wipe"),
    call("exec", server_name="wipe", tool_name=""),
    call("exec", server_name="wipe", tool_name="vault"),
    call("exec", server_name="mcp__vault__wipe", tool_name=""),
    call("exec", server_name="vaul", tool_name="wipe"),
    call("vault__look", text="x"),
    call("vault__wipe", text="x"),
    call("vault__wip"),
    call("resources"),
    call("resources", server_name="vault"),
    call("resources", server_name="vault", uri="note:///open/a"),
    call("resources", server_name="vault", uri="note:///open/b"),
    call("resources", server_name="vault", uri="file:///open/b"),
    call("resources", server_name="vault", uri="mcpx://vault/note:///open/a"),
    call("resources", server_name="vault", uri="other:///x"),
    ("resources/read", {"uri": "mcpx://vault/note:///open/a"}),
    ("resources/read", {"uri": "note:///open/b"}),
    ("resources/read", {"uri": "mcpx://vault/other:///x"}),
    ("prompts/get", {"name": "vault.greet"}),
    ("prompts/get", {"name": "vault.betray"}),
    ("prompts/get", {"name": "vault.betra"}),
    completion(type="ref/prompt", name="vault.greet"),
    completion(type="ref/prompt", name="vault.betray"),
    completion(type="ref/resource", uri="mcpx://vault/note:///open/{name}"),
    call("vault__tick"),
    call("vault__wipe_app"),
    call("tick"),
    call("wipe_app"),
    call("inspect", server_name="vault", tool_name=["tick", "wipe_app"]),
    call("exec", server_name="vault", tool_name="tick"),
    call("exec", server_name="vault", tool_name="wipe_app"),
    call("resources", server_name="vault", uri="ui://open/page"),
    call("resources", server_name="", uri="ui://open/page"),
    call("resources", server_name="vault", uri="skill://open/a.md"),
    ("resources/read", {"uri": "ui://open/page"}),
    ("resources/read", {"uri": "ui://mcpx/vault/open/page"}),
    ("resources/read", {"uri": "skill://mcpx/vault/open/a.md"}),
    ("skills/list", {}),
    ("skills/get", {"uri": "skill://open/SKILL.md"}),
    ("skills/get", {"uri": "mcpx://vault/skill://open/SKILL.md"}),
    ("resources/directory/read", {"uri": "skill://mcpx/vault/open"}),
]
"""Requests with the same answers as of a server that has not got what is denied."""
REFUSED_URIS = [
    "note:///secret/a",
    "note:///secret/b",
    "NOTE:///secret/a",
    "note:///open/../secret/a",
    "note:///open/%2e%2e/secret/a",
    "note:///%73ecret/a",
    "note:////secret/a",
    "note:///open/./../secret/a",
    "file:///secret",
    "file:///%2573ecret",
    "file:///x/secret?query",
    "ui://secret/page",
    "skill://secret/SKILL.md",
    "skill://open/secret.md",
    "skill://open/./secret.md",
]
REFUSED = [
    *(call("resources", server_name="vault", uri=uri) for uri in REFUSED_URIS),
    *(call("resources", server_name="vault", uri=f"mcpx://vault/{uri}") for uri in REFUSED_URIS),
    *(call("resources", server_name="", uri=f"mcpx://vault/{uri}") for uri in REFUSED_URIS),
    *(call("resources", server_name="", uri=uri) for uri in REFUSED_URIS),
    *(("resources/read", {"uri": f"mcpx://vault/{uri}"}) for uri in REFUSED_URIS),
    *(("resources/read", {"uri": uri}) for uri in REFUSED_URIS),
    completion(type="ref/resource", uri="mcpx://vault/note:///secret/{name}"),
    *(
        (method, {"uri": f"{prefix}{uri}"})
        for method in ("skills/get", "resources/directory/read")
        for prefix in ("", "mcpx://vault/")
        for uri in REFUSED_URIS
    ),
    ("resources/directory/read", {"uri": "skill://mcpx/vault/secret"}),
    ("resources/read", {"uri": "ui://mcpx/vault/secret/page"}),
    ("resources/read", {"uri": "skill://mcpx/vault/open/secret.md"}),
    ("resources/read", {"uri": "ui://wipe/page"}),
]
SUBSCRIPTIONS = [("resources/subscribe", {"uri": f"mcpx://vault/{uri}"}) for uri in REFUSED_URIS]
SUBSCRIBED = [
    ("resources/subscribe", {"uri": "mcpx://vault/note:///open/a"}),
    ("resources/unsubscribe", {"uri": "mcpx://vault/note:///open/a"}),
]


class World:
    """A hub and its endpoints, with what a test asks of them."""

    def __init__(self, watch, endpoint):
        self.hub = watch.hub
        self.endpoint = endpoint
        self.sessions = ClientSessions(watch.hub)
        self.endpoints = Endpoints(watch.hub, self.sessions)
        watch.hub.root.add(ChildSpec(name="clients", run=self.sessions.run))

    @asynccontextmanager
    async def line(self, *, modern, slow):
        gateway = self.endpoints.gateway(Endpoint(expose="both", profile=self.endpoint.profile))
        async with Line(self.hub).connected(gateway) as line:
            line.slow = slow
            line.meta = {"_meta": envelope_of(HOST)} if modern else {}
            line.greeted = None if modern else await line.initialize(capabilities=HOST)
            yield line

    @asynccontextmanager
    async def http(self):
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(listen("127.0.0.1", 0))
            frontend = HttpFrontend(self.endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
            self.hub.root.add(ChildSpec(name="http", run=frontend.run))
            client = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE_S))
            profile = f"/{self.endpoint.profile}" if self.endpoint.profile else ""
            clients = [
                HttpEndpoint(client, frontend.url + profile, modern=modern, capabilities=HOST)
                for modern in (False, True)
            ]
            for each in clients:
                await each.open()
            yield clients


@asynccontextmanager
async def worlds(folder, rule, **more):
    here, there, endpoint = here_and_there(folder, rule, **more)
    async with open_watched(here) as watch, open_watched(there) as other:
        yield World(watch, endpoint), World(other, endpoint)


def masked(answer):
    """An answer without the random id of a result that is kept."""
    return re.sub(r"result/[0-9a-f]{4}\b", "result/ID", json.dumps(answer))


async def asked(line, method, params):
    result = await line.ask(method, params | line.meta)
    return masked([result, line.error])


def ways(rule):
    """The era and the path of two lines: each rule in both eras and on both paths, every other way round."""
    crossed = [*RULES].index(rule) % 2 == 1
    return (False, crossed), (True, not crossed)


def is_error(result, error):
    return error is not None or bool(result and result.get("isError"))


@pytest.mark.parametrize("rule", RULES)
async def test_on_a_stream_nothing_denied_is_seen_or_run_and_nothing_allowed_is_lost(tmp_path, rule):
    async with worlds(tmp_path, rule) as (here, there):
        for modern, slow in ways(rule):
            async with (
                here.line(modern=modern, slow=slow) as ours,
                there.line(modern=modern, slow=slow) as theirs,
            ):
                assert ours.greeted == theirs.greeted
                more = [("server/discover", {})] if modern else SUBSCRIBED
                for method, params in [*SAME, *more]:
                    answers = [await asked(line, method, params) for line in (ours, theirs)]
                    assert answers[0] == answers[1], (method, params)
                for method, params in [*REFUSED, *(() if modern else SUBSCRIPTIONS)]:
                    result = await ours.ask(method, params | ours.meta)
                    assert is_error(result, ours.error), (method, params)
    assert "look" in sent(tmp_path)
    assert not DENIED.search(sent(tmp_path))


@pytest.mark.parametrize("rule", OVER_HTTP)
async def test_over_http_nothing_denied_is_seen_or_run_and_nothing_allowed_is_lost(tmp_path, rule):
    async with worlds(tmp_path, rule) as (here, there), here.http() as ours, there.http() as theirs:
        for at_ours, at_theirs in zip(ours, theirs, strict=True):
            for method, params in SAME:
                answers = [await each.answer(method, params) for each in (at_ours, at_theirs)]
                found = [masked([bytes(each.result).decode(), each.error]) for each in answers]
                assert found[0] == found[1], (method, params)
            for method, params in REFUSED:
                answer = await at_ours.answer(method, params)
                result = json.loads(bytes(answer.result) or b"null")
                assert is_error(result, answer.error), (method, params)
    assert not DENIED.search(sent(tmp_path))


CONTROL = [
    {"mcpx": "inspect"},
    {"mcpx": "inspect", "server": "vault"},
    {"mcpx": "inspect", "server": "vault", "tool": "wipe"},
    {"mcpx": "inspect", "tool": ["look", "wipe"]},
    {"mcpx": "inspect", "query": "wipe"},
    {"mcpx": "exec", "server": "vault", "tool": "look", "arguments": {}},
    {"mcpx": "exec", "server": "vault", "tool": "find", "pairs": [("text", "x")]},
    {"mcpx": "exec", "server": "vault", "tool": "wipe", "arguments": {}},
    {"mcpx": "exec", "server": "vault", "tool": "wipe", "pairs": [("tex", "x")]},
    {"mcpx": "exec", "tool": "wipe", "arguments": {}},
    {"mcpx": "resources"},
    {"mcpx": "resources", "server": "vault"},
    {"mcpx": "resources", "server": "vault", "uri": "note:///open/a"},
    {"mcpx": "prompts"},
    {"mcpx": "prompts", "server": "vault"},
    {"mcpx": "prompts", "server": "vault", "prompt": "greet"},
    {"mcpx": "prompts", "server": "vault", "prompt": "betray"},
]


@pytest.mark.parametrize("rule", RULES)
async def test_for_the_command_line_and_programs_it_is_the_same(tmp_path, rule):
    async def performed(world, given):
        try:
            return masked(await perform(world.hub, ControlRequest(**given, profile=world.endpoint.profile)))
        except MCPXError as error:
            return str(error)

    async with worlds(tmp_path, rule) as (here, there):
        for given in CONTROL:
            answers = [await performed(world, given) for world in (here, there)]
            assert answers[0] == answers[1], given
        for uri in REFUSED_URIS:
            given = {"mcpx": "resources", "server": "vault", "uri": uri}
            assert not (await performed(here, given)).startswith("{"), uri
        views = [HubView(world.hub, world.endpoint) for world in (here, there)]
        for found in zip(*map(seen_by_programs, views), strict=True):
            assert found[0] == found[1]
        assert not any(views[0].registry.may_read("vault", uri) for uri in REFUSED_URIS)
    assert not DENIED.search(sent(tmp_path))


def seen_by_programs(view):
    registry = view.registry
    yield [each.to_dict() for each in registry.list_servers()]
    yield registry.list_tools("vault")
    yield registry.list_resources("vault")
    yield registry.list_all_resources()
    yield [registry.get_tool("vault", name) for name in OFFER["tools"]]
    yield [registry.get_resource("vault", uri) for uri in OFFER["resources"]]
    yield [registry.server_with(uri) for uri in OFFER["resources"]]
    yield generate_tools_description(registry)
    yield generate_resources_description(registry)


@pytest.mark.parametrize("rule", RULES)
async def test_what_is_known_from_last_time_is_seen_through_the_rules_of_now(tmp_path, rule):
    here, there, endpoint = here_and_there(tmp_path, rule, remembered_for=86400)
    before = config_of({"vault": entry(tmp_path, "vault", OFFER)})
    for name, config in (("here", before), ("there", there)):
        async with open_watched(config, state=tmp_path / f"{name}-state"):
            pass
    hubs = [Hub(each, state=tmp_path / f"{name}-state") for name, each in (("here", here), ("there", there))]
    views = [HubView(hub, endpoint) for hub in hubs]
    assert views[0].upstreams["vault"].catalogue is not None
    for found in zip(*map(seen_by_programs, views), strict=True):
        assert DENIED.search(repr(found[0])) is None
    assert views[0].registry.list_tools("vault") == views[1].registry.list_tools("vault")


async def test_a_rule_for_one_server_takes_nothing_from_another(tmp_path):
    (tmp_path / "other").mkdir()
    servers = {
        "vault": entry(tmp_path, "vault", OFFER, **DENY),
        "other": entry(tmp_path / "other", "other", OFFER),
    }
    async with open_watched(config_of(servers, tools={"deny": ["vault.look"]})) as watch:
        assert [each.name for each in watch.hub.registry.list_tools("vault")] == ["find"]
        assert [each.name for each in watch.hub.registry.list_tools("other")] == OFFER["tools"]
        assert (await watch.text("wipe", {}, server="other")) == "ran wipe of other"
        error = await watch.failure("wipe", {}, server="vault")
        assert error.code == "unknown_tool"
        assert error.details["servers_with_it"] == ["other"]


async def test_in_the_terminal_without_a_daemon_it_is_the_same(tmp_path):
    config = write_config(tmp_path, {"vault": entry(tmp_path, "vault", OFFER, **DENY)})

    async def run(*arguments):
        return await anyio.to_thread.run_sync(lambda: run_cli(tmp_path, *arguments, "--config", config))

    listed = await run("inspect", "vault", "--json")
    assert "look" in listed.stdout
    refused = await run("exec", "vault", "wipe")
    assert refused.returncode
    assert "no tool named" in refused.stderr + refused.stdout
    assert not DENIED.search(listed.stdout)
    assert not DENIED.search(sent(tmp_path))


QUERIES = [
    ("tools/list", {}),
    call("query", server_name="vault", tool_name="look"),
    call("query", server_name="vault", tool_name="find"),
    call("query", server_name="vault", tool_name="wipe"),
    call("query", server_name="", tool_name="wipe"),
    call("query", server_name="vault", tool_name="wip"),
    call("query", server_name="vault", tool_name="wipe_all", arguments={"text": 3}),
]


@pytest.mark.parametrize(
    "rule", ["deny", "allow-for-all", "named-for-all", "profile-deny", "profile-by-server"]
)
async def test_with_tiers_a_denied_tool_that_is_read_only_is_unknown_to_query_too(
    tmp_path, rule, monkeypatch
):
    read_only = {"annotations": {"look": {"readOnlyHint": True}, "wipe": {"readOnlyHint": True}}}
    for offer in (OFFER, LEFT):
        monkeypatch.setitem(offer, "annotations", read_only["annotations"])
    async with worlds(tmp_path, rule, tiers=True) as (here, there):
        for modern, slow in ways(rule):
            async with (
                here.line(modern=modern, slow=slow) as ours,
                there.line(modern=modern, slow=slow) as theirs,
            ):
                for method, params in QUERIES:
                    answers = [await asked(line, method, params) for line in (ours, theirs)]
                    assert answers[0] == answers[1], (method, params)
    assert "tools/call look" in sent(tmp_path)
    assert not DENIED.search(sent(tmp_path))


ATTEMPTS = [
    (call("exec", server_name="vault", tool_name="wipe"), "wipe", "tools.deny: wipe*"),
    (call("vault__wipe"), "vault__wipe", "tools.deny: wipe*"),
    (call("exec", server_name="vault", tool_name="vault.wipe"), "vault.wipe", "tools.deny: wipe*"),
    (call("exec", tool_name="vault.wipe_all"), "vault.wipe_all", "tools.deny: wipe*"),
    (call("resources", server_name="vault", uri="note:///secret/a"), "note:///secret/a", "resources.deny: "),
    (("resources/read", {"uri": "mcpx://vault/note:///secret/b"}), "note:///secret/b", "resources.deny: "),
    (("resources/read", {"uri": "note:///secret/b"}), "note:///secret/b", "resources.deny: "),
    (("prompts/get", {"name": "vault.betray"}), "vault.betray", "prompts.deny: betray"),
    (completion(type="ref/prompt", name="vault.betray"), "vault.betray", "prompts.deny: betray"),
    (
        completion(type="ref/resource", uri="mcpx://vault/note:///secret/{name}"),
        "note:///secret/{name}",
        "resources.deny: ",
    ),
]


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
async def test_each_attempt_is_in_the_audit_log_and_the_rule_where_it_is_known(tmp_path, slow):
    config = config_of({"vault": entry(tmp_path, "vault", OFFER)}, **DENY)
    async with open_watched(config, state=tmp_path / "state") as watch:
        world = World(watch, DEFAULT_ENDPOINT)
        async with world.line(modern=False, slow=slow) as line:
            for (method, params), _, _ in ATTEMPTS:
                await line.ask(method, params)
    files = (tmp_path / "state" / "audit").glob("*.jsonl")
    lines = [json.loads(each) for file in files for each in file.read_text().splitlines()]
    found = [each for each in lines if DENIED.search(each.get("name", ""))]
    assert [each["name"] for each in found] == [name for _, name, _ in ATTEMPTS]
    assert {each["outcome"] for each in found} == {"not_sent"}
    for line, (_, _, rule) in zip(found, ATTEMPTS, strict=True):
        assert (line["rule"] or "").startswith(rule or ""), line


@pytest.mark.parametrize("modern", [False, True], ids=["handshake", "modern"])
async def test_no_value_is_suggested_that_makes_a_denied_uri(tmp_path, modern):
    rules = {"deny": ["note:///open/value of *"]}
    async with (
        open_watched(config_of({"vault": entry(tmp_path, "vault", OFFER)}, resources=rules)) as watch,
        World(watch, DEFAULT_ENDPOINT).line(modern=modern, slow=False) as line,
    ):
        for template, values in (("open/{about}", []), ("secret/{about}", ["value of vault"])):
            asking, params = completion(type="ref/resource", uri=f"mcpx://vault/note:///{template}")
            result = await line.ask(asking, params | line.meta)
            assert result["completion"]["values"] == values

"""From what was found to one configuration: equal servers once, clashing names apart, what is there kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example
from hypothesis import given as given_values
from hypothesis import strategies as st

from mcpx.core.config import parse
from mcpx.setup.clients import ImportPlan, plan_import
from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import read
from tests.mcpx.setup.clients.homes import given

GIT = {"command": "uvx", "args": ["mcp-server-git"]}
OTHER_GIT = {"command": "npx", "args": ["git"]}


def of(client: str, **servers: dict[str, Any]):
    return given(client, json.dumps({"servers" if client == "vscode" else "mcpServers": servers}))


def written(plan: ImportPlan) -> dict[str, Any]:
    assert plan.after is not None
    return json.loads(plan.after)["mcpServers"]


def test_without_a_configuration_one_is_made() -> None:
    plan = plan_import([of("cursor", git=GIT)], None)
    assert written(plan) == {"git": GIT}
    assert list(parse(plan.after or b"", where="c").servers) == ["git"]
    assert plan_import([of("cursor", git=GIT)], b" \n").after == plan.after


def test_equal_servers_of_several_clients_become_one_and_other_names_are_aliases() -> None:
    same = {"type": "stdio", **GIT, "env": {}}
    plan = plan_import([of("cursor", git=GIT), of("vscode", **{"my-git": same})], None)
    assert written(plan) == {"git": {**GIT, "aliases": ["my-git"]}}
    (server,) = plan.servers
    assert [(origin.client, origin.name) for origin in server.origins] == [
        ("cursor", "git"),
        ("vscode", "my-git"),
    ]
    assert plan_import([of("cursor", git=GIT), of("vscode", **{"my-git": same})], plan.after).changes is False


def test_equal_servers_of_one_client_stay_apart_and_match_those_of_others_by_name() -> None:
    one = of("cursor", left=GIT, right=GIT)
    other = of("windsurf", x=GIT, left=GIT)
    for found in ([one, other], [other, one]):
        plan = plan_import(found, None)
        aliases = {name: entry.get("aliases") for name, entry in written(plan).items()}
        assert aliases == {"left": None, "x": ["right"]}
        assert plan_import(found, plan.after).changes is False
        assert plan.adopted(one.file.path).keys() == {"left", "right"}


def test_the_commonest_name_wins_then_the_shortest_and_one_that_is_on_first() -> None:
    plan = plan_import(
        [of("cursor", **{"git-shop": GIT}), of("windsurf", git=GIT), of("cline", **{"git-shop": GIT})], None
    )
    assert written(plan) == {"git-shop": {**GIT, "aliases": ["git"]}}
    plan = plan_import([of("cursor", **{"git-shop": GIT}), of("windsurf", git=GIT)], None)
    assert written(plan) == {"git": {**GIT, "aliases": ["git-shop"]}}
    off = {**OTHER_GIT, "disabled": True}
    plan = plan_import([of("cursor", git=off), of("windsurf", git=GIT)], None)
    assert written(plan) == {"git-cursor": off, "git": GIT}
    plan = plan_import([of("cursor", git={**GIT, "disabled": True}), of("windsurf", versions=GIT)], None)
    assert written(plan) == {"versions": {**GIT, "aliases": ["git"]}}


def test_what_is_off_gets_no_name_under_which_something_is_on() -> None:
    off = {**OTHER_GIT, "disabled": True}
    for found in (
        [of("cursor", same=GIT), of("windsurf", same=off, zz=GIT)],
        [of("windsurf", same=off, zz=GIT), of("cursor", same=GIT)],
        [of("windsurf", same=off, zz=GIT), of("cursor", same=GIT), of("cline", other=off)],
    ):
        plan = plan_import(found, None)
        assert written(plan)["zz"] == {**GIT, "aliases": ["same"]}
        names = {name for name, entry in written(plan).items() if entry.get("disabled")}
        assert names == {"same-windsurf" if len(found) == 2 else "other"}
        assert plan_import(found, plan.after).changes is False


def test_a_server_that_the_configuration_has_gets_the_names_by_which_clients_know_it() -> None:
    config = json.dumps({"mcpServers": {"git": {**GIT, "aliases": ["g"]}, "x": {"command": "x"}}}).encode()
    found = [of("cursor", g=GIT, x=OTHER_GIT), of("windsurf", vcs=GIT)]
    plan = plan_import(found, config)
    assert written(plan)["git"] == {**GIT, "aliases": ["g", "vcs"]}
    assert [server.name for server in plan.new] == ["x-cursor"]
    assert (
        plan_import([of("cursor", g=GIT, x=OTHER_GIT), of("windsurf", vcs=GIT)], plan.after).changes is False
    )


EQUAL = [
    (
        {"url": "https://h/mcp", "headers": {"X-Key": "a"}},
        {"url": "https://h/mcp", "headers": {"x-key": "a"}},
    ),
    ({"url": "https://h/sse"}, {"type": "sse", "url": "https://h/sse"}),
    (
        {"command": "a", "env": {"A": "1", "B": "${env:X}"}},
        {"command": "a", "env": {"B": "${env:X}", "A": "1"}},
    ),
    ({"command": "a", "timeout": 1000}, {"command": "a", "autoApprove": ["x"]}),
    ({"command": "a", "envFile": "/e"}, {"command": "a", "env_file": ["/e"]}),
    ({"serverUrl": "https://h/mcp"}, {"httpUrl": "https://h/mcp"}),
]
DIFFERENT = [
    ({"command": "a"}, {"command": "b"}),
    ({"command": "a", "args": ["x", "y"]}, {"command": "a", "args": ["y", "x"]}),
    ({"command": "a", "env": {"A": "1"}}, {"command": "a", "env": {"A": "2"}}),
    ({"command": "a"}, {"command": "a", "cwd": "/x"}),
    ({"url": "https://h/mcp"}, {"url": "https://h/mcp?k=1"}),
    ({"url": "https://h/mcp", "headers": {"A": "1"}}, {"url": "https://h/mcp", "headers": {"A": "2"}}),
    ({"url": "https://h/sse"}, {"url": "https://h/sse", "type": "http"}),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_entries_that_start_the_same_are_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert list(written(plan_import([of("cursor", s=one), of("windsurf", s=other)], None))) == ["s"]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_entries_that_differ_get_names_of_their_own(one: dict[str, Any], other: dict[str, Any]) -> None:
    plan = plan_import([of("cursor", s=one), of("windsurf", s=other)], None)
    assert list(written(plan)) == ["s", "s-windsurf"]


def test_a_name_that_is_taken_gets_the_clients_behind_it_and_then_a_number() -> None:
    found = [of("cursor", git=GIT), of("vscode", git=OTHER_GIT, **{"git-vscode": {"command": "x"}})]
    assert written(plan_import(found, None)) == {
        "git": GIT,
        "git-vscode": OTHER_GIT,
        "git-vscode-vscode": {"command": "x"},
    }
    config = json.dumps({"mcpServers": {"git": {"command": "a"}, "git-cursor": {"command": "b"}}}).encode()
    assert list(written(plan_import([of("cursor", git=GIT)], config)))[2:] == ["git-cursor-2"]


def test_of_equal_servers_one_that_is_on_turns_it_on_and_the_longer_limit_counts() -> None:
    off, on = {**GIT, "disabled": True, "timeout": 5000}, {**GIT, "timeout": 9000}
    for found in (
        [of("cursor", git=off), of("windsurf", git=on)],
        [of("cursor", git=on), of("windsurf", git=off)],
    ):
        assert written(plan_import(found, None)) == {"git": {**GIT, "call_timeout": 9}}
    assert written(plan_import([of("cursor", git=off), of("windsurf", git=GIT)], None)) == {"git": GIT}
    assert written(plan_import([of("cursor", git=off)], None))["git"]["disabled"] is True


CONFIG = b"""\xef\xbb\xbf{\r
  // my own\r
  "mcpServers": {\r
    "files": {"command": "npx", "args": ["-y", "files"]}, // keep\r
  },\r
  "idle_exit": 60\r
}\r
"""


def test_what_the_configuration_has_stays_to_the_byte() -> None:
    plan = plan_import([of("cursor", git=GIT, files={"command": "npx", "args": ["-y", "files"]})], CONFIG)
    after = plan.after or b""
    for line in CONFIG.splitlines():
        assert line in after
    assert b"\n" not in after.replace(b"\r\n", b"")
    assert [(server.name, server.present) for server in plan.servers] == [("git", False), ("files", True)]
    assert read(after, "json")["mcpServers"].keys() == {"files", "git"}


@pytest.mark.parametrize(
    "config",
    [
        {"servers": {"my": GIT}},
        {"mcp": {"servers": {"my": GIT}}},
        {"mcp_servers": [{"name": "my", **GIT}]},
        {"context_servers": {"my": GIT}},
        {"mcpServers": {"x": {"command": "x"}}, "servers": {"my": GIT}},
    ],
)
def test_every_form_of_the_configuration_is_known(config: dict[str, Any]) -> None:
    plan = plan_import([of("cursor", git=GIT, new=OTHER_GIT)], json.dumps(config).encode())
    assert [(server.name, server.present) for server in plan.servers] == [("my", True), ("new", False)]
    assert "new" in parse(plan.after or b"", where="c").servers


def test_nothing_new_leaves_the_configuration_as_it_is() -> None:
    config = json.dumps({"mcpServers": {"git": GIT}}).encode()
    assert plan_import([of("cursor", git=GIT)], config).after is config
    assert plan_import([], None).after is None


@pytest.mark.parametrize(
    ("imported", "entry"),
    [
        ({"env": {"K": "${env:K}"}}, {"env": {"K": "${keychain:K}"}}),
        ({"env": {"K": "${env:K}"}}, {"env": {"K": "literal"}}),
        ({"env": {"K": "literal"}}, {"env": {"K": "${keychain:K}"}}),
        ({"args": ["--root", "${workspaceFolder}/src"]}, {"args": ["--root", "/home/u/work/src"]}),
        ({"args": ["a"], "disabled": True}, {"args": ["a"]}),
        ({"args": ["a"], "disabled": True}, {"args": ["a"], "disabled": True}),
    ],
)
def test_a_server_that_was_completed_since_is_not_imported_again(
    imported: dict[str, Any], entry: dict[str, Any]
) -> None:
    config = json.dumps({"mcpServers": {"git": {"command": "a", **entry}}}).encode()
    plan = plan_import([of("cursor", git={"command": "a", **imported})], config)
    assert plan.new == ()
    assert plan.adopted(Path("/home/u/cursor")) == {"git": "git"}


def test_a_server_that_is_turned_off_in_the_configuration_stays_in_the_client_that_uses_it() -> None:
    config = json.dumps({"mcpServers": {"mine": {**GIT, "disabled": True}}}).encode()
    found = of("cursor", git=GIT)
    plan = plan_import([found], config)
    assert plan.new == ()
    assert plan.servers[0].needs == ("it is disabled in the configuration: mcpx enable mine",)
    assert plan.adopted(found.file.path) == {}


def test_two_accounts_of_one_service_stay_two_servers() -> None:
    config = json.dumps({"mcpServers": {"gh": {"command": "a", "env": {"T": "${keychain:T}"}}}}).encode()
    found = [
        of("cursor", gh={"command": "a", "env": {"T": "one"}}),
        of("windsurf", gh={"command": "a", "env": {"T": "two"}}),
    ]
    assert [(server.name, server.present) for server in plan_import(found, config).servers] == [
        ("gh", True),
        ("gh-windsurf", False),
    ]


def test_the_http_side_of_mcpx_is_not_put_behind_itself() -> None:
    config = json.dumps({"mcpServers": {}, "http": {"port": 9000}}).encode()
    found = of(
        "cursor",
        a={"url": "http://127.0.0.1:8765/mcp"},
        b={"url": "http://localhost:9000/mcp/work"},
        c={"url": "http://localhost:9001/mcp"},
        d={"url": "http://example.com:9000/mcp"},
        e={"url": "http://[broken:9000/mcp"},
    )
    assert [server.name for server in plan_import([found], config).servers] == ["c", "d", "e"]


def test_a_server_that_needs_something_first_is_imported_and_not_adopted() -> None:
    found = of("vscode", a={"command": "a", "env": {"K": "${input:key}"}}, git=GIT)
    plan = plan_import([found], None)
    assert written(plan)["a"] == {"command": "a", "env": {"K": "${KEY}"}, "disabled": True}
    assert plan.adopted(found.file.path) == {"git": "git"}
    assert plan.adopted(Path("/elsewhere")) == {}


@pytest.mark.parametrize("config", [b"{", b'{"mcpServers": []}', b"[]", b'{"mcpServers": 3}'])
def test_a_configuration_that_is_not_understood_is_an_error(config: bytes) -> None:
    with pytest.raises(DocumentError):
        plan_import([of("cursor", git=GIT)], config)


NAMES = st.sampled_from(["git", "git-cursor", "git-vscode", "a b", "資料", 'q"uote', "x.y"])
TEXTS = st.sampled_from(["", "a", "${X}", "${env:X}", "${cmd:x}", "${input:x}", "b c", 'd"\\', "é\u2028"])
ENTRIES = st.one_of(
    st.fixed_dictionaries(
        {"command": st.sampled_from(["npx", "uvx"])},
        optional={
            "args": st.lists(TEXTS, max_size=2),
            "env": st.dictionaries(st.sampled_from(["A", "B"]), TEXTS, max_size=2),
            "disabled": st.booleans(),
            "cwd": st.sampled_from(["/w", "w"]),
            "envFile": st.sampled_from(["/e", ".env"]),
        },
    ),
    st.fixed_dictionaries(
        {"url": st.sampled_from(["https://h/mcp", "https://h/sse"])},
        optional={"headers": st.dictionaries(st.sampled_from(["A", "a-b"]), TEXTS, max_size=2)},
    ),
)
SERVERS = st.dictionaries(NAMES, ENTRIES, max_size=4)
CONFIGS = st.one_of(
    st.none(),
    st.just(CONFIG),
    SERVERS.map(lambda servers: json.dumps({"mcpServers": servers}).encode()),
    SERVERS.map(lambda servers: json.dumps({"servers": servers, "idle_exit": 1}, indent="\t").encode()),
)


def servers_in(config: bytes | None) -> dict[str, Any]:
    document = read(config, "json") if config else {}
    return document.get("mcpServers", {}) | document.get("servers", {})


def without_aliases(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "aliases"}


TWO_ALIKE = {"url": "https://h/mcp", "headers": {"a-b": "${X}"}}


@example(
    {"cursor": {"git": {"command": "npx"}}, "vscode": {"git": TWO_ALIKE, "git-cursor": TWO_ALIKE}},
    json.dumps({"mcpServers": {"git": TWO_ALIKE}}).encode(),
)
@given_values(st.dictionaries(st.sampled_from(["cursor", "vscode", "windsurf"]), SERVERS), CONFIGS)
def test_every_server_is_there_afterwards_and_a_second_import_finds_nothing_new(
    clients: dict[str, dict[str, Any]], config: bytes | None
) -> None:
    found = [of(client, **servers) for client, servers in clients.items()]
    plan = plan_import(found, config)
    before = servers_in(config)
    after = servers_in(plan.after)
    assert {name: without_aliases(after[name]) for name in before} == before
    assert {server.name for server in plan.servers} <= after.keys()
    assert len({server.name for server in plan.servers}) == len(plan.servers)
    taken = [(origin.path, origin.name) for server in plan.servers for origin in server.origins]
    assert sorted(taken) == sorted((each.file.path, server.name) for each in found for server in each.servers)
    assert plan_import(found, plan.after).changes is False

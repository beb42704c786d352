"""Names that are nearly right: understood where they can mean one tool; exact ones always win."""

from __future__ import annotations

import pytest

from mcpx.core.calls.names import resolve_tool
from mcpx.errors import CallError, Code, Outcome
from tests.mcpx.core.rendering.snapshots import server, tool

SERVERS = [
    server("git", *map(tool, ["git_status", "git_log", "log", "a.b"])),
    server("git.hub", *map(tool, ["create_issue", "log"])),
    server("fetch", tool("fetch")),
    server("a", tool("b"), tool("c")),
    server("starting", listed=False),
    server("empty"),
]


@pytest.mark.parametrize(
    ("server_name", "tool_name", "meant"),
    [
        ("git", "git_status", ("git", "git_status")),
        ("git", "git.git_status", ("git", "git_status")),
        ("git", "git/git_status", ("git", "git_status")),
        ("git", "git:git_status", ("git", "git_status")),
        ("git", "git__git_status", ("git", "git_status")),
        ("git", "git_git_status", ("git", "git_status")),
        ("git", "mcp__git__git_status", ("git", "git_status")),
        ("git", "git_log(repo_path, max_count?)", ("git", "git_log")),
        ("git", "a.b", ("git", "a.b")),
        ("", "git.git_status", ("git", "git_status")),
        ("", "mcp__git__git_status", ("git", "git_status")),
        ("", "git_status", ("git", "git_status")),
        ("", "create_issue", ("git.hub", "create_issue")),
        ("", "git.hub.create_issue", ("git.hub", "create_issue")),
        ("", "git.log", ("git", "log")),
        ("", "git.hub.log", ("git.hub", "log")),
        ("", "a.b", ("git", "a.b")),
        ("", "a.c", ("a", "c")),
        ("", "starting.later", ("starting", "later")),
        ("git.git_status", "", ("git", "git_status")),
        ("git/git_status", "git_status", ("git", "git_status")),
        ("git_status", "", ("git", "git_status")),
        ("git_status", "git_status", ("git", "git_status")),
        ("git_status", "git", ("git", "git_status")),
        ("fetch", "", ("fetch", "fetch")),
    ],
)
def test_what_can_mean_one_tool_is_understood(server_name, tool_name, meant):
    assert resolve_tool(SERVERS, server_name, tool_name) == meant


@pytest.mark.parametrize(
    ("server_name", "tool_name"),
    [
        ("git", "create_issue"),  # of another server than the one that is named
        ("git", "a.c"),
        ("github", "create_issue"),  # a server that is not known is not replaced
        ("github", "github.create_issue"),
        ("a.c", "create_issue"),
        ("empty", "git_status"),
        ("git", "nothing"),
        ("starting", "starting.later"),
    ],
)
def test_two_names_that_are_not_understood_stay_as_they_are(server_name, tool_name):
    assert resolve_tool(SERVERS, server_name, tool_name) == (server_name, tool_name)


@pytest.mark.parametrize(
    ("server_name", "tool_name", "said"),
    [
        ("", "", "server_name and tool_name are missing"),
        ("", "log", 'server_name is missing: "log" is a tool of git, git.hub'),
        (
            "",
            "nothing",
            'server_name is missing, and no server has a tool named "nothing"; nothing was sent. ins',
        ),
        ("", "issue_create", "A search for it finds:\ngit.hub.create_issue()"),
        ("git", "", "tool_name is missing; git has git_status, git_log, log, a.b; nothing was sent"),
        ("starting", "", "tool_name is missing; nothing was sent"),
        ("nothing", "", 'tool_name is missing, and no server has a tool named "nothing"'),
        ("", "x" * 1_000_000, "no server has"),
    ],
)
def test_a_name_that_is_missing_is_asked_for_with_those_that_it_can_be(server_name, tool_name, said):
    with pytest.raises(CallError) as caught:
        resolve_tool(SERVERS, server_name, tool_name)
    assert (caught.value.code, caught.value.outcome) == (Code.INVALID_ARGUMENTS, Outcome.NOT_SENT)
    assert said in str(caught.value)
    assert "nothing was sent" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_many_servers_that_have_it_are_counted():
    with pytest.raises(CallError) as caught:
        resolve_tool([server(f"s{i}", tool("echo")) for i in range(8)], "", "echo")
    assert "s0, s1, s2, s3, s4 and 3 more" in str(caught.value)
    assert caught.value.details == {"servers_with_it": ["s0", "s1", "s2", "s3", "s4"]}

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpx.core.catalog.snapshot import State
from mcpx.core.rendering.suggest import unknown_resource, unknown_server, unknown_tool
from mcpx.errors import Code, Outcome
from tests.mcpx.core.rendering.snapshots import resource, server, template, tool

FILES = ["write_file", "list_directory", "read_file", "read_multiple_files", "move_file"]


def test_an_unknown_server_names_the_nearest_and_the_others():
    error = unknown_server("git-hub", [server("fs"), server("github"), server("slack")])
    assert str(error) == 'No server is named "git-hub". Did you mean github? Servers: fs, github, slack.'
    assert (error.code, error.outcome, error.server) == (Code.UNKNOWN_SERVER, Outcome.NOT_SENT, "git-hub")
    assert error.details == {
        "did_you_mean": ["github"],
        "available": ["fs", "github", "slack"],
        "available_total": 3,
    }


def test_an_unknown_server_that_is_a_tool_says_whose():
    error = unknown_server("read_file", [server("a"), server("b", tool("read_file"))])
    assert "It is a tool of b." in str(error)


def test_without_servers_the_error_says_so():
    assert str(unknown_server("x", [])) == 'No server is named "x". No servers are configured.'


def test_many_servers_are_bounded_to_twenty_and_a_count():
    error = unknown_server("x", [server(f"s{i}") for i in range(1500)])
    assert "s18, s19 and 1,480 more." in str(error)
    assert len(error.details["available"]) == 20
    assert error.details["available_total"] == 1500


def test_an_unknown_tool_names_the_nearest_and_the_others():
    fs = server("fs", *map(tool, FILES))
    error = unknown_tool(fs, "readFile", [fs])
    assert str(error).startswith('fs has no tool named "readFile". Did you mean read_file')
    assert "Tools: write_file, list_directory, read_file, read_multiple_files, move_file." in str(error)
    assert (error.code, error.server, error.tool) == (Code.UNKNOWN_TOOL, "fs", "readFile")
    assert error.details["available"] == FILES


def test_an_unknown_tool_that_another_server_has_says_so():
    fs, git = server("fs", tool("read")), server("git", tool("commit"))
    error = unknown_tool(fs, "commit", [fs, git])
    assert "There is one on git." in str(error)
    assert error.details["servers_with_it"] == ["git"]


def test_an_unknown_tool_is_answered_with_what_a_search_finds_on_all_servers():
    fs = server("fs", tool("read_file", "Read a file", "path"))
    git = server("git", tool("git_log", "Show the commit history. Newest first.", "repo", "count"))
    text = str(unknown_tool(fs, "show_commits", [fs, git]))
    assert text.endswith("\nA search for it finds:\ngit.git_log(repo, count?): Show the commit history")
    assert unknown_tool(fs, "show_commits", [fs, git]).details["did_you_mean"] == []


def test_an_unknown_server_is_answered_with_what_a_search_finds():
    git = server("git", tool("git_log", "Show the commit history."))
    assert str(unknown_server("commits", [git])).endswith("finds:\ngit.git_log(): Show the commit history")


def test_a_search_that_finds_nothing_is_not_mentioned():
    assert "\n" not in str(unknown_tool(server("fs", tool("read_file")), "xyzzy", [server("fs")]))


def test_what_a_search_finds_is_three_tools_at_most():
    fs = server("fs", *(tool(f"read_{n}", "Read a file") for n in "abcdef"))
    assert len(str(unknown_tool(fs, "read_file", [fs])).split("finds:\n")[1].split("\n")) == 3


def test_a_long_list_of_tools_says_where_the_rest_is():
    big = server("big", *(tool(f"t{i}") for i in range(35)))
    text = str(unknown_tool(big, "nothing", [big]))
    assert "t19 and 15 more." in text
    assert text.endswith('inspect("big") lists them all.')


def test_a_server_that_has_not_listed_its_tools_says_so():
    waiting = server("fs", state=State.WAITING, cause="exit code 1", retry_in_s=4, listed=False)
    text = str(unknown_tool(waiting, "read", [waiting]))
    assert "It has not listed its tools yet: it is waiting, retry in 4 s: exit code 1." in text


def test_a_stale_list_says_that_it_is_stale():
    parked = server("fs", tool("read"), state=State.PARKED, cause="gone")
    assert "It is parked: gone; these are the tools it listed last. Tools: read." in str(
        unknown_tool(parked, "write", [parked])
    )


def test_a_server_that_needs_a_sign_in_is_said_to_need_it():
    held = replace(server("fs", tool("read"), state=State.NEEDS_SIGN_IN), sign_in="mcpx login fs")
    assert "It needs sign-in: run: mcpx login fs; these are the" in str(unknown_tool(held, "write", [held]))


def test_an_unknown_resource_names_the_nearest_uris():
    docs = server(
        "docs", *(resource(f"file:///home/docs/{name}.md") for name in ("heart", "diabetes", "pressure"))
    )
    error = unknown_resource(docs, "file:///home/docs/diabetis.md")
    assert "Did you mean file:///home/docs/diabetes.md?" in str(error)
    assert error.code is Code.UNKNOWN_RESOURCE
    assert error.details["uri"] == "file:///home/docs/diabetis.md"
    assert error.details["did_you_mean"] == ["file:///home/docs/diabetes.md"]


@pytest.mark.parametrize("part", ["diabetes", "Diabetes.MD", "docs/diabetes"])
def test_part_of_a_uri_finds_the_resource(part):
    docs = server("docs", resource("file:///docs/heart.md"), resource("file:///docs/diabetes.md"))
    assert unknown_resource(docs, part).details["did_you_mean"][0] == "file:///docs/diabetes.md"


def test_the_name_of_a_resource_finds_its_uri():
    docs = server("docs", resource("db://17", "Heart disease"), resource("db://18", "Diabetes"))
    assert unknown_resource(docs, "heart_disease").details["did_you_mean"] == ["db://17"]


def test_templates_are_among_what_is_available():
    rows = server("db", template("db://rows/{id}"))
    assert "Resources: db://rows/{id}." in str(unknown_resource(rows, "x"))


def test_a_hostile_name_stays_on_one_line_and_short():
    text = str(unknown_server("x\n" * 1000, [server("fs")]))
    assert "\n" not in text
    assert len(text) < 500

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import Catalogue, PromptInfo
from mcpx.core.catalog.search import MAX_QUERY_LEN, search
from mcpx.core.catalog.search_index import index_of, indexed
from mcpx.core.catalog.snapshot import ServerInfo, State
from tests.mcpx.core.rendering.snapshots import resource, server, template, tool

GIT = server(
    "git",
    tool("git_log", "Shows the commit logs", "repo_path", "max_count"),
    tool("git_commit", "Records changes to the repository", "repo_path message"),
)
FILES = server("filesystem", tool("read_file", "Read a file", "path"), tool("delete_file", "Deletes", "path"))
WEATHER = server("weather", tool("forecast", "天気予報を取得します"), tool("getAirQuality", "Air pollution"))
ALL = [GIT, FILES, WEATHER]


def names(query: str, servers: list[ServerInfo] = ALL, only: str | None = None) -> list[str]:
    """All that is found, server by server, best first."""
    return [
        f"{one.server.name}.{hit.entry.name}" for one in search(servers, query, only) for hit in one.best(999)
    ]


def test_the_tool_whose_name_and_description_have_the_words_comes_first():
    assert names("show commit logs")[0] == "git.git_log"


def test_words_are_found_in_any_form():
    assert names("committing")[0] == "git.git_commit"
    assert names("file reads")[0] == "filesystem.read_file"


def test_a_parameter_is_found():
    assert names("message") == ["git.git_commit"]


def test_a_word_for_the_same_thing_is_found_after_the_word_itself():
    assert names("remove")[0] == "filesystem.delete_file"
    both = [server("a", tool("delete_row")), server("b", tool("remove_row"))]
    assert names("remove row", both) == ["b.remove_row", "a.delete_row"]


@pytest.mark.parametrize(
    "query",
    [
        "git_log",
        "git.git_log",
        "git/git_log",
        "GIT_LOG",
        "gitLog",
        "git log",
        "please use git_log, or commit",
    ],
)
def test_an_exact_name_comes_first(query):
    assert names(query)[0] == "git.git_log"


@pytest.mark.parametrize("name", ["get_files", "get_file", "use", "list-all", "list"])
def test_the_very_name_comes_before_others_of_the_same_words(name):
    alike = server("s", *map(tool, ("get_file", "get_files", "get_filing", "use", "list", "list-all", "all")))
    assert names(name, [alike])[0] == f"s.{name}"
    assert names(f"s.{name}", [alike])[0] == f"s.{name}"


def test_each_part_of_a_question_is_answered():
    found = names("air pollution, commit history or read a file")
    assert {"weather.getAirQuality", "git.git_log", "filesystem.read_file"} <= set(found[:5])


def test_japanese_is_found_by_pairs_of_letters():
    assert names("天気")[0] == "weather.forecast"


def test_two_words_find_the_one_that_they_make():
    assert names("file system", [GIT, WEATHER, server("filesystem", tool("x"))]) == ["filesystem.x"]
    zones = server("time", tool("convert", "Converts between timezones"))
    assert names("time zone", [GIT, zones]) == ["time.convert"]
    exact = server("web", tool("web_page"), tool("webpage_page", "web page webpage"))
    assert names("web page", [exact])[0] == "web.web_page"


def test_one_server_can_be_searched():
    assert names("file commit", only="git") == ["git.git_commit", "git.git_log"]


def test_resources_templates_and_prompts_are_found():
    catalogue = Catalogue(
        generation=1,
        resources={"doc://diabetes": resource("doc://diabetes", "Diabetes")},
        templates=(template("doc://patients/{id}", "A patient"),),
        prompts=(PromptInfo(server_name="", name="diagnose", arguments=[{"name": "symptoms"}, 7]),),
    )
    clinic = ServerInfo(name="clinic", state=State.READY, transport="stdio", catalogue=catalogue)
    assert names("diabetes", [clinic]) == ["clinic.Diabetes"]
    assert names("patients", [clinic])[0] == "clinic.A patient"  # and all of a clinic, for it is about them
    assert names("symptoms", [clinic])[0] == "clinic.diagnose"


def test_a_server_whose_instructions_say_it_is_found_by_them():
    notes = server(
        "obsidian", tool("append", "Appends a paragraph"), instructions="Your notebook on astronomy."
    )
    other = server("other", tool("append", "Appends a paragraph"))
    assert names("append astronomy", [other, notes])[0] == "obsidian.append"


@pytest.mark.parametrize("query", ["", "   ", "xyzzy", "the of a", "!!!", "\x00", "🙂"])
def test_what_nothing_matches_finds_nothing(query):
    assert search(ALL, query) == []


def test_a_server_that_has_not_listed_is_not_found():
    assert search([server("git", listed=False)], "git") == []
    assert search([], "git") == []


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 7}, {"properties": {"a": 7, "b": {"description": []}}}]
)
def test_any_schema_can_be_read(schema):
    odd = tool("odd")
    odd.input_schema.clear()
    odd.input_schema.update(schema)
    assert names("odd", [server("x", odd)]) == ["x.odd"]


def test_a_question_is_read_up_to_a_length():
    assert names("commit " * MAX_QUERY_LEN + "forecast")[0].startswith("git.")


@pytest.mark.parametrize("unit", ["_", "a_", "aB", "a.", "-", "a1", "天", ",", "or "])
def test_no_question_takes_long(unit):
    search(ALL, unit * MAX_QUERY_LEN + "!")


def test_a_catalogue_is_read_once():
    search([GIT], "log")
    index = index_of("git", GIT.catalogue)
    search(ALL, "commit")
    assert index_of("git", GIT.catalogue) is index
    assert index.read() == 0


def test_a_long_catalogue_can_be_read_in_parts():
    long = server("long", *(tool(f"tool{n}", "x " * 500) for n in range(100)))
    index = index_of("long", long.catalogue)
    assert 1000 <= index.read(1000) < 3000
    assert not index.whole
    assert indexed([long, GIT], 0) == [GIT] if index_of("git", GIT.catalogue).whole else []
    while indexed([long], 20_000) == []:
        pass
    assert index.whole
    assert len(names("x", [long])) == 100

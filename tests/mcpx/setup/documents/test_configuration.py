"""Servers added to the text of a configuration, renamed, taken out of it, and switched on and off."""

from __future__ import annotations

import json

import pytest

from mcpx.setup.documents.configuration import (
    entry_at,
    places_of,
    renamed,
    switched,
    with_server,
    without_server,
)
from mcpx.setup.documents.editing import read

ENTRY = {"command": "npx", "args": ["-y", "x"]}
WRITTEN = '{"command": "npx", "args": ["-y", "x"]}'
FORMS = {
    "desktop": ('{"mcpServers": {"a": {}}}', '{"mcpServers": {"a": {}, "n": %s}}'),
    "editor": ('{"servers": {"a": {}}}', '{"servers": {"a": {}, "n": %s}}'),
    "settings": ('{"mcp": {"servers": {"a": {}}}}', '{"mcp": {"servers": {"a": {}, "n": %s}}}'),
    "directly": ('{"mcp": {"a": {}}}', '{"mcp": {"a": {}, "n": %s}}'),
    "zed": ('{"x": 1, "context_servers": {"a": {}}}', '{"x": 1, "context_servers": {"a": {}, "n": %s}}'),
    "list": ('{"mcp_servers": [{"name": "a"}]}', '{"mcp_servers": [{"name": "a"}, {"name": "n", %s]}'),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_server_goes_to_the_others_in_the_form_that_the_file_has(form):
    before, after = FORMS[form]
    written = WRITTEN.removeprefix("{") if form == "list" else WRITTEN
    assert with_server(before.encode(), "n", ENTRY).decode() == after % written
    assert without_server((after % written).encode(), "n").decode() == before


@pytest.mark.parametrize("nothing", [None, b"", b"{}"])
def test_the_first_server_makes_the_file(nothing):
    after = with_server(nothing, "n", ENTRY)
    assert json.loads(after) == {"mcpServers": {"n": ENTRY}}
    assert after.count(b"\n") > 3


def test_a_server_that_is_replaced_keeps_its_place_and_the_comments_in_its_entry():
    before = '{"mcpServers": {\n  "n": {\n    "command": "old", // mine\n    "cwd": "/x"\n  },\n  "b": {}\n}}'
    after = with_server(before.encode(), "n", {"command": "new"}).decode()
    assert after == '{"mcpServers": {\n  "n": {\n    "command": "new" // mine\n  },\n  "b": {}\n}}'


def test_a_listed_server_that_is_replaced_keeps_its_name():
    after = with_server(b'{"mcp_servers": [{"name": "n", "command": "old"}]}', "n", {"command": "new"})
    assert read(after, "json") == {"mcp_servers": [{"name": "n", "command": "new"}]}


def test_a_server_that_is_there_twice_is_taken_out_twice():
    data = b'{"mcpServers": {"n": {}, "a": {}}, "servers": {"n": {}}, "mcp_servers": [{"name": "n"}]}'
    assert len([name for name, _ in places_of(read(data, "json")) if name == "n"]) == 3
    after = read(without_server(data, "n"), "json")
    assert after == {"mcpServers": {"a": {}}, "servers": {}, "mcp_servers": []}


@pytest.mark.parametrize("form", FORMS)
def test_a_renamed_server_keeps_its_place_and_its_old_name_in_every_form(form):
    text = FORMS[form][1] % (WRITTEN.removeprefix("{") if form == "list" else WRITTEN)
    after = read(renamed(text.encode(), "n", 'odd "name"'), "json")
    assert {name: entry_at(after, path) for name, path in places_of(after)} == {
        "a": {"name": "a"} if form == "list" else {},
        'odd "name"': ENTRY | {"aliases": ["n"]} | ({"name": 'odd "name"'} if form == "list" else {}),
    }


def test_a_rename_leaves_everything_else_and_back_again_keeps_both_names():
    before = '{"mcpServers": {\n  "\\u006e": { // mine\n    "command": "x"\n  },\n  "b": {"command": "n"}\n}}'
    once = renamed(before.encode(), "n", "m").decode()
    assert once == before.replace('"\\u006e"', '"m"').replace('"x"', '"x",\n    "aliases": ["n"]')
    assert renamed(once.encode(), "m", "n").decode() == once.replace('"m"', '"n"').replace('["n"]', '["m"]')


def test_switching_off_and_on_gives_the_bytes_back():
    before = b'{"mcpServers": {\n  "n": {"command": "x"}, // mine\n  "b": {\n    "command": "y"\n  }\n}}'
    for name in "nb":
        off = switched(before, name, on=False)
        document = read(off, "json")
        path = dict(places_of(document))[name]
        assert entry_at(document, path)["disabled"] is True
        assert switched(off, name, on=True) == before


@pytest.mark.parametrize(
    "entry", ['{"disabled": true}', '{"enabled": false}', '{"disabled": true, "enabled": false}']
)
def test_switching_on_undoes_either_way_of_switching_off(entry):
    assert switched(f'{{"servers": {{"n": {entry}}}}}'.encode(), "n", on=True) == b'{"servers": {"n": {}}}'

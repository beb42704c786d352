"""Targets in texts: URIs, addresses of kept results, expressions that select, and the files of people."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from mcpx.core.catalog.model import Catalogue
from mcpx.core.catalog.templates import matches_any
from mcpx.core.catalog.uris import read_liberally, readings, uri_rejection
from mcpx.core.protocol.result_address import ResultAddress, read_address
from mcpx.core.rendering import projection
from mcpx.core.text import jsonc
from mcpx.errors import CallError
from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.editing import Document, Syntax
from scripts.lab.fuzzing.loop import Target


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# --- URIs

TEMPLATES: Final = ("file:///{path}", "db://{table}/{row}{?x,y}", "x:{+rest}", "{all}")

LISTS_NOTHING: Final = Catalogue(generation=0)


def check_uris(data: bytes) -> Hashable:
    """Every form of a URI is found, itself among them; one that a server does not list may not be sent."""
    uri = _text(data)
    forms = readings(uri)
    assert uri.casefold() in forms or uri.lower() in forms
    liberal = read_liberally(uri)
    fits = tuple(matches_any([template], uri) for template in TEMPLATES)
    why = uri_rejection(uri, LISTS_NOTHING)
    assert why is not None, "a URI of a server that lists nothing may be sent"
    return str(why)[:20], fits, min(len(forms), 12), liberal == uri


# --- addresses


def check_addresses(data: bytes) -> Hashable:
    """An address is read, refused, or none; one that is read is the same when written and read again."""
    try:
        found = read_address(_text(data))
    except CallError as error:
        return "error", str(error).rpartition(": ")[2][:40]
    if found is None:
        return None
    assert read_address(str(found)) == found
    return tuple(getattr(found, field) is not None for field in found.__struct_fields__), found.block > 1


# --- expressions

DATA: Final = '{"items": [{"name": "a", "n": 1, "tags": ["x", "y"]}, {"name": "b", "n": null}], "total": 2}'


def check_selects(data: bytes) -> Hashable:
    """An expression is used or told as bad; a cheap one is applied to an end that is JSON."""
    expression = _text(data)
    try:
        tree = projection.parse(expression)
    except projection.BadExpression as error:
        return "bad", "".join(each for each in str(error) if each.isalpha() or each == " ")[:24]
    if not projection.is_cheap(tree, [DATA]):
        return "dear", tree["type"]
    made = projection.project(expression, [DATA])
    json.loads(made.value)
    return tree["type"], made.problem[:24], made.value[:1], bool(made.hint)


# --- JSON with comments


def check_jsonc(data: bytes) -> Hashable:
    """What JSON takes is read alike; places are those of the values; anything else is told with its place."""
    text = _text(data)
    try:
        value = jsonc.loads(text)
    except jsonc.JSONCError as error:
        refused = error
    else:
        return _check_places(text, value)
    assert 0 <= refused.offset <= len(text)
    jsonc.excerpt(text, refused.offset)
    assert _strict(text) is _NONE, "JSON that is refused"
    return "error", "".join(each for each in str(refused) if each.isalpha() or each == " ")[:30]


def _check_places(text: str, value: Any) -> Hashable:
    if (strict := _strict(text)) is not _NONE:
        assert _same(value, strict)
    root = jsonc.parse(text)
    assert _same(root.value, value)
    assert _same(jsonc.loads(text[root.start : root.end]), value)
    return type(value).__name__, "//" in text, "/*" in text, strict is _NONE


_NONE: Final = object()


def _strict(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    if len(text) > 2000 or max(text.count("["), text.count("{")) > 100:  # noqa: PLR2004 - within the bounds
        return _NONE
    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return _NONE


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# --- edits

ENTRY: Final = {"command": "npx", "args": ["-y", "a b", "é"], "env": {"KEY": 'x"\\y'}}


def check_edits(data: bytes, *, syntax: Syntax) -> Hashable:
    """A server that is added and taken out leaves what was there; what cannot be edited safely says so."""
    try:
        document = Document(data, syntax)
    except DocumentError as error:
        return "unread", "".join(each for each in str(error) if each.isalpha() or each == " ")[:30]
    before, where = document.value, ("mcpServers", "fuzz")
    had = isinstance(before, dict) and isinstance(before.get("mcpServers"), dict) and before["mcpServers"]
    try:
        document.set(where, ENTRY)
        assert document.value["mcpServers"]["fuzz"] == ENTRY
        again = Document(document.data, syntax)
        assert _alike(again.value, document.value)
        document.set((*where, "args"), ["one"])
        assert document.value["mcpServers"]["fuzz"] == ENTRY | {"args": ["one"]}
        document.remove(where)
    except DocumentError as error:
        return "not edited", str(error)[:30]
    if had and "fuzz" not in before["mcpServers"]:
        assert _alike(document.value, before)
        assert _alike(Document(document.data, syntax).value, before)
    return "edited", bool(had), document.data == data, b"#" in data or b"//" in data


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or (type(one) is type(other) and one == other)


def _edits(syntax: Syntax) -> Callable[[bytes], Hashable]:
    return partial(check_edits, syntax=syntax)


_FILE: Final = (
    b'// mine\n{\n  "mcpServers": {\n    "a": {"command": "x", "args": [1, 2,], /* why */ },\n  },\n}\n'
)
_PLAIN: Final = (
    b'{"mcpServers": {"a": {"url": "http://localhost/mcp"}}, "n": [1.5, -2e3, true, null, "\\u00e9\\n"]}'
)
_TOML: Final = (
    b'# mine\nx = 1\n[mcpServers.a]\ncommand = "x" # why\nargs = ["1", \'2\']\n[mcpServers.a.env]\nK = "v"\n'
)
_INLINE: Final = b'mcpServers = { a = { command = "x" }, "b.c" = {} }\n[[other]]\nd = 1979-05-27\n'
_YAML: Final = (
    b"# mine\nmcpServers:\n  a:\n    command: x  # why\n    args:\n      - '1'\n      - \"2\"\nn: [1, 2]\n"
)
_FLOW: Final = b"mcpServers: {a: {command: x}, b: {url: 'http://x'}}\nt: |\n  text\n  more\nz: ~\n"
_BRACKETS: Final = (b"{", b"}", b"[", b"]", b",", b":", b'"')

TARGETS: Final = (
    Target(
        "uris",
        "URIs of resources and templates",
        (
            b"file:///a/b/../c%2e%2e/d?x=1#y",
            b"HTTP://User@ExAmple.com:80/%252e%252e/a;x/b\\c",
            b"db://t/1?x=2",
            b"x:y",
            "file://\uff48/\uff0e\uff0e/é\u200b".encode(),
            b"https://[::1]:443/0x7f.1/",
        ),
        (
            b"%2e",
            b"%252e",
            b"..",
            b"/",
            b"\\",
            b"//",
            b";x",
            b"@",
            b":80",
            b"[::1]",
            b"0x7f.1",
            b"file:",
            b"%c0%ae",
        ),
        check_uris,
    ),
    Target(
        "addresses",
        "addresses of kept results",
        tuple(
            str(each).encode()
            for each in (
                ResultAddress("0123abcd"),
                ResultAddress("0123abcd", 2, 60, 20, "items[?n > `1`].name"),
                ResultAddress("0123abcd", start=5, count=7, in_characters=True),
            )
        ),
        (b"?", b"&", b"block=", b"from=", b"count=", b"select=", b"unit=characters", b"%26", b"/"),
        check_addresses,
    ),
    Target(
        "selects",
        "JMESPath of calls",
        (
            b"items[?n > `1`].{name: name, t: tags[0]}",
            b"sort_by(items, &name)[-1].name || 'none'",
            b"length(items) | @",
            b"items[*].tags[] | [::2]",
            b"join(', ', items[].name)",
            b'"total"',
        ),
        (
            b"[",
            b"]",
            b"[*]",
            b"[]",
            b"`1`",
            b"'x'",
            b"&",
            b"|",
            b"||",
            b"@",
            b"length(",
            b")",
            b"{a: b}",
            b"[?",
            b"items",
        ),
        check_selects,
    ),
    Target(
        "jsonc",
        "JSON with comments",
        (_FILE, _PLAIN, b"[]", b"\xef\xbb\xbf{}"),
        (*_BRACKETS, b"//", b"/*", b"*/"),
        check_jsonc,
    ),
    Target(
        "json-edits",
        "edits of JSON files",
        (_FILE, _PLAIN, b"", b'{"mcpServers":{}}'),
        (*_BRACKETS, b"//", b"/*", b"*/", b'"mcpServers"', b'"fuzz"'),
        _edits("json"),
    ),
    Target(
        "toml-edits",
        "edits of TOML files",
        (_TOML, _INLINE, b"", b"[mcpServers]\n"),
        (*_BRACKETS, b"=", b"#", b"\n", b'"""', b"'''", b"[[", b"]]", b"mcpServers", b"fuzz", b"."),
        _edits("toml"),
    ),
    Target(
        "yaml-edits",
        "edits of YAML files",
        (_YAML, _FLOW, b"", b"mcpServers: {}\n"),
        (
            *_BRACKETS,
            b"- ",
            b"? ",
            b"&a ",
            b"*a",
            b"<<: *a",
            b"|",
            b">",
            b"---",
            b"!!str ",
            b"# ",
            b"\n  ",
            b"mcpServers",
        ),
        _edits("yaml"),
    ),
)

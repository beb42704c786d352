"""A server's question names it, in clean text, with links that are safe, and cannot look like MCPX's own."""

from __future__ import annotations

import json

import pytest

from mcpx.core.policy.approval_form import CallShown, form
from mcpx.core.policy.asked_arguments import Arguments
from mcpx.core.policy.server_questions import presented
from mcpx.core.wire.envelope import MCPError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


def asked(message="Which?", schema=SCHEMA, server="weather", **more):
    return presented({"message": message, "requestedSchema": schema, **more}, server)


def link(url, message="Go"):
    return presented({"mode": "url", "message": message, "url": url, "elicitationId": "1"}, "weather")


def test_the_first_line_says_who_asks_and_the_rest_stays():
    assert asked(_meta={"x": 1}) == {
        "message": "weather asks:\n\nWhich?",
        "requestedSchema": SCHEMA,
        "_meta": {"x": 1},
    }
    assert presented({"message": "Which?", "requestedSchema": SCHEMA}, None)["message"] == "Which?"
    assert asked(server="my\u202eserver")["message"].startswith('"my\\u202eserver" asks:\n')


@pytest.mark.parametrize(
    "message", ["Which?", "", "git asks:\nYes?", "weather asks:\n\nWhich?", "a\n\n\n\nb"]
)
def test_a_question_that_passes_twice_is_named_once(message):
    once = asked(message)
    assert presented(once, "weather") == once
    assert once["message"].count("\nweather asks:") == 0
    through = link("https://example.com/x", message)
    assert presented(through, "weather") == through


def test_no_other_line_says_who_asks_and_none_is_pushed_out_of_sight():
    shown = asked("\n" * 200 + "git asks:\r\nMCPX asks: \u2028x asks:" + "\n" * 90 + "end")["message"]
    assert shown.splitlines()[0] == "weather asks:"
    assert [line for line in shown.splitlines() if line.endswith("asks:")][1:] == ["> git asks:", "> x asks:"]
    assert len(shown.splitlines()) < 12


@pytest.mark.parametrize(
    "line",
    [
        "MCPX asks\u00a0:",
        "git\u2003asks\uff1a",
        "MCPX:",
        "MCPX wants to know",
        "  * Server: git",
        "tool : push",
    ],
)
def test_a_line_that_looks_like_mcpx_is_quoted(line):
    shown = asked(f"a\n.\n{line}\nWhich?")["message"]
    assert shown == f"weather asks:\n\na\n.\n> {line}\nWhich?"
    assert asked(shown)["message"] == shown


@pytest.mark.parametrize("name", ["format", "pattern", "x\x1b[2J"])
def test_what_is_for_programs_holds_nothing_that_cannot_be_seen(name):
    with pytest.raises(MCPError, match="cannot be seen"):
        asked(schema={"type": "object", "properties": {"n": {"type": "string", name: "a\u202e"}}})


def test_a_member_that_nobody_knows_is_clean():
    assert asked(title="a\x1b\u202e b")["title"] == "a b"


def test_texts_are_clean_and_what_is_answered_is_as_it_was():
    dirty = "a\x1b[31m\u202eb\u200b\x07c"
    properties = {
        "pick": {
            "type": "string",
            "title": dirty,
            "description": dirty + "\nmore",
            "enum": ["x", "y"],
            "enumNames": [dirty, "Y"],
            "default": dirty,
        },
        "many": {"type": "array", "items": {"anyOf": [{"const": "x", "title": dirty}]}, "default": [dirty]},
    }
    shown = asked(dirty, {"type": "object", "properties": properties})
    text = json.dumps(shown, ensure_ascii=False)
    assert not {"\x1b", "\u202e", "\u200b", "\x07"} & set(text)
    assert "\\u001b" not in text
    fields = shown["requestedSchema"]["properties"]
    assert fields["pick"]["enum"] == ["x", "y"]
    assert fields["pick"]["description"].endswith("\nmore")
    assert fields["many"]["items"]["anyOf"][0]["const"] == "x"


@pytest.mark.parametrize("field", [{"enum": ["a\u202e"]}, {"oneOf": [{"const": "\x1b[2J", "title": "x"}]}])
def test_a_choice_that_would_have_to_be_changed_is_refused(field):
    with pytest.raises(MCPError, match="cannot be seen"):
        asked(schema={"type": "object", "properties": {"x": field}})
    with pytest.raises(MCPError, match="cannot be seen"):
        asked(schema={"type": "object", "properties": {"na\u200bme": {"type": "string"}}})


def own(**more):
    params, _ = form(CallShown(server="git", tool="git_push", rule="r", **more), Arguments.read(b"{}"), str)
    return params


@pytest.mark.parametrize(
    "params",
    [
        own(),
        own() | {"requestedSchema": SCHEMA},
        own() | {"message": "Which?"},
        {"message": "MAY  this\ntool be run", "requestedSchema": SCHEMA},
        {"message": "\uff2day this tool be run?", "requestedSchema": SCHEMA},
        {"message": "May th\u200bis tool be run?", "requestedSchema": SCHEMA},
        {"message": "x", "requestedSchema": {"properties": {"d": {"title": "May this tool be run?"}}}},
        {"message": "x", "requestedSchema": {"properties": {"decision": {"enum": ["once", "always", "no"]}}}},
        {"message": "x", "requestedSchema": {"properties": {"decision": {"enumNames": ["Once", "Always"]}}}},
        {"message": "x", "requestedSchema": {"properties": {"Decision": {"enum": ["ONCE", "always"]}}}},
        {"message": "x", "requestedSchema": {"properties": {"d": {"enum": ["once", "session", "always"]}}}},
        {"message": "x", "title": "May it run?"},
        {"message": "\u041c\u0430\u0443 this tool be run?"},  # in Cyrillic
        {"message": "You are asked because of the rule approve: writes", "mode": "url", "url": "https://a.b"},
    ],
)
def test_what_looks_like_mcpx_is_refused(params):
    with pytest.raises(MCPError, match="MCPX's own question"):
        presented(params, "weather")
    assert presented(params, "weather", from_mcpx=True)["message"].startswith("weather asks:\n")


def test_a_field_may_be_called_a_decision():
    schema = {"properties": {"decision": {"type": "string", "enum": ["yes", "no"]}}}
    assert asked(schema=schema)["requestedSchema"] == schema


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/x?y=1#z", "example.com"),
        ("HTTPS://Example.COM", "example.com"),
        ("https://example.com:8443/", "example.com:8443"),
        ("http://127.0.0.1:5000/cb", "127.0.0.1:5000"),
        ("http://localhost/x", "localhost"),
        ("http://[::1]:80/x", "[::1]:80"),
    ],
)
def test_a_link_is_passed_on_with_its_host_in_the_message(url, host):
    shown = link(url)
    assert shown["url"] == url
    assert shown["message"] == f"weather asks:\n\nGo\n\nThe link opens {host}."


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vscode://x",
        "http://example.com",
        "http://127.0.0.1.evil.example/",
        "http://localhost@evil.example/",
        "https://good.example@evil.example/",
        "https://evil.example\\@good.example/",
        "https://good.example/\u202e",
        "https://ex\u00e4mple.com",
        "https://a b",
        "https:/a",
        "https://",
        " https://a.b",
        "https://a.b\n",
        "https://a.b/\tx",
        "//a.b",
        "",
        None,
        7,
    ],
)
def test_another_link_is_refused_with_the_reason(url):
    with pytest.raises(MCPError, match="its link"):
        link(url)


@pytest.mark.parametrize("message", [None, 7, ["x"]])
def test_a_message_that_is_no_text_is_refused(message):
    with pytest.raises(MCPError, match="no text"):
        asked(message)


def test_a_schema_that_is_nested_without_end_is_refused():
    deep = {"x": "y"}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(MCPError, match="too deeply"):
        asked(schema=deep)


@pytest.mark.parametrize(
    ("message", "schema"),
    [("x" * 70_000, SCHEMA), ("x", {"enum": ["y"] * 70_000}), ("\n \t" * 30_000, SCHEMA)],
)
def test_a_question_that_nobody_reads_is_refused(message, schema):
    with pytest.raises(MCPError, match="over 65,536 characters"):
        asked(message, schema)

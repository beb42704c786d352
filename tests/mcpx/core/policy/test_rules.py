"""Which names and URIs a rule fits: broadly where it restricts, narrowly where it allows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.config.per_server import AccessRules, ToolRules, joined
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.policy.rules import NameRules, URIRules, admitted_completion


def tools(server="git", **rules):
    given = ToolRules(**rules)
    return NameRules("tools", server, joined(given, given))


def uris(**rules):
    return URIRules("files", AccessRules(**rules))


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("status", "status", True),
        ("git_*", "git_log", True),
        ("git.status", "status", True),
        ("*.status", "status", True),
        ("g?t.*", "anything.at.all", True),
        ("a[1]", "a[1]", True),
        ("Status", "status", False),
        ("stat", "status", False),
        ("g*", "status", False),
        ("linear.*", "status", False),
        ("linear.*", "linear.x", False),
        ("*.status", "evil.status", False),
        ("git.x.status", "x.status", True),
    ],
)
def test_what_a_pattern_allows(pattern, name, fits):
    assert (tools(allow=(pattern,)).against(name) is None) is fits


@pytest.mark.parametrize("pattern", ["status", "git.status", "*status", "g*", "*.stat*", "[g]it.*"])
def test_what_a_pattern_denies(pattern):
    assert tools(deny=(pattern,), allow=("*",)).against("status") == f"tools.deny: {pattern}"


def test_the_bare_name_of_a_tool_is_denied_whatever_it_spells():
    assert tools(server="evil", deny=("git.*",)).against("git.status")


@pytest.mark.parametrize(("pattern", "name"), [("caf\u00e9*", "cafe\u0301"), ("cafe\u0301", "caf\u00e9")])
def test_a_letter_that_is_written_in_another_way_is_denied_and_asked_about_all_the_same(pattern, name):
    assert tools(deny=(pattern,)).against(name)
    assert tools(ask=(pattern,)).asked(name)


def test_what_is_asked_is_allowed_and_what_is_denied_is_never_asked_about():
    rules = tools(allow=("status",), ask=("push*", "linear.*"), deny=("push_force",))
    assert [rules.against(name) for name in ("status", "push")] == [None, None]
    assert rules.asked("push") == "tools.ask: push*"
    assert rules.against("push_force") == "tools.deny: push_force"
    assert rules.against("log") == "tools.allow"
    assert rules.against("linear.x") == "tools.allow"
    assert tools(ask=("linear.*",)).asked("linear.x")


def test_rules_that_say_nothing_restrict_nothing():
    assert not tools().restrict
    assert not tools(ask=("*",)).restrict
    assert tools(allow=()).against("status") == "tools.allow"


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/secret",
        "FILE:///etc/secret",
        "file://LOCALHOST/etc/secret",
        "file:/etc/secret",
        "file:////etc//secret",
        "file:///etc/./secret",
        "file:///etc/x/../secret",
        "file:///etc/%73ecret",
        "file:///etc/%2573ecret",
        "file:///etc%2Fsecret",
        "file:///etc\\secret",
        "file:///etc/secret#a",
        "file:///etc/secret?",
        "file:///etc/secret?a=1",
        "file:///etc/secret/",
    ],
)
def test_a_denied_uri_is_denied_in_every_spelling(uri):
    assert uris(deny=("file:///etc/secret",)).against(uri) == "resources.deny: file:///etc/secret"


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        ("note:///secret/*", "note:/secret/a"),
        ("note:///secret/*", "note:////secret/a"),
        ("secret/*", "./secret/a"),
        ("secret/*", "x/../secret/a"),
        ("https://host/secret", "https://me@HOST:443/secret"),
        ("https://host/secret", "https://host./secret"),
        ("https://host/*", "https://host//x"),
        ("note://host/*", "note:host/x"),
        ("note://host/*", "note:///host//x"),
        ("mcpx://files/note:///a", "note:///%61"),
    ],
)
def test_what_a_server_may_take_for_the_same_is_denied(pattern, uri):
    assert uris(deny=(pattern,)).against(uri)


@pytest.mark.parametrize("uri", ["https://host:8443/secret", "http://host/secret", "note:secret", "x"])
def test_another_uri_is_not_denied(uri):
    assert not uris(deny=("https://host/secret", "note:///secret")).against(uri)


def test_a_listed_uri_with_a_query_is_not_the_one_without():
    rules = uris(deny=("note://all",))
    assert rules.against("note://all?page=2")
    assert not rules.against("note://all?page=2", listed=True)


@pytest.mark.parametrize(
    ("pattern", "uri", "fits"),
    [
        ("file:///pub/*", "file:///pub/a", True),
        ("file:///pub/*", "file:///pub/a%20b", True),
        ("file:///pub/a%20b", "file:///pub/a%20b", True),
        ("Note://Host/x*", "Note://Host/x1", True),
        ("file:///pub/{name}", "file:///pub/a", True),
        ("file:///pub/{name}", "file:///pub/a/b", False),
        ("mcpx://files/file:///pub/*", "file:///pub/a", True),
        ("mcpx://other/file:///pub/*", "file:///pub/a", False),
        ("file:///pub/*", "file:///pub/../etc/secret", False),
        ("file:///pub/*", "file:///pub/%2e%2e/etc/secret", False),
        ("file:///pub/%2A", "file:///pub/secret", False),
        ("file:///pub/?", "file:///pub/ab", False),
    ],
)
def test_which_uris_a_pattern_allows(pattern, uri, fits):
    assert (uris(allow=(pattern,)).against(uri) is None) is fits


@pytest.mark.parametrize(
    ("rules", "template", "listed"),
    [
        ({"deny": ("file:///etc/*",)}, "file:///etc/{name}", False),
        ({"deny": ("file:///etc/{name}",)}, "file:///etc/{name}", False),
        ({"deny": ("file:///etc/*",)}, "file:///{+path}", True),
        ({"allow": ("file:///pub/*",)}, "file:///pub/{name}", True),
        ({"allow": ("file:///pub/*",)}, "file:///{+path}", True),
        ({"allow": ("file:///pub/a/*",)}, "file:///pub/{+name}", True),
        ({"allow": ("file:///pub/*",)}, "file:///etc/{name}", False),
        ({"allow": ()}, "file:///etc/{name}", False),
    ],
)
def test_which_templates_are_listed(rules, template, listed):
    assert (uris(**rules).against_template(template) is None) is listed


def test_what_a_denied_template_makes_is_denied():
    assert uris(deny=("file:///etc/{name}",)).against("file:///etc/passwd")


WHATWG = json.loads(Path(__file__).with_name("whatwg.json").read_text())
"""Spellings that the URL parser of browsers and Node takes for these; written down from Node 20."""
SAME_RULES = [
    ("file:///secret/*", "http://internal.example/secret/*", "http://127.0.0.1/*", "http://[::1]/*"),
    (
        "file:///secret/k",
        "http://internal.example/secret/k",
        "http://127.1/secret/k",
        "http://[0::1]/secret/k",
    ),
    (
        "FILE://localhost//secret/*",
        "http:INTERNAL.example:80/secret/*",
        "http://0x7f.1/s*",
        "http://[::1]:80/*",
    ),
]


@pytest.mark.parametrize("deny", SAME_RULES, ids=["folders", "whole", "odd patterns"])
def test_what_a_browser_takes_for_a_denied_uri_is_denied(deny):
    rules = uris(deny=deny)
    assert len(WHATWG) > 300
    assert [spelled for spelled, _ in WHATWG if rules.against(spelled) is None] == []


@pytest.mark.parametrize(
    "uri",
    [
        "file://127.0.0.1/secret/k",
        "file://[::1]/secret/k",
        "file://localhost:80/secret/k",
        "file://anything/secret/k",
        "file://u:p@h/secret/k",
        "/secret/k",
        "\\\\host\\secret\\k",
        "file:///SECRET/k",
        "FILE:///Secret/K",
        "file:///se%00cret/k",
        "file:///secret//../k",  # a browser takes back the empty segment
        "file:///%2e/secret/..%2fk",
        "secret/k",
        "../%73ecret/k",
        "file:///secret%00/k",
        "file:///secret/k%00.txt",
        "file:///a/..;/secret/k",
        "file:///a/..;x=y/secret/k",
        "file:///secret;x/k",
        "file:///secret/k;v=1",
        "file:///%EF%BD%93ecret/k",
        "file:///\uff53ecret/k",
        "file:///\uff0e\uff0e/secret/k",
        "file:///sec\u200bret/k",
        "file:///\u017fecret/k",
        "file:///%73%65cret/k",
        "file:///%2573ecret/k",
        "file:///%252573ecret/k",
        "file:///%u0073ecret/k",
        "file:///a/%c0%ae%c0%ae/secret/k",
        "file:%c0%afsecret/k",
        "file:///a%5c..%5csecret%5ck",
        "file:///secret./k",
        "file:///secret%20/k",
        "file:///secret\x7f/k",
        "file:///secret\x85/k",
        "file:///%09secret/k",
        "%20file:///secret/k",
    ],
)
def test_what_some_server_may_take_for_a_denied_uri_is_denied(uri):
    assert uris(deny=("file:///secret/*",)).against(uri)


@pytest.mark.parametrize(
    "uri",
    ["file:///home/k", "file:///secrets/k", "file:///public/secret/k", "note:///a b;c", "http://h/secret/k"],
)
def test_other_uris_are_not_denied(uri):
    assert uris(deny=("file:///secret/*",)).against(uri) is None


@pytest.mark.parametrize(
    "uri",
    [
        "file:///notes/..;/k",
        "file:///notes/x\\..\\..\\k",
        "file:///notes/\uff0e\uff0e/k",
        "file:///notes/%c0%ae%c0%ae/k",
        "file:///NOTES/k",
        "file://host/notes/k",
        "file:///notes/k\n",
        "file:///no\ttes/k",
        "file:///notes/%00k",
        " file:///notes/k",
    ],
)
def test_what_some_server_may_take_for_another_uri_is_not_allowed(uri):
    assert uris(allow=("file:///notes/*",)).against(uri)


def test_what_is_allowed_stays_allowed():
    allow = ("file:///notes/*", "note:///a;b", "http://h:80/x/*", "data:text/*", "http://[::1]/*")
    rules = uris(allow=allow)
    for uri in ("file:///notes/k", "file:///notes/My%20Notes/a.b", "note:///a;b", "http://h:80/x/y?z=1"):
        assert rules.against(uri) is None, uri


# --- values of a template's argument that would make a denied URI are not suggested


def policy(**resources):
    config = ServerConfig(name="s", transport=Stdio(command="x"), resources=AccessRules(**resources))
    return ServerPolicy(config)


def suggesting(*values, **more):
    return {"completion": {"values": list(values), **more}}


@pytest.mark.parametrize(
    ("rules", "template", "resolved", "kept"),
    [
        ({}, "file:///{name}", {}, ["a", "secret"]),
        ({"deny": ("file:///secret",)}, "file:///{name}", {}, ["a"]),
        ({"deny": ("file:///secret",)}, "file:///{+name}", {}, ["a"]),
        ({"deny": ("file:///x/secret",)}, "file:///{dir}/{name}", {}, ["a", "secret"]),
        ({"deny": ("file:///x/secret",)}, "file:///{dir}/{name}", {"dir": "x"}, ["a"]),
        ({"deny": ("file:///x/secret",)}, "file:///{dir}/{name}", {"dir": "y"}, ["a", "secret"]),
        ({"deny": ("file:///*/secret",)}, "file:///{dir}/{name}", {}, ["a"]),
        ({"allow": ("file:///a",)}, "file:///{name}", {}, ["a"]),
    ],
)
def test_which_values_are_suggested(rules, template, resolved, kept):
    given = suggesting("a", "secret", total=7, hasMore=True)
    shown = admitted_completion(given, policy(**rules), template, "name", resolved)
    assert shown == suggesting(*kept, total=5 + len(kept), hasMore=True)


@pytest.mark.parametrize("result", [{}, {"completion": None}, {"completion": {"values": 3}}])
def test_a_result_of_another_shape_is_passed_on(result):
    assert admitted_completion(result, policy(deny=("x",)), "x:{y}", "y", {}) == result

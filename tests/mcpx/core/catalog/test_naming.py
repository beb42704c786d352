"""Names of resources and prompts: reversible, without collisions, whatever the server is called."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.uri_template import UriTemplate
from pydantic import AnyUrl

from mcpx.core.catalog.naming import (
    MAX_NAME_CHARS,
    may_be_of,
    native_name,
    offered_prompt,
    offered_uri,
    own_prompt,
    own_uri,
)

SERVERS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1) | st.sampled_from(
    ["a.b", "a%2Eb", "a/b", "{x}", "..", "a b", "\u00e9", "%", "."]
)
TEXTS = st.text() | st.sampled_from(["file:///a/b", "x://{y}{?z*}", "", "mcpx://other/x:y", "a.b", "."])


@given(SERVERS, TEXTS)
def test_a_uri_can_be_taken_back(server, uri):
    assert own_uri(offered_uri(server, uri)) == (server, uri)


@given(SERVERS, TEXTS)
def test_a_prompt_can_be_taken_back(server, name):
    assert own_prompt(offered_prompt(server, name)) == (server, name)


@given(st.text())
def test_what_is_taken_back_is_what_would_be_offered(text):
    """So no two names mean the same, and no two servers can collide."""
    for offer, take in ((offered_uri, own_uri), (offered_prompt, own_prompt)):
        taken = take(text)
        assert taken is None or offer(*taken) == text


@given(SERVERS)
def test_a_template_expands_as_it_does_without_mcpx(server):
    template = "row://{table}/{id}{?columns}"
    given = {"table": "a b", "id": "7", "columns": "x"}
    expanded = UriTemplate.parse(offered_uri(server, template)).expand(given)
    assert own_uri(expanded) == (server, UriTemplate.parse(template).expand(given))


def test_how_they_look():
    assert offered_uri("files", "file:///a.md") == "mcpx://files/file:///a.md"
    assert offered_uri("my files/x", "a:b") == "mcpx://my%20files%2Fx/a:b"
    assert offered_prompt("git", "commit") == "git.commit"
    assert offered_prompt("a.b", "c.d") == "a%2Eb.c.d"
    assert own_uri("file:///a.md") is None
    assert own_uri("mcpx://files") is None
    assert own_prompt("commit") is None


def test_it_survives_a_client_that_parses_uris():
    for uri in ("file:///a/b.md", "demo://resource/static/document/x.md", "row://t/1?c=x#f", "urn:x:y"):
        assert str(AnyUrl(offered_uri("My Files", uri))) == offered_uri("My Files", uri)


NAME = st.text(st.sampled_from("ab_-. /é0"), min_size=1, max_size=9)
ANY = st.text(min_size=1, max_size=200)
VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_names_that_fit_are_plain():
    assert native_name("git", "git_status") == "git__git_status"
    assert native_name("my-files", "_read__all") == "my-files___read__all"
    assert native_name("s", "t" * 61) == "s__" + "t" * 61


def test_the_others_end_with_a_digest_and_say_what_they_can():
    for server, tool, beginning in (
        ("git hub", "a.b", "git_hub__a_b_"),
        ("a__b", "c", "a__b__c_"),
        ("a_", "b", "a___b_"),
        ("s", "t" * 62, "s__ttt"),
        ("long-" * 14, "tool", "long-long-long-long-long__tool_"),
        ("git", "x_0123456789ab", "git__x_0123456789ab_"),
        ("größe", "è", "gr__e___"),
    ):
        name = native_name(server, tool)
        assert name.startswith(beginning)
        assert re.search(r"_[0-9a-f]{12}\Z", name)
        assert VALID.fullmatch(name)
        assert may_be_of(server, name)


def test_a_name_is_for_good():
    assert native_name("git hub", "a.b") == "git_hub__a_b_e2691d9e85d2"


@given(st.one_of(NAME, ANY), st.one_of(NAME, ANY))
def test_every_name_is_valid_and_of_its_server(server, tool):
    name = native_name(server, tool)
    assert len(name) <= MAX_NAME_CHARS
    assert VALID.fullmatch(name)
    assert may_be_of(server, name)


@given(st.sets(st.tuples(NAME, NAME), max_size=40))
def test_no_two_tools_have_one_name(tools):
    assert len({native_name(*each) for each in tools}) == len(tools)


@given(NAME, NAME)
def test_a_tool_that_is_called_like_the_name_of_another_does_not_get_it(server, tool):
    name = native_name(server, tool)
    head, _, rest = name.partition("__")
    if head and rest and (head, rest) != (server, tool):
        assert native_name(head, rest) != name

"""Names of resources and prompts: reversible, without collisions, whatever the server is called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.uri_template import UriTemplate
from pydantic import AnyUrl

from mcpx.core.catalog.naming import offered_prompt, offered_uri, own_prompt, own_uri

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

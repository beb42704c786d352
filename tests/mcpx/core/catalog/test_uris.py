"""Which URIs may be sent to a server."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import Catalogue, ResourceInfo, TemplateInfo
from mcpx.core.catalog.templates import matches_any
from mcpx.core.catalog.uris import MAX_URI_CHARS, UriRejection, uri_rejection


def catalogue(*uris: str, templates: tuple[str, ...] = ()) -> Catalogue:
    return Catalogue(
        generation=1,
        resources={uri: ResourceInfo(server_name="s", uri=uri, name="n") for uri in uris},
        templates=tuple(TemplateInfo(server_name="s", uri_template=t, name="n") for t in templates),
    )


DOCS = catalogue("file:///docs/a.md", "odd:///../x", templates=("file:///docs/{+path}", "row://{t}/{id}"))


@pytest.mark.parametrize(
    "uri",
    [
        "file:///docs/a.md",
        "odd:///../x",  # listed: as good as its server says
        "file:///docs/sub/b.md",
        "FILE:///docs/b.md",  # schemes have no case
        "row://t/1?range=a..b",
        "row://t/..5",
        "row://t/1?up=../x",  # no path
        "file:///elsewhere/linked-by-a-tool.md",
        "row://t/%20x",
    ],
)
def test_may_be_sent(uri):
    assert uri_rejection(uri, DOCS) is None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:///docs/../x", UriRejection.STEPS_UP),
        ("file:///docs/%2e%2E/x", UriRejection.STEPS_UP),
        ("file:///docs/%252e%252e/x", UriRejection.STEPS_UP),
        ("file:///docs/%25252e./x", UriRejection.STEPS_UP),
        ("file:///docs/..%2fx", UriRejection.STEPS_UP),
        ("file:///docs/..\\x", UriRejection.STEPS_UP),
        ("file:///docs/..", UriRejection.STEPS_UP),
        ("file:///docs/a\x00.md", UriRejection.CONTROL_CHARACTERS),
        ("file:///docs/a%00.md", UriRejection.CONTROL_CHARACTERS),
        ("file:///docs/a%0d%0ab", UriRejection.CONTROL_CHARACTERS),
        ("file:///docs/\x7f", UriRejection.CONTROL_CHARACTERS),
        ("file:///docs/\ud800", UriRejection.CONTROL_CHARACTERS),
        ("http://example.com/", UriRejection.UNKNOWN_SCHEME),
        ("javascript:alert(1)", UriRejection.UNKNOWN_SCHEME),
        ("docs/a.md", UriRejection.UNKNOWN_SCHEME),
        ("", UriRejection.UNKNOWN_SCHEME),
        ("file:///docs/" + "x" * MAX_URI_CHARS, UriRejection.TOO_LONG),
    ],
)
def test_may_not_be_sent(uri, why):
    assert uri_rejection(uri, DOCS) is why


def test_without_templates_only_what_is_listed():
    listed = catalogue("file:///a", "file:///b")
    assert uri_rejection("file:///a", listed) is None
    assert uri_rejection("file:///c", listed) is UriRejection.NOT_LISTED


def test_a_template_that_gives_the_scheme_too():
    anything = catalogue(templates=("{+url}",))
    assert uri_rejection("https://example.com/a", anything) is None
    one = catalogue(templates=("{scheme}://only/{x}",))
    assert uri_rejection("a://only/1", one) is None
    assert uri_rejection("a://other/1", one) is not None


@pytest.mark.parametrize(
    ("template", "uri", "whether"),
    [
        ("row://{t}/{id}", "row://a/1", True),
        ("row://{t}/{id}", "row://a/1/2", False),
        ("row://{+path}", "row://a/1/2", True),
        ("row://{t}{?q*}", "row://t?a=1&b=2", True),  # which the SDK cannot take back
        ("row://{t}{?q*}", "other://t", False),
        ("a.b://x", "aXb://x", False),
        ("broken://{", "broken://{", True),
    ],
)
def test_matches(template, uri, whether):
    assert matches_any((template,), uri) is whether

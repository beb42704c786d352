"""Which URIs may be sent to a server."""

from __future__ import annotations

import pytest

from mcpx.catalog.model import Catalogue, ResourceInfo, TemplateInfo
from mcpx.catalog.templates import fits
from mcpx.catalog.uris import LONGEST, problem_with


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
    assert problem_with(uri, DOCS) is None


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:///docs/../x", "steps out"),
        ("file:///docs/%2e%2E/x", "steps out"),
        ("file:///docs/%252e%252e/x", "steps out"),
        ("file:///docs/%25252e./x", "steps out"),
        ("file:///docs/..%2fx", "steps out"),
        ("file:///docs/..\\x", "steps out"),
        ("file:///docs/..", "steps out"),
        ("file:///docs/a\x00.md", "control characters"),
        ("file:///docs/a%00.md", "control characters"),
        ("file:///docs/a%0d%0ab", "control characters"),
        ("file:///docs/\x7f", "control characters"),
        ("file:///docs/\ud800", "control characters"),
        ("http://example.com/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("docs/a.md", "scheme"),
        ("", "scheme"),
        ("file:///docs/" + "x" * LONGEST, "longer"),
    ],
)
def test_may_not_be_sent(uri, why):
    assert why in problem_with(uri, DOCS)


def test_without_templates_only_what_is_listed():
    listed = catalogue("file:///a", "file:///b")
    assert problem_with("file:///a", listed) is None
    assert problem_with("file:///c", listed) == ""


def test_a_template_that_gives_the_scheme_too():
    anything = catalogue(templates=("{+url}",))
    assert problem_with("https://example.com/a", anything) is None
    one = catalogue(templates=("{scheme}://only/{x}",))
    assert problem_with("a://only/1", one) is None
    assert problem_with("a://other/1", one) is not None


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
def test_fits(template, uri, whether):
    assert fits(template, uri) is whether

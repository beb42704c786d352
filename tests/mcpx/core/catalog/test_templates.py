"""Resource templates are matched as RFC 6570 expands them, and never by backtracking."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from mcpx.core.catalog.templates import MAX_EXPRESSIONS, MAX_TEMPLATE_CHARS, matches_any

LONG = 65_000  # characters of a URI
BUDGET_S = 0.05  # of the processor; the loop is not held for longer


def matches(template: str, uri: str) -> bool:
    return matches_any((template,), uri)


@pytest.mark.parametrize(
    ("template", "uri", "whether"),
    [
        ("a://x", "a://x", True),
        ("a://x", "a://xy", False),
        ("a://{x}", "a://", True),
        ("a://{x}", "a://1/2", False),
        ("a://{x,y}", "a://1,2", True),
        ("a://{+x}/{y}", "a://1/2/3", True),
        ("a://{y}/{+x}", "a://1/2/3", True),
        ("a://{+x}/end", "a://1/2/end", True),
        ("a://{+x}/end", "a://1/2/END", False),
        ("a://{x}.md", "a://read.me.md", True),
        ("a://{x}.md", "a://read.me", False),
        ("a://{x}b", "a://b", True),
        ("a://x{y}x", "a://x", False),
        ("a:/{/p*}", "a://1/2/3", True),
        ("a://f{.kind}", "a://f.md", True),
        ("a://f{;w,h}", "a://f;w=1;h=2", True),
        ("a://f{;w,h}", "a://f;w;h=2", True),
        ("a://{f}{?q,r}", "a://f?r=2", True),
        ("a://{f}{?q,r}", "a://f", True),
        ("a://{f}{?q,r}", "a://f/g?q=1", False),
        ("a://f?q=1{&r}", "a://f?q=1&r=2", True),
        ("{+url}", "https://example.com/a?b=c#d", True),
        ("get://{+url}", "get://https://example.com/a?b=c#d", True),
        ("a://{+x}/m/{+y}", "a://1/2/m/3/4", True),
        ("a://{+x}/m/{+y}", "a://1/2/3/4", False),
        ("a://{+x}/m/{+y}/n/{z}.md", "a://1/m/2/n/3.md", True),
        ("a://{+x}/m/{+y}/n/{z}.md", "a://1/n/2/m/3.md", False),
        ("a://{a}{b}{c}z", "a://12z", True),
        ("a://{a}{b}{c}z", "a://12y", False),
        ("a://{+a}{b}{+c}z", "a://1/2z", True),
        ("a://{x:3}", "a://abc", True),
        ("{", "{", True),
        ("}{", "}{", True),
        ("a://{}", "a://x", True),
    ],
)
def test_matches(template, uri, whether):
    assert matches(template, uri) is whether


_LITERALS = st.text("ab/.;?&=,", max_size=4)
_EXPRESSIONS = st.builds(
    "{{{}{}}}".format, st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]), st.sampled_from("uvwxyz")
)
_TEMPLATES = st.lists(_LITERALS | _EXPRESSIONS, max_size=8).map("".join)


@settings(max_examples=500, deadline=None)
@given(_TEMPLATES, st.lists(st.text("ab/.;=", max_size=3), min_size=6, max_size=6))
def test_what_the_sdk_expands_matches(template, values):
    try:
        parsed = UriTemplate.parse(template)
    except InvalidUriTemplate:
        return
    assert matches(template, parsed.expand(dict(zip("uvwxyz", values, strict=True))))


HOSTILE = [
    ("{a}{b}{c}{d}{e}{f}{g}z", "a" * LONG),
    ("".join(f"{{+v{i}}}a" for i in range(60)) + "z", "a" * LONG),
    ("".join(f"{{v{i}}}a" for i in range(60)), "a" * LONG),
    ("".join(f"{{v{i}}}a" for i in range(60)) + "b", "a" * LONG),
    ("{+p}" + "".join(f"a{{v{i}}}" for i in range(60)) + "b", "a" * LONG + "b"),
    ("{+p}" + "a" * 4000 + "b{x}c", "a" * LONG + "c"),
    ("{;a*}{;b*}{;c*}", ";a=1" * (LONG // 4)),
    ("{" * MAX_TEMPLATE_CHARS, "{" * LONG),
    ("{a" * 60, "{" * LONG),
    ("x://{?" + ",".join(f"v{i}" for i in range(2000)) + "}", "x://?" + "%" * LONG),
]


@pytest.mark.parametrize(("template", "uri"), HOSTILE)
def test_no_template_makes_much_work(template, uri):
    before = time.process_time()
    matches(template, uri)
    assert time.process_time() - before < BUDGET_S


def test_a_server_with_very_many_templates_is_asked_about_the_first_only():
    templates = [f"x://{{a}}b{i}{{c}}" for i in range(10_000)]
    uri = "x://" + "a" * LONG
    before = time.process_time()
    assert not matches_any([*templates, "x://{+all}"], uri)
    assert matches_any([*(f"other{i}://{{x}}" for i in range(10_000)), "x://{+all}"], uri)
    assert time.process_time() - before < 2 * BUDGET_S


def test_a_template_with_too_many_expressions_or_characters_matches_nothing():
    expressions = "".join(f"{{v{i}}}/" for i in range(MAX_EXPRESSIONS + 1))
    assert not matches(expressions, "/" * (MAX_EXPRESSIONS + 1))
    assert not matches("a" * (MAX_TEMPLATE_CHARS + 1), "a" * (MAX_TEMPLATE_CHARS + 1))

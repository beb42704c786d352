"""What a client declared decides what it is asked, and the refusal says what is missing."""

from __future__ import annotations

import pytest

from mcpx.core.protocol.context import most_verbose, read_capabilities, wants

SAMPLING, ELICITATION, ROOTS = "sampling/createMessage", "elicitation/create", "roots/list"


@pytest.mark.parametrize(
    ("declared", "method", "params", "code"),
    [
        ("{}", SAMPLING, {}, -32601),
        ("{}", ELICITATION, {}, -32601),
        ("{}", ROOTS, {}, -32601),
        ("not json", ROOTS, {}, -32601),
        ('{"sampling":{}}', SAMPLING, {}, None),
        ('{"sampling":{}}', SAMPLING, {"tools": []}, -32602),
        ('{"sampling":{}}', SAMPLING, {"toolChoice": {}}, -32602),
        ('{"sampling":{"tools":{}}}', SAMPLING, {"tools": [], "toolChoice": {}}, None),
        ('{"elicitation":{}}', ELICITATION, {}, None),
        ('{"elicitation":{}}', ELICITATION, {"mode": "form"}, None),
        ('{"elicitation":{}}', ELICITATION, {"mode": "url"}, -32602),
        ('{"elicitation":{"form":{}}}', ELICITATION, {"mode": "url"}, -32602),
        ('{"elicitation":{"url":{}}}', ELICITATION, {"mode": "form"}, -32602),
        ('{"elicitation":{"url":{}}}', ELICITATION, {"mode": "url"}, None),
        ('{"roots":{"listChanged":true}}', ROOTS, {}, None),
        ('{"roots":{}}', "tools/list", {}, -32601),
    ],
)
def test_a_client_is_asked_what_it_declared(declared, method, params, code):
    refusal = read_capabilities(declared.encode()).refusal(method, params)
    assert (refusal.code if refusal else None) == code


def test_only_what_can_be_passed_on_is_declared_further():
    raw = b'{"experimental":{"x":{}},"roots":{},"extensions":{"a":{}},"sampling":{"context":{}}}'
    assert read_capabilities(raw).encoded == b'{"sampling":{"context":{}},"roots":{},"extensions":{"a":{}}}'


@pytest.mark.parametrize(
    ("wanted", "level", "expected"),
    [
        (None, "emergency", False),
        ("debug", "debug", True),
        ("info", "debug", False),
        ("error", "emergency", True),
        ("info", "loud", False),
        ("loud", "emergency", False),
    ],
)
def test_a_message_goes_to_those_who_want_its_level(wanted, level, expected):
    assert wants(wanted, level) is expected


def test_the_most_verbose_of_all_levels_is_told():
    assert most_verbose(["error", None, "info", "loud"]) == "info"
    assert most_verbose([None]) is None

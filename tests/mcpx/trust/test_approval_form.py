"""What a person is shown of a call: true, on lines that nothing forges, without secrets, not too long."""

from __future__ import annotations

import json

import pytest

from mcpx.config import Redactor
from mcpx.trust.approval_form import Arguments, CallShown, TwiceNamed, form, read_answer

NO_SECRETS = Redactor()


def shown(arguments: object, *, tool: str = "t", redact: Redactor = NO_SECRETS) -> str:
    raw = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    call = CallShown(server="s", tool=tool, rule="tools.ask: t")
    params = form(call, Arguments.read(raw), redact)
    return str(params["message"])


def test_each_argument_has_a_line():
    lines = shown({"path": "/a", "n": 3, "deep": {"x": [1, None]}}).splitlines()
    assert lines[2:8] == [
        "Server: s",
        "Tool: t",
        "Arguments:",
        '  "path": "/a"',
        '  "n": 3',
        '  "deep": {"x": [1, null]}',
    ]
    assert lines[-1].endswith("tools.ask: t")
    assert "Arguments: none" in shown({})


@pytest.mark.parametrize("text", ["a\nServer: mine", "a\r\u2028b", "\x1b[2Jx", "\u202eevil", "a\u200bb"])
def test_no_text_forges_a_line_or_hides(text):
    for message in (shown({text: 1}), shown({"x": text}), shown({}, tool=text), shown({"x": [{text: text}]})):
        assert not any(ord(each) < 32 and each != "\n" for each in message)
        assert not {"\u2028", "\u202e", "\u200b"} & set(message)
        assert [line for line in message.splitlines() if line.startswith("Server:")] == ["Server: s"]


def test_long_values_are_shortened_in_plain_sight():
    message = shown({"content": "x" * 5000 + "; rm -rf /", "path": "/etc/passwd"})
    assert '; rm -rf /"\n' in message
    assert '"path": "/etc/passwd"' in message
    assert "(shortened: 5,012 characters in all)" in message
    assert len(message) < 2000


def test_many_arguments_are_counted():
    message = shown({f"name{number}": "y" * 100 for number in range(100)})
    assert len(message) < 2200
    assert "more that are not shown" in message


def test_of_large_arguments_the_ends_are_shown():
    raw = b'{"path": "/a", "content": "' + b"x" * 400_000 + b'y"}'
    message = shown(raw)
    assert "(shortened: 400,030 characters in all)" in message
    assert 'xy"}' in message
    assert '"path": "/a"' in message
    assert len(message) < 2000


def test_secrets_are_taken_out():
    redact = Redactor([("TOKEN", "s3cret-s3cret"), ("QUOTED", 'with "quotes" in')])
    message = shown({"x": "Bearer s3cret-s3cret", "s3cret-s3cret": ['with "quotes" in']}, redact=redact)
    assert "s3cret" not in message
    assert "quotes" not in message
    assert message.count("***TOKEN***") == 2


def test_the_same_arguments_have_the_same_digest_and_others_have_not():
    def digest(raw: bytes) -> bytes:
        return Arguments.read(raw).digest

    assert digest(b'{"a":1,"b":"\\u0061"}') == digest(b' {"b": "a", "a": 1 }')
    others = [b'{"a":1}', b'{"a":true}', b'{"a":"1"}', b'{"a":[1]}', b'{"a":{"1":null}}', b'{"b":1}', b"{}"]
    assert len({digest(raw) for raw in others}) == len(others)
    assert digest(b'{"a":' + b"9" * 5000 + b"}") != digest(b'{"a":' + b"8" * 5000 + b"}")


@pytest.mark.parametrize("raw", [b'{"a":1,"a":1}', b'{"x":[{"a":1,"b":2,"a":3}]}', b'{"a":1,"\\u0061":2}'])
def test_a_member_named_twice_is_refused(raw):
    with pytest.raises(TwiceNamed, match="a"):
        Arguments.read(raw)


def test_arguments_nested_too_deeply_are_shown_as_they_came():
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert Arguments.read(deep).value is None
    assert "(shortened: 200,006 characters in all)" in shown(deep)


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"[1]", b"{", b'{"mcpx/approval":null}', b'{"other":{}}', b"[" * 9999]
)
def test_what_is_no_answer_is_none(raw):
    answer = read_answer(raw)
    assert answer.decision is None
    assert not answer.is_refusal

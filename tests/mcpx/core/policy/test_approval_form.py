"""What a person is shown of a call: true, on lines that nothing forges, without secrets, not too long."""

from __future__ import annotations

import json

import pytest

from mcpx.core.config import Redactor
from mcpx.core.policy.approval_form import CallShown, form, read_answer
from mcpx.core.policy.asked_arguments import (
    MAX_MEMBERS,
    MAX_READ_BYTES,
    MAX_VALUES,
    Arguments,
    Unreadable,
    check,
)

NO_SECRETS = Redactor()


def shown(arguments: object, *, tool: str = "t", redact: Redactor = NO_SECRETS, whole: bool = False) -> str:
    raw = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    call = CallShown(server="s", tool=tool, rule="tools.ask: t")
    params, _ = form(call, Arguments.read(raw), redact, whole=whole)
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


def test_every_name_is_shown_and_what_is_short_comes_whole_and_first():
    message = shown({f"name{number}": "y" * 400 for number in range(100)} | {"path": "/etc/shadow"})
    lines = message.splitlines()
    assert lines[5] == '  "path": "/etc/shadow"'
    assert all(f'"name{number}": "yyyy' in message for number in range(100))
    assert "not shown" not in message
    assert "Show everything first" in message


def test_what_lies_deep_in_long_values_has_lines_of_its_own():
    rows = [{"id": number, "text": "y" * 50} for number in range(20)]
    message = shown({"options": {"rows": rows, "path": "/etc/shadow", "a.b": {"c": "z" * 400}}})
    assert '  "options"."path": "/etc/shadow"\n' in message
    assert '  "options"."rows"[19]: {"id": 19,' in message
    assert '  "options"."a.b"."c": "zzz' in message


def test_all_of_it_is_shown_to_those_who_ask_for_it():
    arguments = {"script": "x" * 4000 + "; rm -rf /; " + "x" * 4000}
    assert "rm -rf" not in shown(arguments)
    assert json.dumps(arguments["script"]) in shown(arguments, whole=True)
    assert "Show everything" not in shown(arguments, whole=True)
    large = shown({f"n{number}": "x" * 100_000 for number in range(50)}, whole=True)
    assert large.count("(shortened: 100,002 characters in all)") == 50
    assert len(large) < 80_000


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":%s%s}' % (b"[" * 100_000, b"]" * 100_000),
        *(b'{"path":1,"path":2,"pad":%s%s}' % (b"[" * depth, b"]" * depth) for depth in range(940, 1000)),
        b'{"a":"%s"}' % (b"x" * MAX_READ_BYTES),
        b'{"a":[%s1]}' % (b"1," * 2 * MAX_VALUES + b" " * (1 << 18)),
        b'{"a":["%s"]}' % (b'","' * 2 * MAX_VALUES),
        json.dumps({str(number): 1 for number in range(MAX_MEMBERS + 1)}).encode(),
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\\ud800"}',
        b'{"\\udc00\\ud800":1}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        '{"a":1}'.encode("utf-16"),
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}x',
        b'{"a":01}',
        b"[]",
        b"",
    ],
)
def test_what_cannot_be_read_to_its_end_is_refused(raw):
    with pytest.raises(Unreadable):
        Arguments.read(raw)


@pytest.mark.parametrize("number", ["-0", "1.50", "9" * 200, "0.1000000000000000055", "1E2"])
def test_numbers_are_shown_as_they_are_written(number):
    raw = b'{"n":[%s]}' % number.encode()
    assert f'"n": [{number}]' in shown(raw)
    assert Arguments.read(raw).digest != Arguments.read(b'{"n":[%s]}' % repr(float(number)).encode()).digest


def test_large_text_is_read():
    raw = json.dumps({"content": 'a, [b] {c}: "d" ' * 100_000}).encode()
    assert len(Arguments.read(raw).members["content"]) == 1_600_000


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
    with pytest.raises(Unreadable, match='name "a" twice'):
        Arguments.read(raw)
    in_text = json.dumps({"name": "exec", "arguments": {"arguments": raw.decode()}}).encode()
    for given in (raw, json.dumps(raw.decode()).encode(), in_text):
        with pytest.raises(Unreadable, match='name "a" twice'):
            check(given)


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"[1]", b"{", b'{"mcpx/approval":null}', b'{"other":{}}', b"[" * 9999]
)
def test_what_is_no_answer_is_none(raw):
    answer = read_answer(raw)
    assert answer.decision is None
    assert not answer.is_refusal

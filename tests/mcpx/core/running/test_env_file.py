"""The form of `.env`, as other programs read it."""

from __future__ import annotations

import pytest

from mcpx.core.running.env_file import EnvFileError, parse_env_file


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("A=1", {"A": "1"}),
        ("\ufeffA=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("# note\n\n  A = 1  # note\n", {"A": "1"}),
        ("export A=1\n\texport  B=2", {"A": "1", "B": "2"}),
        ("A=\nB=''\nC=\"\"", {"A": "", "B": "", "C": ""}),
        ("A=a b=c#d", {"A": "a b=c#d"}),
        ("A='$x ${B} \\n # \"'  # note", {"A": '$x ${B} \\n # "'}),
        ('A="a\\nb \\"c\\" \\$d \\\\ # e"', {"A": 'a\nb "c" $d \\ # e'}),
        ('A="-----BEGIN\nx\n-----END"\nB=1', {"A": "-----BEGIN\nx\n-----END", "B": "1"}),
        ("A=1\nB=${A}/${HOME}/${NOPE}/${NOPE:-d}", {"A": "1", "B": "1//home//d"}),
        ("A='$b'\nB=\"${A}\"\nC=$A", {"A": "$b", "B": "$b", "C": "$A"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A.b-c=1", {"A.b-c": "1"}),
        ("A=C:\\Users\\me", {"A": "C:\\Users\\me"}),
    ],
)
def test_values_are_read_as_shells_and_editors_do(text, found):
    assert parse_env_file(text, {"HOME": "/home"}) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A=1\nsecret-word", "line 2: expected NAME=VALUE"),
        ("A=1\n\n1A=secret", "line 3: expected NAME=VALUE"),
        ('A="secret\nmore', "line 1: the quote is not closed"),
        ("A='x' secret", "line 1: there is more after the closing quote"),
        ("A=sec\0ret", "line 1: the value holds a character that is not text"),
    ],
)
def test_a_mistake_is_named_by_its_line_and_shows_no_value(text, problem):
    with pytest.raises(EnvFileError) as failure:
        parse_env_file(text, {})
    assert str(failure.value) == problem

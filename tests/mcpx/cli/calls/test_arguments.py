"""The arguments of a call on a command line: words, JSON, files and standard input."""

from __future__ import annotations

import io

import click
import pytest

from mcpx.cli.calls.exec import read_arguments


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), {}),
        (("a=1", "b=x y", "c=[1, 2]", "d=null"), {"a": 1, "b": "x y", "c": [1, 2], "d": None}),
        (("e=", "f=a=b"), {"e": "", "f": "a=b"}),
        (('{"a": {"b": 1}}',), {"a": {"b": 1}}),
        (("a={b",), {"a": "{b"}),
        (('{"a": 1, "b": 2}', "b=3"), {"a": 1, "b": 3}),
        (("b=3", '{"a": 1, "b": 2}'), {"a": 1, "b": 2}),
    ],
)
def test_arguments_from_words(words, given):
    assert read_arguments(words).arguments == given


@pytest.mark.parametrize("words", [("a",), ("=1",), ("{a}",), ("a=1", "[]"), ("@/no/such",), ("[1]",)])
def test_words_that_are_no_arguments(words):
    with pytest.raises((click.BadParameter, OSError)):
        read_arguments(words)


@pytest.mark.parametrize(
    "words",
    [('{"a": 1e400}',), ("a=1e400",), ("a=[NaN]",), ('{"a": ' + "9" * 5000 + "}",), ("{" + '"a":{' * 5000,)],
)
def test_numbers_and_depths_that_json_cannot_carry_are_refused(words):
    with pytest.raises(click.BadParameter):
        read_arguments(words)


def test_the_words_stay_text_beside_what_they_may_mean():
    assert read_arguments(('{"a": 1}', "b=2", "b=x=y")).pairs == [("b", "2"), ("b", "x=y")]
    assert read_arguments(("b=2", '{"b": 1}')).pairs == []


def test_an_object_can_come_from_a_file_or_from_standard_input(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": "\xc3\xa9"}')
    assert read_arguments((f"@{file}",)).arguments == {"a": "é"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"b": 1}')))
    assert read_arguments((f"@{file}", "-", "c=2")).arguments == {"a": "é", "b": 1, "c": 2}


def test_a_file_that_is_no_object_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{'a': 1}")
    with pytest.raises(click.BadParameter, match=r"a\.json: not JSON"):
        read_arguments((f"@{tmp_path}/a.json",))

"""The log that `mcpx top` follows: real files, written, rotated, emptied, endless and hostile."""

from __future__ import annotations

import pytest

from mcpx.top.polling import MAX_LINE_CHARACTERS, READ_BYTES, LogFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.log"


@pytest.fixture
def log(path):
    made = LogFile(path)
    yield made
    made.close()


def append(path, text):
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def test_a_file_that_comes_later_is_followed_line_by_line(path, log):
    assert log.news() == []
    append(path, "one\ntw")
    assert log.news() == ["one"]
    append(path, "o\n\n")
    assert log.news() == ["two", ""]
    assert log.news() == []


def test_what_was_written_before_a_rotation_is_not_lost(path, log):
    append(path, "one\n")
    assert log.news() == ["one"]
    append(path, "two\n")
    path.rename(path.with_suffix(".log.1"))
    append(path, "three\n")
    assert log.news() == ["two", "three"]


def test_a_file_that_is_emptied_begins_again(path, log):
    append(path, "one\ntwo\n")
    log.news()
    path.write_text("new\n")
    assert log.news() == ["new"]


def test_of_a_long_file_the_end_is_shown(path, log):
    append(path, "".join(f"line {number}\n" for number in range(100_000)))
    first, *lines = log.news()
    assert first.startswith("... ")
    assert lines[-1] == "line 99999"
    assert sum(map(len, lines)) < READ_BYTES
    assert all(line.startswith("line ") for line in lines)


def test_a_line_without_an_end_is_cut_and_neither_read_for_ever_nor_kept(path, log):
    append(path, b"x" * (READ_BYTES - 10))
    assert log.news() == []
    append(path, b"x" * READ_BYTES)
    (line,) = log.news()
    assert line == "x" * MAX_LINE_CHARACTERS + "…"
    append(path, b"\nafter\n")
    assert log.news()[-1] == "after"


def test_what_would_harm_a_terminal_is_seen_and_not_obeyed(path, log):
    append(path, b"\x1b]0;title\x07\x1b[2J[red]x[/red]\xff\xe2\x80\xae\r\n")
    assert log.news() == ["\\x1b]0;title\\x07\\x1b[2J[red]x[/red]\N{REPLACEMENT CHARACTER}\\u202e"]


def test_what_cannot_be_read_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError):
        LogFile(tmp_path).news()

"""What the commands print of what servers said: on a terminal escaped, into a pipe as it is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mcpx.cli.printing import duration, in_bytes, latency, percent, rate, saved, tokens

EVIL = "a\x1b[2J\x1b]0;owned\x07b\u202ec\u200bd\U000e0041e\x9bf\tg\nh"
SHOWN = "a\\x1b[2J\\x1b]0;owned\\x07b\\u202ec\\u200bd\\U000e0041e\\x9bf\tg\nh"
PRINTS = f"from mcpx.cli.printing import echo; echo({EVIL!r})"
FAILS = f"""
import sys
from mcpx.cli import main
from mcpx.errors import MCPXError
import mcpx.core.config.findings
def refuse(*_given, **_options):
    raise MCPXError({EVIL!r})
mcpx.core.config.findings.examine = refuse
main.cli(["check", "x.json"])
"""


def on_terminal(*command):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, *command], stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # how Linux says that the other side is closed
            pass
        running.wait(20)
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


def in_pipe(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, timeout=50, check=True).stdout


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(EVIL + "\n", encoding="utf-8")
    return path


def test_a_terminal_gets_escapes_and_a_pipe_the_text():
    assert on_terminal("-c", PRINTS) == SHOWN + "\n"
    assert in_pipe("-c", PRINTS).decode() == EVIL + "\n"


def test_half_a_character_can_be_printed_into_a_pipe():
    assert in_pipe("-c", "from mcpx.cli.printing import echo; echo('a\\ud800b')") == b"a\\ud800b\n"


def test_the_end_of_a_log_is_escaped_on_a_terminal_too(log):
    shows = (
        "from pathlib import Path; from mcpx.cli.operations.logs import show_end;"
        f" show_end(Path({str(log)!r}), lines=9, follow=False)"
    )
    assert on_terminal("-c", shows) == SHOWN + "\n"
    assert in_pipe("-c", shows) == log.read_bytes()


def test_a_letter_that_comes_in_two_pieces_is_one_letter():
    script = (
        "from mcpx.cli.printing import RawOutput; o = RawOutput();"
        " [o.write(bytes([byte])) for byte in 'é高'.encode()]"
    )
    assert on_terminal("-c", script) == "é高"


def test_an_error_that_ends_a_command_is_escaped(tmp_path):
    text = on_terminal("-c", FAILS)
    assert "a\\x1b[2J" in text
    assert "\\u202e" in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((None, "-"), (0, "0s"), (59.4, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h00")),
        *((86399, "23h59"), (864000, "10d")),
    ],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (950, "950"), (999, "999"), (1000, "1.0k"), (-1234, "-1.2k"), (86_063, "86k")),
        *((4_100_000, "4.1M"), (5 * 10**9, "5.0G")),
    ],
)
def test_tokens_are_short(number, text):
    assert tokens(number) == text


def test_other_numbers_are_short():
    rates = [rate(each) for each in (None, 0, 0.14, 1.25, 12.4, 123_456)]
    assert rates == ["-", "0", "0.1", "1.2", "12", "123k"]
    assert [latency(each) for each in (None, 0.25, 9.96, 85.4, 9999, 61_000)] == [
        *("-", "0.2", "10.0", "85", "9999", "61s"),
    ]
    assert [in_bytes(each) for each in (12, 2048, 53 << 20, 3 << 30)] == ["12", "2.0K", "53M", "3.0G"]
    assert [percent(each) for each in (None, 0, 0.004, 0.85, 4.0)] == ["-", "0%", "0.4%", "85%", "400%"]


def test_what_was_saved_may_be_negative():
    assert [saved(100, 7), saved(100, 117), saved(0, 5)] == ["93 %", "-17 %", "-"]

"""The log: on standard error only, at the level asked for, for people or for machines."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.mcpx.serving import environment

PROGRAM = """
import sys
from mcpx.core.telemetry.log import configure
import logging, structlog
assert "rich" not in sys.modules
configure({level})
log = structlog.get_logger()
for level in ("debug", "info", "warning", "error"):
    getattr(log, level)("part.said", said=level)
logging.getLogger("a.library").info("library info")
logging.getLogger("a.library").warning("library warning")
logging.getLogger("mcp.client.streamable_http").error("told elsewhere")
try:
    raise ValueError("inner")
except ValueError:
    log.exception("part.broke")
"""


def run(tmp_path, *, level: str | None = None, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=repr(level))],
        env=environment(tmp_path, **environ),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def test_one_json_object_a_line_for_machines(tmp_path):
    lines = [json.loads(line) for line in run(tmp_path).splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("part.said", "info"),
        ("part.said", "warning"),
        ("part.said", "error"),
        ("library warning", "warning"),
        ("part.broke", "error"),
    ]
    assert all("timestamp" in line for line in lines)
    assert "ValueError: inner" in lines[-1]["exception"]


def test_the_environment_and_the_caller_set_the_level(tmp_path):
    said = '"event": "part.said"'
    assert run(tmp_path, MCPX_LOG="debug").count(said) == 4
    assert run(tmp_path, MCPX_LOG="WARNING").count(said) == 2
    assert run(tmp_path, MCPX_LOG="nonsense").count(said) == 3
    assert run(tmp_path, MCPX_LOG="debug", level="error").count(said) == 1


def test_for_people_there_are_no_colours_where_there_is_no_terminal(tmp_path):
    told = run(tmp_path, MCPX_LOG_FORMAT="")
    assert "\x1b" not in told
    assert "part.said" in told
    assert "said=info" in told
    assert "ValueError: inner" in told


def test_for_people_a_traceback_is_plain(tmp_path):
    said = run(tmp_path)
    assert "Traceback (most recent call last)" in said
    assert "ValueError: inner" in said
    assert "locals" not in said
    assert "told elsewhere" not in said


REPEATING = """
import logging, structlog
from mcpx.core.telemetry.log import configure
configure()
library = logging.getLogger("a.library")
for number in range(1000):
    library.warning("again \\x1b[31m %s", number)
library.warning("something else")
for number in range(20):
    structlog.get_logger().warning("own.event", number=number, given="a\\x1b[31mb\\u202e")
try:
    raise ValueError("\\x1b[2J")
except ValueError:
    structlog.get_logger().exception("own.failure")
"""


def test_what_a_library_repeats_is_said_a_few_times_and_nothing_reaches_a_terminal_raw(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", REPEATING],
        env=environment(tmp_path, MCPX_LOG_FORMAT=""),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert 10 <= done.stderr.count("again") <= 20  # twice as many where a minute ends just then
    assert "something else" in done.stderr
    assert done.stderr.count("own.event") == 20
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert "\\x1b[2J" in done.stderr

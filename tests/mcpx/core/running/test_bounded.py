"""Programs that are run to their end: what they are sent, what they print, and the limits of both."""

from __future__ import annotations

import os

import pytest

from mcpx.core.running.bounded import Done, OutOfBounds, run

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/"}


def sh(code, **options):
    return run(["/bin/sh", "-c", code], ENVIRON, **{"timeout_s": 10.0, **options})


def test_a_program_gets_its_input_and_gives_its_output_and_exit_code():
    assert sh("cat; exit 3", sent=b"x" * 300_000) == Done(b"x" * 300_000, 3)


def test_one_that_reads_nothing_of_its_input_is_done_all_the_same():
    assert sh("echo yes", sent=b"x" * 300_000) == Done(b"yes\n", 0)


def test_without_input_there_is_none_to_wait_for():
    assert sh("cat; echo end") == Done(b"end\n", 0)


@pytest.mark.parametrize(("with_errors", "line"), [(False, ""), (True, "why")])
def test_standard_error_is_read_where_it_is_asked_for(with_errors, line):
    assert sh("echo why >&2; echo ' ' >&2; exit 1", with_errors=with_errors).last_line == line


def test_it_runs_in_the_home_folder(tmp_path):
    assert run(["pwd", "-P"], {**ENVIRON, "HOME": str(tmp_path)}, timeout_s=10.0).last_line == str(tmp_path)


@pytest.mark.parametrize(
    ("code", "limits", "text"),
    [
        ("sleep 60", {"timeout_s": 0.05}, r"did not answer within 0\.05 s"),
        ("yes", {"max_bytes": 1000}, "prints too much"),
    ],
)
def test_one_that_is_out_of_bounds_is_ended(tmp_path, code, limits, text):
    with pytest.raises(OutOfBounds, match=text):
        sh(f"echo $$ >{tmp_path}/pid; {code}", **limits)
    if (tmp_path / "pid").exists():  # it got so far
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)

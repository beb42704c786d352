"""A forked program finds what one that was started finds, and ends in the same way."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.forking.client import FORKING, Python, command, run

FOUND = """
import gc, json, os, signal, sys, threading
print(json.dumps({
    "name": __name__, "argv": sys.argv, "path": sys.path[0] or os.getcwd(), "folder": os.getcwd(),
    "environ": {**os.environ, "LC_CTYPE": ""}, "input": sys.stdin.read(),
    "shown": open("/proc/self/cmdline").read().rstrip("\\0") if os.path.exists("/proc") else "",
    "streams": [[each.encoding, each.errors, each.fileno()] for each in (sys.stdin, sys.stdout, sys.stderr)],
    "signals": [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
    "threads": threading.active_count(), "leads": os.getsid(0) == os.getpid(), "parent": bool(os.getppid()),
    "open": [fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}")],
}))
print("to the other stream", file=sys.stderr)
"""
ENDS = {
    "a code": "import sys; sys.exit(7)",
    "a word": "import sys; sys.exit('no')",
    "none": "import sys; sys.exit()",
    "an end": "print('done')",
    "hooks": "import atexit; atexit.register(print, 'bye')",
    "a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "an interrupt": "import os, signal; os.kill(os.getpid(), signal.SIGINT); input()",
}
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "GIVEN": "yes"}
pytestmark = pytest.mark.skipif(not FORKING, reason="programs are started for real here")


@pytest.mark.parametrize("new_session", [False, True])
@pytest.mark.parametrize("how", ["script", "-c"])
def test_it_finds_the_same(tmp_path, how, new_session):
    script = tmp_path / "script.py"
    script.write_text(FOUND)
    start = [str(script)] if how == "script" else ["-c", FOUND]
    forked, started = (
        run(
            [sys.executable, *start, "one", "--two"],
            real=real,
            cwd=tmp_path,
            env=ENVIRON,
            input="hello",
            text=True,
            capture_output=True,
            start_new_session=new_session,
        )
        for real in (False, True)
    )
    assert forked.stdout == started.stdout
    assert forked.stderr == started.stderr == "to the other stream\n"


@pytest.mark.parametrize("how", ENDS)
def test_it_ends_in_the_same_way(how):
    code, options = ENDS[how], {"stdin": subprocess.PIPE, "capture_output": True, "text": True}
    forked, started = (run([sys.executable, "-c", code], real=real, **options) for real in (False, True))
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    assert ("KeyboardInterrupt" in forked.stderr) == ("KeyboardInterrupt" in started.stderr)
    behind = subprocess.run(command("-c", code), check=False, **options)
    assert (behind.returncode, behind.stdout) == (started.returncode, started.stdout)


def test_a_program_that_fails_shows_where_and_a_module_that_is_missing_is_named():
    failed = run([sys.executable, "-c", "1 / 0"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    missing = run([sys.executable, "-m", "mcpx.nothing"], capture_output=True, text=True)
    assert (missing.returncode, missing.stderr) == (1, f"{sys.executable}: No module named mcpx.nothing\n")


def test_what_was_started_and_what_was_forked_for_it_end_together():
    """As a server whose process MCPX kills: its pipes close."""
    with subprocess.Popen(
        command("-c", "import time; print(1, flush=True); time.sleep(600)"), stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"1\n"
        started.kill()
        assert started.stdout.read() == b""
        assert started.wait() == -signal.SIGKILL


def test_other_variables_for_python_itself_are_a_start_for_real():
    code = "import sys; print(sys.flags.no_user_site)"
    environ = {**ENVIRON, "PYTHONNOUSERSITE": "1"}
    with Python([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0] == "1\n"

"""Processes with a mark: found wherever they are, and the browser of a person left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcpx.core.system import linux, marked, ps
from mcpx.core.system.environment import CHILD_MARK
from mcpx.core.system.marked import Family, look

MARK = uuid.uuid4().hex
in_proc = pytest.mark.linux("about the reading of /proc")


@pytest.fixture
def start(tmp_path):
    """Starts a process under a name, in a session of its own, which waits; all are ended afterwards."""
    with ExitStack() as stack:

        def run(name, *words, mark=MARK):
            program = tmp_path / name
            if not program.exists():
                program.write_text(
                    f"#!{sys.executable} -SE\nprint('up', flush=True)\nimport time\ntime.sleep(600)\n"
                )
                program.chmod(0o755)
            environ = os.environ | ({CHILD_MARK: mark} if mark else {})
            process = subprocess.Popen(
                [program, *words], env=environ, start_new_session=True, stdout=subprocess.PIPE
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            return process

        yield run


def test_one_look_finds_the_mark_of_each_and_no_other_variable(start):
    process, other = start("tool"), start("tool", mark=None)
    found = look()
    assert found[process.pid] == MARK
    assert found.get(other.pid) != MARK


@in_proc
def test_what_carries_no_mark_is_not_read_again_and_what_carries_one_is(start, monkeypatch):
    process, other = start("tool"), start("tool", mark=None)
    read = []
    environ_of = marked._environ_of

    def noted(pid, buffer):
        read.append(pid)
        return environ_of(pid, buffer)

    monkeypatch.setattr(marked, "_environ_of", noted)
    monkeypatch.setattr(marked, "SETTLED_S", 0.0)
    marked._known.clear()
    looks = []
    for _ in range(2):
        read.clear()
        assert look()[process.pid] == MARK
        looks.append(set(read))
    ids = {str(process.pid), str(other.pid)}
    assert ids <= looks[0]
    assert looks[1] & ids == {str(process.pid)}
    read.clear()
    assert look(exact=False)[process.pid] == MARK
    assert not ids & set(read)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid not in Family([MARK]).living(look(exact=False))  # a zombie has none any more
    assert process.pid not in look()


@in_proc
def test_a_process_of_the_same_number_is_read_anew(start, monkeypatch):
    monkeypatch.setattr(marked, "SETTLED_S", 0.0)
    process = start("tool")
    marked._known.clear()
    marked._known[str(process.pid), 1] = 0.0, None  # another one, that had that number before
    assert look()[process.pid] == MARK


@in_proc
def test_what_becomes_marked_while_it_is_started_is_found(start, tmp_path):
    """One that is looked at before it has replaced itself by the server."""
    go = tmp_path / "go"
    os.mkfifo(go)
    environ = {CHILD_MARK: MARK}
    code = f"import os; open({str(go)!r}).read(); os.execve('/bin/sleep', ['sleep', '60'], {environ})"
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", code])
    try:
        assert process.pid not in look()
        go.write_text("x")
        deadline = time.monotonic() + 10
        while process.pid not in look() and time.monotonic() < deadline:
            marked._known.clear()  # as if it were looked at within the time until that is believed
        assert look()[process.pid] == MARK
    finally:
        process.kill()
        process.wait()


def test_an_end_leaves_nothing_with_the_mark_and_touches_nothing_else(start):
    processes, other = [start("tool"), start("tool")], start("tool", mark=MARK[:-1])
    assert Family([MARK]).end(1.0) == {each.pid for each in processes}
    assert [each.wait(5) for each in processes] == [-15, -15]
    assert other.poll() is None


@pytest.mark.parametrize(
    ("words", "stays"),
    [
        (["firefox", "https://idp.example/authorize?x"], True),
        (["xdg-open", "http://127.0.0.1:3334/callback"], True),
        (["firefox"], False),
        (["firefox", "--marionette", "https://a.example"], False),
        (["chrome", "--headless=new", "https://a.example"], False),
        (["chromium", "--user-data-dir=/tmp/x", "--remote-debugging-pipe", "https://a.example"], False),
        (["mcp-remote", "https://a.example"], False),
    ],
)
def test_a_browser_that_was_opened_for_the_person_stays_and_a_driven_one_does_not(start, words, stays):
    browser = start(*words)
    Family([MARK]).end(0.5)
    if stays:
        assert browser.poll() is None
    else:
        browser.wait(50)


def test_a_server_is_ended_whatever_its_command_line_is_like(start):
    server = start("firefox", "https://a.example")
    assert Family([MARK], leaders=[server.pid]).end(0.5) == {server.pid}


def test_without_proc_the_marks_are_those_that_ps_shows(tmp_path, monkeypatch):
    program = tmp_path / "ps"
    program.write_text(
        "#!/bin/sh\n[ \"$*\" = '-A -E -ww -o pid=,command=' ] || exit 1\n"
        f"printf '  12 /bin/a -x HOME=/h {CHILD_MARK}={MARK} B=c\\n 13 b X{CHILD_MARK}={MARK}\\n14 c\\n'\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(ps, "PROGRAM", str(program))
    monkeypatch.setattr(ps, "WITH_ENVIRONMENT", ("-A", "-E", "-ww"))  # as Apple's takes it
    monkeypatch.setattr(linux, "PROC", Path("/nowhere"))
    assert look() == {12: MARK}

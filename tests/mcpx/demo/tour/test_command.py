"""`mcpx demo` as a person or a program runs it: a process of its own, whose servers must not outlive it.

Its servers inherit nothing of the environment but a few variables, HOME among them: a home folder of the
test's own is the mark by which every process of one run is found, whatever its group.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests import tokens
from tests.forking.client import CONSOLE_SCRIPT, Python, run

TIMEOUT_S = 45
SECTIONS = (
    "1. Three servers, one gateway",
    "2. The catalogue: what a model knows before its first question",
    "3. inspect(tools, list_orders): one tool, whole",
    "4. exec(tools, list_orders, {}): a call, and its answer in fewer tokens",
    "5. resources(knowledge, .../hypertension.txt): a document",
    "6. A list that changes while it runs",
    "7. A server is killed, and the next call succeeds",
    "8. The tokens of this session",
    "9. The same with 70 servers",
)
SCENES = ["start", "catalogue", "inspect", "exec", "resource", "change", "recovery"]
PROC = Path("/proc/self/environ").exists()
needs_proc = pytest.mark.skipif(not PROC, reason="finds processes in /proc")


@pytest.fixture
def home(tmp_path):
    """An empty home folder, which is also the working folder: far from the checkout."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def environment(home, **more):
    """Nothing but PATH and HOME, and what the test adds."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), **more}


NOT_KILLED = {"MCPX_TESTS_FORK_ALL": "1"}
"""Of a demo that does not come so far as to kill its server: that one is forked off, too."""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What one whole run tells programs; it left no process and said nothing else."""
    home = tmp_path_factory.mktemp("home")
    done = demo(home, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert not PROC or processes_of(home) == []
    return json.loads(done.stdout)


def demo(home, *arguments, command=(CONSOLE_SCRIPT,), **more):
    return run(
        [*command, "demo", *arguments],
        cwd=home,
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
    )


@contextmanager
def demo_at_work(home, **more):
    """The running command, its output as a pipe; killed with all its servers if the test leaves it behind."""
    with Python(
        [CONSOLE_SCRIPT, "demo"],
        cwd=home,
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            for pid in processes_of(home):
                os.kill(pid, signal.SIGKILL)
            process.kill()


def read_until(process, heading):
    for line in process.stdout:
        if line.startswith(heading):
            return
    pytest.fail(f"the output ended before {heading!r}: {process.stderr.read()}")


def processes_of(home):
    """The processes that run with this home folder."""
    mark = b"HOME=" + os.fsencode(home)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # it has ended, or is somebody else's
                continue
            if mark in variables:
                found.append(int(entry.name))
    return found


@needs_proc
def test_it_shows_every_section_as_plain_text_and_leaves_no_process(home):
    done = demo(home)
    out = done.stdout.decode()
    assert done.returncode == 0, out + done.stderr.decode()
    assert done.stderr == b""
    assert [line for line in out.splitlines() if re.match(r"\d\. ", line)] == list(SECTIONS)
    assert "\x1b" not in out
    assert "\r" not in out
    assert [line for line in out.splitlines() if cell_len(line) > 80 or line != line.rstrip()] == []
    assert "All 4 server processes have ended." in out
    assert processes_of(home) == []
    assert list(home.iterdir()) == []


def test_what_it_tells_programs_is_true(told):
    scenes = {scene["name"]: scene for scene in told["scenes"]}
    facts = {name: scene["facts"] for name, scene in scenes.items()}
    assert (told["ok"], told["failed"], told["signal"], told["left"]) == (True, None, None, [])
    assert list(scenes) == SCENES
    assert [(s["name"], s["state"]) for s in facts["start"]["servers"]] == [
        ("tools", "ready"),
        ("knowledge", "ready"),
        ("changing", "ready"),
    ]
    assert "list_orders(status?: " in scenes["catalogue"]["excerpts"][0]["text"]
    assert facts["catalogue"]["tools"] == 13
    assert len(facts["exec"]["structured_content"]["orders"]) == 12
    assert facts["resource"]["resource"]["size"] == len(facts["resource"]["text"].encode())
    assert facts["resource"]["resource"]["description"].startswith('begins: "高血压')
    assert facts["change"]["answer"] == "Hello from greet_the_reader"
    assert told["processes"] == 4


def test_the_recovery_is_a_kill_noticed_and_a_new_process_that_answers(told):
    facts = {scene["name"]: scene["facts"] for scene in told["scenes"]}["recovery"]
    failed, ready = facts["log"]
    assert facts["killed"] != facts["new"]
    assert 0 <= facts["noticed_ms"] <= facts["answered_ms"] < 10_000
    assert failed.startswith("upstream.failed server='tools'")
    assert "SIGKILL" in failed
    assert f"pid={facts['new']}" in ready
    assert facts["order"]["id"] == 1003


def test_the_savings_it_claims_are_what_a_tokenizer_finds(told):
    """Estimates may be off, but what is claimed may not be more than 5 points above the truth."""
    claims = [scene["tokens"] for scene in told["scenes"] if scene["tokens"]]
    texts = [claim[f"{side}_text"] for claim in claims for side in ("before", "after")]
    assert len(claims) == 3
    for counts in tokens.count(texts).values():
        for claim, before, after in zip(claims, counts[::2], counts[1::2], strict=True):
            claimed = 100 * (claim["before"] - claim["after"]) / claim["before"]
            assert 0 < claimed < 100 * (before - after) / before + 5
            assert claim["before"] == pytest.approx(before, rel=0.1)
            assert claim["after"] == pytest.approx(after, rel=0.15)


def test_a_terminal_gets_colours_and_question_marks_for_letters_that_it_lacks_whatever_the_folder(home):
    """Modules in the current folder lead nobody astray. All of it is started for real; half of it will do."""
    for name in ("mcp", "mcpx", "click", "json"):
        (home / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    ours, theirs = pty.openpty()
    terminal = environment(home, TERM="xterm", PYTHONIOENCODING="ascii")
    with Python([CONSOLE_SCRIPT, "demo"], cwd=home, env=terminal, stdin=theirs, stdout=theirs) as process:
        os.close(theirs)
        out = read_terminal(ours, deadline=time.monotonic() + TIMEOUT_S, until=b"?" * 10)
        process.send_signal(signal.SIGINT)
        out += read_terminal(ours, deadline=time.monotonic() + TIMEOUT_S)
        assert process.wait(timeout=10) == 128 + signal.SIGINT, out
    os.close(ours)
    assert b"\x1b[1;36m5. resources(" in out
    assert b"?" * 10 in out


def read_terminal(fd, deadline, until=None):
    out = b""
    while (until is None or until not in out) and select.select(
        [fd], [], [], max(0.0, deadline - time.monotonic())
    )[0]:
        try:
            chunk = os.read(fd, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not chunk:
            break
        out += chunk
    return out


@needs_proc
@pytest.mark.parametrize(
    ("number", "heading"),
    [
        pytest.param(signal.SIGINT, SECTIONS[0], id="SIGINT early"),
        pytest.param(signal.SIGHUP, SECTIONS[0], id="SIGHUP early"),
        pytest.param(signal.SIGTERM, SECTIONS[5], id="SIGTERM before the kill"),
    ],
)
def test_a_signal_in_the_middle_ends_it_in_order_and_leaves_nothing(home, number, heading):
    with demo_at_work(home, **NOT_KILLED) as process:
        read_until(process, heading)
        if heading == SECTIONS[0]:
            assert len(processes_of(home)) >= 3  # itself and its servers, one of which may be restarting
        process.send_signal(number)
        out, err = process.communicate(timeout=50)
        assert process.returncode == 128 + number
        assert out.rstrip().endswith(f"Ended by {number.name}.")
        assert err == ""
        assert processes_of(home) == []


@needs_proc
def test_a_second_signal_ends_it_at_once_with_servers_that_cannot_leave(home):
    with demo_at_work(home) as process:
        read_until(process, "1. ")
        servers = [pid for pid in processes_of(home) if pid != process.pid and not is_shell(pid)]
        assert len(servers) == 3
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=50)
        assert process.returncode in {128 + signal.SIGINT, 128 + signal.SIGTERM}  # whichever came second
        assert "Ended by" not in out
        wait_until_gone(home)


def is_shell(pid):
    """Return True for the one that would sweep up after a daemon that is killed."""
    return Path(f"/proc/{pid}/comm").read_text().strip() in {"sh", "dash"}


def wait_until_gone(home):
    """Killed processes take the kernel a moment; there is nobody left to ask."""
    deadline = time.monotonic() + 5
    while left := processes_of(home):
        assert time.monotonic() < deadline, f"still running: {left}"
        select.select([], [], [], 0.01)


@needs_proc
def test_a_reader_that_leaves_ends_it_and_its_servers(home):
    with demo_at_work(home, **NOT_KILLED) as process:
        read_until(process, "1. ")
        process.stdout.close()
        assert process.wait(timeout=50) == 1
        assert process.stderr.read() == ""
        assert processes_of(home) == []


def spoilt(statement):
    """The command, after a statement that breaks something."""
    code = f"{statement}; from mcpx.__main__ import main; main()"
    return (sys.executable, "-c", code)


@needs_proc
def test_a_server_that_does_not_start_is_named_with_its_cause(home):
    broken = spoilt("from mcpx.demo.tour import steps; steps.SERVERS = ('tools', 'knowledge', 'absent')")
    done = demo(home, command=broken, **NOT_KILLED)
    out = " ".join(done.stdout.decode().split())
    assert done.returncode == 1
    assert "FAILED: start: the server absent is not ready" in out
    assert "No module named mcpx.demo.absent" in out
    assert "saved" not in out
    assert processes_of(home) == []


@needs_proc
def test_a_step_that_fails_ends_it_with_what_was_said(home):
    done = demo(home, "--json", command=spoilt("from mcpx.demo.tour import steps; steps.ORDER = 7"))
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["ok"] is False
    assert told["failed"]["scene"] == "recovery"
    assert "There is no order 7" in told["failed"]["error"]
    assert "SIGKILL" in told["failed"]["log"][-1]
    assert [scene["name"] for scene in told["scenes"]] == SCENES[:-1]
    assert processes_of(home) == []

"""The ledger against real processes: what was left behind is ended, and nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from mcpx.ledger import Entry, Ledger, _File, boot_id, start_time

STUBBORN = (
    "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True);"
    "time.sleep(600)"
)
WITH_GRANDCHILD = (
    "import signal,subprocess,sys; subprocess.Popen([sys.executable,'-c','import time; time.sleep(600)']);"
    "print('up', flush=True); signal.pause()"
)


@pytest.fixture
def spawn():
    """Start a process in a group of its own; all are ended afterwards."""
    started = []

    def run(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        process.stdout.close()


def left_behind(folder, pid, started):
    """The file of a MCPX that is gone, naming one child."""
    folder = folder / "children"
    folder.mkdir(exist_ok=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    owner = Entry(gone.pid, start_time(gone.pid) or "1")
    gone.wait(10)
    file = _File(boot_id(), owner, {"server": Entry(pid, started)})
    path = folder / f"{gone.pid}-1.json"
    path.write_bytes(msgspec.json.encode(file))
    return path


def test_a_child_left_behind_is_ended_even_if_it_ignores_term(tmp_path, spawn):
    child = spawn(STUBBORN)
    path = left_behind(tmp_path, child.pid, start_time(child.pid))
    assert Ledger(tmp_path).sweep() == [child.pid]
    assert child.wait(10) == -signal.SIGKILL
    assert not path.exists()
    assert Ledger(tmp_path).sweep() == []


def test_a_process_that_merely_has_the_number_is_not_touched(tmp_path, spawn):
    innocent = spawn(STUBBORN)
    path = left_behind(tmp_path, innocent.pid, "12345")
    assert Ledger(tmp_path).sweep() == []
    assert innocent.poll() is None
    assert not path.exists()


def test_the_group_of_a_dead_leader_is_ended(tmp_path, spawn):
    leader = spawn(WITH_GRANDCHILD)
    started = start_time(leader.pid)
    left_behind(tmp_path, leader.pid, started)
    leader.kill()  # only now: a dead one has no start time
    leader.wait(10)
    os.killpg(leader.pid, 0)  # the grandchild keeps the group alive
    assert Ledger(tmp_path).sweep() == [leader.pid]


def test_the_children_of_a_living_mcpx_are_not_touched(tmp_path, spawn):
    child = spawn(STUBBORN)
    ledger = Ledger(tmp_path)
    ledger.add("server", child.pid)
    assert Ledger(tmp_path).sweep() == []
    assert child.poll() is None
    ledger.remove("server")
    assert list((tmp_path / "children").iterdir()) == []


def test_another_boot_and_rubbish_end_nothing(tmp_path, spawn):
    child = spawn(STUBBORN)
    folder = tmp_path / "children"
    folder.mkdir()
    (folder / "1.json").write_text("rubbish")
    entry = Entry(child.pid, start_time(child.pid))
    (folder / "2.json").write_bytes(msgspec.json.encode(_File("another boot", Entry(1, "0"), {"s": entry})))
    assert Ledger(tmp_path).sweep() == []
    assert child.poll() is None
    assert not (folder / "2.json").exists()


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    ledger = Ledger(tmp_path / "file")
    ledger.add("server", os.getpid())
    ledger.remove("server")

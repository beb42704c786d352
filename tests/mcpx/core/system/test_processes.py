"""What processes use: of real ones, that work, sleep, share and end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from mcpx.core.system import processes as module
from mcpx.core.system import ps
from mcpx.core.system.processes import ProcessFigures, group_memory

BUSY = "import os; print('here', flush=True)\nwhile True: pass"
IDLE = "import sys; print('here', flush=True); sys.stdin.read()"
FATHER = (
    "import subprocess, sys; kept = bytearray(1 << 24); kept[::4096] = b'x' * len(kept[::4096])\n"
    f"subprocess.Popen([sys.executable, '-S', '-c', {IDLE!r}]).wait()"
)


@contextmanager
def started(program):
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert child.stdout.readline() == b"here\n"
        yield child
    finally:
        os.killpg(child.pid, 9)
        child.communicate()


def spend(seconds):
    """Let others have the processor for so long."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(left)


def test_one_that_works_and_one_that_waits():
    figures = ProcessFigures()
    with started(BUSY) as busy, started(IDLE) as idle:
        groups = [busy.pid, idle.pid]
        first = figures.look(groups)
        assert {use.cpu for use in first.values()} == {None}
        spend(0.3)
        then = figures.look(groups)
        assert then[busy.pid].cpu > 0.1
        assert then[idle.pid].cpu < 0.05
        assert then[idle.pid].memory > 1 << 20


def test_a_group_is_all_that_a_server_has_started():
    with started(FATHER) as father, started(IDLE) as alone:
        memory = group_memory([father.pid, alone.pid])
        assert memory[father.pid] > memory[alone.pid] + (1 << 24)


def test_what_has_ended_is_left_out_and_what_came_since_counts_from_its_start():
    figures = ProcessFigures()
    with started(IDLE) as idle:
        assert set(figures.look([idle.pid, 2**22 + 1])) == {idle.pid}
    with started(BUSY) as busy:
        spend(0.2)
        assert figures.look([idle.pid, busy.pid])[busy.pid].cpu > 0.05
        assert idle.pid not in figures.look([idle.pid])
    assert figures.look([]) == {}


@pytest.mark.skipif(not module.has_proc(), reason="there is no /proc")
def test_shared_pages_are_looked_at_again_only_where_the_memory_has_changed(monkeypatch):
    looked_at = []
    proportional = module._proportional
    monkeypatch.setattr(module, "_proportional", lambda pid: looked_at.append(pid) or proportional(pid))
    figures = ProcessFigures()
    with started(IDLE) as idle:
        first, second = figures.look([idle.pid]), figures.look([idle.pid])
        assert looked_at == [idle.pid]
        assert first[idle.pid].memory == second[idle.pid].memory


def test_without_proc_ps_says_it(monkeypatch):
    monkeypatch.setattr(module, "has_proc", lambda: False)
    monkeypatch.setattr(ps, "PROGRAM", "ps")
    with started(IDLE) as idle:
        figures = ProcessFigures()
        assert figures.look([idle.pid])[idle.pid].memory > 1 << 20
        assert figures.look([idle.pid])[idle.pid].cpu is not None
    monkeypatch.setattr(ps, "PROGRAM", "/does/not/exist")
    assert ProcessFigures().look([os.getpgid(0)]) == {}


@pytest.mark.parametrize(
    ("used", "seconds"), [("0:00.25", 0.25), ("01:02:03", 3723.0), ("2-00:00:01", 172801.0), ("12:34", 754.0)]
)
def test_the_time_that_ps_gives(used, seconds):
    assert ps.seconds(used) == seconds


def test_the_memory_of_this_process():
    memory, _ = ProcessFigures().look_at_self()
    assert (memory or 0) > 1 << 20

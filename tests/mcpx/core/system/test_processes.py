"""What processes use: of real ones, that work, sleep, share and end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpx.core.system import linux, ps
from mcpx.core.system import processes as module
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


def until(look, holds):
    """Look again and again, and let others have the processor in between; `ps` may count whole seconds."""
    deadline = time.monotonic() + 60
    while not holds(seen := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert holds(seen)
    return seen


def test_one_that_works_and_one_that_waits():
    figures = ProcessFigures()
    with started(BUSY) as busy, started(IDLE) as idle:
        groups = [busy.pid, idle.pid]
        first = figures.look(groups)
        assert {use.cpu for use in first.values()} == {None}
        then = until(lambda: figures.look(groups), lambda use: use[busy.pid].cpu > 0.1)
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
        until(lambda: figures.look([idle.pid, busy.pid]), lambda use: use[busy.pid].cpu > 0.05)
        assert idle.pid not in figures.look([idle.pid])
    assert figures.look([]) == {}


@pytest.mark.linux("shared pages are counted by /proc")
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
    monkeypatch.setattr(linux, "PROC", Path("/nowhere"))
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

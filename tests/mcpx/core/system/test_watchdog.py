"""The watchdog of the event loop, in processes of their own whose loops stand in each way."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, re, sys, time
from mcpx.core.telemetry.log import configure
from mcpx.core.system.watchdog import Patience, watching

def blocks(): time.sleep(60)
def computes():
    while True: pass
def holds_everything(): re.fullmatch("(a+)+$", "a" * 60 + "!")
def is_short():
    for _ in range(3): time.sleep(0.1)

async def main():
    with watching(Patience(0.5, 1.5, 0.1), lambda why: print(why, file=sys.stderr, flush=True)):
        await asyncio.sleep(0.2)
        globals()[sys.argv[1]]()
        await asyncio.sleep(0.2)

configure()
asyncio.run(main())
"""


def run(how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.parametrize("how", ["blocks", "computes"])
def test_a_loop_that_stands_is_told_with_its_stack_and_ends(how):
    done = run(how)
    assert f"in {how}" in done.stderr
    if how == "computes" and done.returncode < 0:  # on a loaded machine the timers may come before the thread
        return
    assert done.returncode == 1
    assert "loop.stands" in done.stderr
    assert "its event loop has stood for" in done.stderr


def test_so_does_one_that_lets_no_other_thread_run():
    done = run("holds_everything")
    assert done.returncode < 0, "ended by a signal"
    assert "in holds_everything" in done.stderr


def test_one_that_comes_round_again_is_left_alone():
    done = run("is_short")
    assert (done.returncode, done.stderr) == (0, "")

"""Kill a change, its undo and its recovery at each of their steps, in the folder that is the argument."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from mcpx.setup import changes
from mcpx.setup.changes import State
from tests.mcpx.setup.changes.killing import kill_at, kill_everywhere
from tests.mcpx.setup.changes.scenes import four_files, snapshot

FOLDER = Path(sys.argv[1])
HOME, STATE = FOLDER / "home", FOLDER / "state"
MINE = ("linked.json", "going.toml", "same.json", "dotfiles/real.json", "new/deeper/new.yaml")


def fresh() -> None:
    for folder in (HOME, STATE):
        shutil.rmtree(folder, ignore_errors=True)
    four_files(HOME)


def changed() -> None:
    fresh()
    install()


def install() -> None:
    changes.carry_out("install", four_files(HOME), state=STATE)


def undo() -> None:
    changes.undo_last(state=STATE)


def recover() -> None:
    changes.recover(STATE)


def check_each_file(*whole: dict[str, tuple[int, object]]) -> None:
    """Every file is one of those that it may be, whole, also before anything is mended."""
    found = snapshot(HOME)
    for name in MINE:
        assert found.get(name) in [each.get(name) for each in whole], (name, found.get(name))


fresh()
OLD = snapshot(HOME)
changed()
NEW = snapshot(HOME)


def check_change(ended: bool) -> None:
    check_each_file(OLD, NEW)
    recover()
    found = snapshot(HOME)
    done = changes.history(STATE)[-1:]
    is_new = bool(done) and done[0].state is State.DONE
    assert found == (NEW if is_new else OLD), set(found) ^ set(OLD)
    assert ended <= is_new
    assert changes.unfinished(STATE) == []
    assert not list((STATE / "changes").glob(".new-*"))
    undo()
    assert snapshot(HOME) == OLD


def check_undo(ended: bool) -> None:
    check_each_file(OLD, NEW)
    recover()
    found = snapshot(HOME)
    assert found in (OLD, NEW)
    assert not ended or found == OLD
    undo()
    assert snapshot(HOME) == OLD
    assert changes.undo_last(state=STATE) is None


STEPS = {
    "change": kill_everywhere(fresh, install, check_change),
    "undo": kill_everywhere(changed, undo, check_undo),
}


def half() -> None:
    """A change that was killed when its files had been changed, and the journal did not say so yet."""
    fresh()
    step = STEPS["change"]
    while not changes.unfinished(STATE):
        fresh()
        step -= 1
        kill_at(step, install)
    assert snapshot(HOME) == NEW


def check_recovery(_ended: bool) -> None:
    check_each_file(OLD, NEW)
    recover()
    assert snapshot(HOME) == OLD
    assert changes.unfinished(STATE) == []


STEPS["recover"] = kill_everywhere(half, recover, check_recovery)
print(json.dumps(STEPS))

"""Locks: every wait for one has an end, and one on a removed file is none."""

import os
from pathlib import Path

import pytest

from mcpx.core.system.locks import locked, try_lock


@pytest.mark.parametrize("name", ["lock", ""])
def test_a_lock_on_a_file_or_a_folder_ends_a_wait(tmp_path: Path, name: str) -> None:
    with locked(tmp_path / name, timeout_s=0), pytest.raises(BlockingIOError, match="another process"):
        locked(tmp_path / name, timeout_s=0).__enter__()
    with locked(tmp_path / name, timeout_s=0):
        pass


def test_a_lock_that_is_taken_or_on_a_removed_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = try_lock(path)
    assert lock is not None
    assert try_lock(path) is None
    path.unlink()
    os.close(lock)
    again = try_lock(path)
    assert again is not None
    os.close(again)

"""The id of an MCPX: one for a folder, whoever makes it, and whatever stood there before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcpx.cluster.federation.own_directory import FILE, own_id

RACERS = 10
ATTEMPTS = 5
RACE = """
import os, sys
from pathlib import Path
from mcpx.cluster.federation.own_directory import own_id

for folder in sys.argv[2:]:
    gate, opened = os.pipe()
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0:
            os.close(opened)
            os.read(gate, 1)  # until the gate opens for all
            os.write(1, f"{folder} {own_id(Path(folder))}\\n".encode())
            os._exit(0)
    os.close(opened)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
"""


@pytest.mark.parametrize("before", [None, "", "no id\n"])
def test_of_many_that_make_it_at_once_all_have_the_same(tmp_path, before):
    folders = [tmp_path / str(attempt) for attempt in range(ATTEMPTS)]
    for folder in folders:
        folder.mkdir()
        if before is not None:
            (folder / FILE).write_text(before)
    command = [sys.executable, "-c", RACE, str(RACERS), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    for folder in folders:
        ids = [each for path, each in map(str.split, done.stdout.splitlines()) if path == str(folder)]
        assert len(ids) == RACERS
        assert set(ids) == {own_id(folder)}
        assert [each.name for each in folder.iterdir()] == [FILE]

"""The id of an MCPX: one for a folder, whoever makes it, and whatever stood there before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcpx.cluster.federation.own_directory import FILE, own_id

RACERS = 10
RACE = """
import os, sys
from pathlib import Path
from mcpx.cluster.federation.own_directory import own_id

gate, opened = os.pipe()
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.close(opened)
        os.read(gate, 1)  # until the gate opens for all
        os.write(1, own_id(Path(sys.argv[1])).encode() + b"\\n")
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
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        if before is not None:
            (folder / FILE).write_text(before)
        command = [sys.executable, "-c", RACE, folder, str(RACERS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
        ids = done.stdout.split()
        assert len(ids) == RACERS
        assert set(ids) == {own_id(folder)}
        assert [each.name for each in folder.iterdir()] == [FILE]

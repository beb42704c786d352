"""The daemon's own log is begun anew when it has become too large, under the same descriptors."""

from __future__ import annotations

import subprocess
import sys

import pytest

WRITE = """
import anyio, os, sys
from pathlib import Path
from mcpx.core.telemetry.log_files import LogRotation, rotate
from supervisors import ChildSpec, Supervisor

path = Path(sys.argv[1])

async def main():
    supervisor = Supervisor()
    supervisor.add(ChildSpec(name="log", run=LogRotation(path, 50, every=0.01).run))
    async with anyio.create_task_group() as tasks:
        await tasks.start(supervisor.run)
        os.write(2, b"x" * 100)
        with anyio.fail_after(50):
            while path.stat().st_size:
                await anyio.sleep(0.01)
        supervisor.stop()

anyio.run(main)
os.write(2, b"error")
os.write(1, b"output")
assert not rotate(path, 50)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "daemon.log"


def test_a_log_that_is_too_large_is_begun_anew_and_kept_once(path):
    for _ in range(2):  # the second time one was kept already
        with path.open("ab") as log:
            command = [sys.executable, "-c", WRITE, str(path)]
            assert subprocess.run(command, stdout=log, stderr=log, check=False, timeout=50).returncode == 0
        assert path.read_bytes() == b"erroroutput"
        assert path.with_suffix(".log.1").read_bytes().endswith(b"x" * 100)
        assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_not_our_log_is_left_alone(path):
    path.write_bytes(b"x" * 100)
    code = "import sys; from pathlib import Path; from mcpx.core.telemetry.log_files import rotate\n"
    code += "sys.exit(rotate(Path(sys.argv[1]), 50) or rotate(Path(sys.argv[1] + '.none'), 50))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=50)
    assert done.returncode == 0
    assert path.stat().st_size == 100

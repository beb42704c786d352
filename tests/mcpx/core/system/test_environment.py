"""Commands that MCPX starts by itself."""

from __future__ import annotations

import subprocess

import mcpx
from mcpx.core.system.environment import python_running


def test_a_python_of_ours_finds_this_very_package_where_it_is_not_installed(tmp_path):
    program, *rest = python_running("import mcpx; print(mcpx.__file__, *sys.argv[2:])", "x")
    command = [program, "-S", "-E", *rest]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.split() == [mcpx.__file__, "x"], done.stderr

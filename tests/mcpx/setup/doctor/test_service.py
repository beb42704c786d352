"""What a unit runs is read from the files that `mcpx daemon install` writes, of either system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpx.core.daemon.service import install, service
from mcpx.setup.doctor.service import command_of

ODD = 'my "own" 100% $HOME \\ config.json'


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_command_of_a_unit_is_read_as_it_was_meant(home, platform):
    environ = {"HOME": str(home.folder), "PATH": "/nowhere"}
    config = home.folder / ODD
    install(config, platform=platform, environ=environ)
    file = service(platform, environ).file
    words = command_of(file, file.read_text())
    assert words == [sys.executable, "-P", "-m", "mcpx", "daemon", "run", "--config", str(config)]


@pytest.mark.parametrize("name", ["mcpx.service", "mcpx.core.daemon.plist"])
def test_a_unit_without_a_command_has_none(name):
    assert command_of(Path(name), "nothing") == []

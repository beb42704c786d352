"""A daemon is asked about itself from another environment than its own; and environments without a home."""

from __future__ import annotations

import errno
import json
import os
import re

import pytest

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.paths import acquire_lock, daemon_paths, lock_owner
from mcpx.errors import DaemonError
from mcpx.paths import config_file
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli

pytestmark = pytest.mark.timeout(120)


def test_the_log_is_where_the_daemon_writes_it_whoever_asks(house):
    house.write({"s": entry()})
    state = {"MCPX_STATE_DIR": "", "XDG_RUNTIME_DIR": str(ensure_folder(house.folder / "run"))}
    its, others = (
        {**state, "XDG_STATE_HOME": str(house.folder / "its")},
        {**state, "XDG_STATE_HOME": "/nowhere"},
    )

    def run(*command: str, **more: str) -> str:
        done = run_cli(house.folder, *command, **{"MCPX_LOG_FORMAT": "", **more})
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        run("daemon", "start", "--config", house.config, **its)
        told = run("daemon", "status", "--config", house.config, **others)
        (log,) = re.findall("^log (.*)$", told, re.MULTILINE)
        assert log.startswith(str(house.folder / "its"))
        assert [row["log"] for row in json.loads(run("daemon", "list", "--json", **others))] == [log]
        said = run("daemon", "logs", "--config", house.config, **others)
        assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d .*socket.listening", said, re.MULTILINE)
    finally:
        run("daemon", "stop", "--config", house.config, **its)


def test_without_a_home_folder_what_cannot_be_found_is_said(house, monkeypatch):
    for name in ("HOME", "MCPX_STATE_DIR", "MCPX_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user that no database knows
    with pytest.raises(DaemonError, match="no home folder: set HOME"):
        daemon_paths(house.config)
    with pytest.raises(FileNotFoundError, match="no home folder: set HOME"):
        config_file()
    assert str(config_file(house.config)) == house.config


def test_a_lock_that_cannot_be_written_is_given_back(house: House, monkeypatch):
    house.write({})

    def full(*_given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DaemonError, match="No space left on device; make room"):
        acquire_lock(house.place)
    monkeypatch.undo()
    monkeypatch.setenv("MCPX_STATE_DIR", str(house.folder / "state"))
    assert lock_owner(house.place.lock) is None
    os.close(acquire_lock(house.place))

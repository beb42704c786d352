"""Servers added, switched off and removed while a daemon serves their configuration."""

from __future__ import annotations

import json
import sys

import pytest

from tests.mcpx.scripted import SERVER, entry
from tests.mcpx.serving import run_cli

pytestmark = pytest.mark.timeout(120)


def test_the_daemon_takes_each_change_in(house):
    house.write({"s": entry()})
    assert house.run("daemon", "start").returncode == 0

    def listed():
        done = house.run("list", "--json")
        return {each["name"]: each["state"] for each in json.loads(done.stdout)["servers"]}

    def change(*arguments):
        done = run_cli(house.folder, arguments[0], "--config", house.config, "--yes", *arguments[1:])
        assert done.returncode == 0, done
        assert "the daemon uses it now" in done.stdout
        return done.stdout

    said = change("add", "n", "--", sys.executable, "-S", "-E", str(SERVER), "{}")
    assert "n works: " in said
    assert listed() == {"s": "ready", "n": "ready"}
    change("disable", "n")
    assert listed() == {"s": "ready", "n": "disabled"}
    assert "n works: " in change("enable", "n")
    change("remove", "s")
    assert listed() == {"n": "ready"}
    change("undo")
    assert listed()["s"] in {"starting", "ready", "asleep"}

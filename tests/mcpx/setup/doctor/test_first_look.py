"""The whole way with real processes: installed into a client, then examined, with no daemon that runs yet."""

from __future__ import annotations

import json

import pytest

from mcpx.core.store.folders import ensure_folder
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli

pytestmark = pytest.mark.timeout(120)


def test_after_an_installation_all_is_well_and_nothing_stays_running(home):
    home.write({"s": entry()})
    home.cursor.unlink()
    ensure_folder(home.folder / ".claude")
    environ = {"HOME": str(home.folder), "SHELL": "/bin/false"}
    done = run_cli(home.folder, "install", "cursor", "claude-code", "--yes", **environ)
    assert done.returncode == 0, done.stderr
    done = run_cli(home.folder, "doctor", "--json", **environ)
    page = json.loads(done.stdout)
    assert (done.returncode, page["wrong"], page["notes"]) == (0, 0, 0), done.stdout
    found = {each["subject"]: each for each in page["findings"]}
    assert found["s"]["details"]["tools"] == 13
    assert found["cursor"]["details"]["tools"] == 4
    claude = found["claude-code"]["details"]
    assert 100 < claude["longest_description"] <= claude["description_limit"] == 2048
    assert "none runs" in found["daemon"]["text"]
    assert run_cli(home.folder, "daemon", "status", **environ).stdout.startswith("no daemon serves")

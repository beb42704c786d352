"""A sound home for each test, and an environment that is of it alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcpx.setup.doctor.homes import Home


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="mcpx-") as folder:  # short: the path of a socket has its limit
        for name in ("MCPX_CONFIG", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("SHELL", "/bin/false")  # nobody's login shell is asked
        monkeypatch.setenv("MCPX_STATE_DIR", f"{folder}/state")
        made = Home(Path(folder))
        made.furnish()
        yield made

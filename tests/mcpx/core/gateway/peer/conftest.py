"""A state folder for each of these tests, which read ids and logs in it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))

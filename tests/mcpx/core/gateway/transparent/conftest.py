"""What these tests share: a state folder for each, as they read its audit log, and the house of the shim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcpx.core.daemon.conftest import house

__all__ = ["house"]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))

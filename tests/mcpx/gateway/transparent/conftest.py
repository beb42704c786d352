"""The tests of transparent doors read the audit log, so each has a state folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))

"""A home with the files of ten clients, for the commands that change them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mcpx.cli.setup.ten_clients import make_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    make_home(made)
    return made

"""A folder, a state folder and a configuration for one daemon, which is ended whatever the test did."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import Ears


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    # a short name: the tests' own raw clients connect by the socket's path, which holds a hundred bytes
    with tempfile.TemporaryDirectory(prefix="mcpx-") as folder:
        monkeypatch.setenv("MCPX_STATE_DIR", f"{folder}/state")
        made = House(Path(folder))
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def ears(house: House) -> Iterator[Ears]:
    with Ears(house.folder / "ears") as made:
        yield made

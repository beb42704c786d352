"""A folder, a state folder and a configuration for one daemon, which is ended whatever the test did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import Ears


@pytest.fixture
def house() -> Iterator[House]:
    with House.opened() as made:
        yield made


@pytest.fixture
def ears(house: House) -> Iterator[Ears]:
    with Ears(house.folder / "ears") as made:
        yield made

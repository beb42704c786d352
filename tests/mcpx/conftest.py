"""What the tests of the product share: the back end that it runs on, and ears for scripted servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcpx.scripted import Ears


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[Ears]:
    with Ears(tmp_path / "ears") as made:
        yield made

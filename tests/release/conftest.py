"""The wheel and the source distribution, built once for all files of this folder, which one worker runs."""

from __future__ import annotations

import pytest

from tests.release.artefacts import Artefacts, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Artefacts:
    return build(tmp_path_factory.mktemp("built"))

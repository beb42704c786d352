"""An authorization server, for every way to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer, scripted_issuer


@pytest.fixture
def issuer() -> Iterator[ScriptedIssuer]:
    with scripted_issuer() as made:
        yield made

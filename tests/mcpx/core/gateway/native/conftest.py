"""Ears for the servers of these tests, and both eras on either side."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["handshake", "both"], ids=["old-server", "new-server"])
def era(request) -> str:
    """What the server speaks; MCPX takes 2026-07-28 where it can."""
    return request.param


@pytest.fixture(params=["handshake", "modern"], ids=["old-client", "new-client"])
def mode(request) -> str:
    """What the client speaks."""
    return request.param

"""The socket is tested with the folder and configuration of the daemon's tests."""

from __future__ import annotations

from tests.mcpx.core.daemon.conftest import house

__all__ = ["house"]

"""The shim is tested with the folder and configuration of the daemon's tests."""

from __future__ import annotations

from tests.mcpx.daemon.conftest import house

__all__ = ["house"]

"""Rows of the hostile table: hostile HTTP servers and hostile HTTP clients."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

"""Rows of the hostile table: secrets that servers echo."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

"""Rows of the hostile table: what servers list."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

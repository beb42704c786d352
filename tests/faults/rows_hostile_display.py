"""Rows of the hostile table: what servers write and people or models read."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

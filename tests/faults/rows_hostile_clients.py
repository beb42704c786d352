"""Rows of the hostile table: clients that do not read, flood, or stay silent."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

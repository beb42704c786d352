"""Rows of the hostile table: processes: the ledger, foreign code, restarts, the watched loop."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

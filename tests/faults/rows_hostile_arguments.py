"""Rows of the hostile table: arguments, schemas and what the router is given."""

from __future__ import annotations

from tests.faults.hostile import HostileFaults

faults = HostileFaults()

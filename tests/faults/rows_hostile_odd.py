"""Rows of the hostile table: oddities of clients, lists, schemas, answers and whole servers."""

from __future__ import annotations

from tests.faults import (
    rows_odd_answers,
    rows_odd_clients,
    rows_odd_floods,
    rows_odd_lists,
    rows_odd_schemas,
    rows_odd_servers,
)
from tests.faults.hostile import HostileFaults

faults = HostileFaults(
    {
        **rows_odd_schemas.faults,
        **rows_odd_servers.faults,
        **rows_odd_answers.faults,
        **rows_odd_lists.faults,
        **rows_odd_clients.faults,
        **rows_odd_floods.faults,
    }
)

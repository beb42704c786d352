"""Rows of the hostile table: the reproductions of the two reviews, played as they were found."""

from __future__ import annotations

from tests.faults import (
    rows_reviews_clients,
    rows_reviews_fidelity,
    rows_reviews_memory,
    rows_reviews_odd,
    rows_reviews_router,
)
from tests.faults.hostile import HostileFaults

faults = HostileFaults(
    {
        **rows_reviews_router.faults,
        **rows_reviews_memory.faults,
        **rows_reviews_clients.faults,
        **rows_reviews_odd.faults,
        **rows_reviews_fidelity.faults,
    }
)

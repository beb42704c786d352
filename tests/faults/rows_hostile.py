"""All rows of the table "hostile and odd"."""

from __future__ import annotations

from typing import Final

from tests.faults import (
    rows_hostile_arguments,
    rows_hostile_clients,
    rows_hostile_desk,
    rows_hostile_display,
    rows_hostile_floods,
    rows_hostile_http,
    rows_hostile_listings,
    rows_hostile_odd,
    rows_hostile_process,
    rows_hostile_secrets,
    rows_misleading,
    rows_out_of_spec,
    rows_too_large,
    rows_uncheckable,
    rows_unread,
)
from tests.faults.hostile import Row

HOSTILE_ROWS: Final[dict[str, Row]] = {
    **rows_uncheckable.faults,
    **rows_too_large.faults,
    **rows_unread.faults,
    **rows_misleading.faults,
    **rows_out_of_spec.faults,
    **rows_hostile_arguments.faults,
    **rows_hostile_listings.faults,
    **rows_hostile_http.faults,
    **rows_hostile_floods.faults,
    **rows_hostile_clients.faults,
    **rows_hostile_process.faults,
    **rows_hostile_secrets.faults,
    **rows_hostile_display.faults,
    **rows_hostile_odd.faults,
    **rows_hostile_desk.faults,
}

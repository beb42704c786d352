"""All faults that MCPX must survive."""

from __future__ import annotations

from typing import Final

from tests.faults import (
    rows_asleep,
    rows_http,
    rows_lives,
    rows_remembered,
    rows_says,
    rows_sign_ins,
    rows_suspended,
    rows_whole,
)
from tests.faults.table import Play

ROWS: Final[dict[str, Play]] = {
    **rows_lives.faults,
    **rows_remembered.faults,
    **rows_asleep.faults,
    **rows_says.faults,
    **rows_http.faults,
    **rows_suspended.faults,
    **rows_whole.faults,
    **rows_sign_ins.faults,
}

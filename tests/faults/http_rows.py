"""All faults of a server that is reached over HTTP; a row takes a few seconds at most."""

from __future__ import annotations

from typing import Final

from tests.faults import http_rows_answers, http_rows_status, http_rows_streams
from tests.faults.table import Play

faults: Final[dict[str, Play]] = {
    **http_rows_status.faults,
    **http_rows_answers.faults,
    **http_rows_streams.faults,
}

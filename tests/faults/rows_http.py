"""All faults of a server that is reached over HTTP; a row takes a few seconds at most."""

from __future__ import annotations

from typing import Final

from tests.faults import rows_http_answers, rows_http_status, rows_http_streams, rows_silence
from tests.faults.table import Play

faults: Final[dict[str, Play]] = {
    **rows_http_status.faults,
    **rows_http_answers.faults,
    **rows_http_streams.faults,
    **rows_silence.faults,
}

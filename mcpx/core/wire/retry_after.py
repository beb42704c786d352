"""The time that an HTTP server asks to wait before the next request (RFC 9110 10.2.3). Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

MAX_RETRY_AFTER_LEN: Final = 64  # characters; a date has 29


def retry_after(response: httpx2.Response) -> float | None:
    """Return the time the server asks to wait, in seconds; RFC 9110 allows a number or a date."""
    value = response.headers.get("retry-after", "").strip()
    if len(value) > MAX_RETRY_AFTER_LEN:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max(0.0, round((at - datetime.now(UTC)).total_seconds(), 1))
    except (ValueError, OverflowError):
        return None

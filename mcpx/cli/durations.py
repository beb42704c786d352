"""Spans of time as they are given on the command line: 90s, 30m, 12h, 30d or 4w."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

LONGEST: Final = timedelta(days=700_000)  # from now, and before now, there are dates
_DURATION: Final = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration_of(text: str) -> timedelta | None:
    """The span of time that a text says; None where it says none, or more than `LONGEST`."""
    if (found := _DURATION.fullmatch(text)) is None:
        return None
    duration = timedelta(**{_UNITS[found[2]]: int(found[1])})
    return duration if duration <= LONGEST else None

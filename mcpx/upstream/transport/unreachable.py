"""Why a server over HTTP cannot be reached, in words for people. Pure."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from mcpx.errors import leaves

_MAX_CAUSES: Final = 10  # of an error, one behind the other


def unreachable(url: str, error: BaseException) -> str:
    """Say that a connection to that URL failed, and why."""
    return f"the server cannot be reached: {shown_url(url)}: {_reason(error)}"


def shown_url(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _reason(error: BaseException) -> str:
    """Why a connection failed: what the system said of the last attempt, which the error may not repeat."""
    found: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if found is None:
            break
        leaf = next(leaves(found))
        if isinstance(leaf, OSError) and isinstance(leaf.errno, int) and leaf.errno > 0:
            return os.strerror(leaf.errno)
        found = leaf.__cause__ or leaf.__context__
    return str(error) or type(error).__name__

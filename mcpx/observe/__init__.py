"""What MCPX tells the people who run it: logs and counters.

structlog is first imported here (the commands configure the log before anything else). It imports rich where
it finds it, for tracebacks that MCPX does not use; that is a tenth of the start-up time and 3 MB of an idle
daemon, so it is not let find it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without(package: str) -> Iterator[None]:
    """Importing `package` fails meanwhile, unless it has been imported already."""
    hidden = package not in sys.modules
    if hidden:
        sys.modules[package] = None  # type: ignore[assignment]  # what the import system takes for "there is none"
    try:
        yield
    finally:
        if hidden:
            del sys.modules[package]


with _without("rich"):
    import structlog  # noqa: F401 - for its being there, without rich

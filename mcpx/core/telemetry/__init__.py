"""Logs and counters, for the people who run MCPX.

structlog is first imported here, because the commands configure the log before anything else. structlog
imports rich where it finds it, at its own import (`structlog.dev`, `structlog.tracebacks`), for tracebacks
that MCPX does not use: a tenth of the start-up time, and 3 MB of an idle daemon. No option keeps it from
that, so rich is hidden for the length of this one import.
"""

from __future__ import annotations

import sys

if "rich" in sys.modules:
    import structlog
else:
    sys.modules["rich"] = None  # type: ignore[assignment]  # which the import system takes for "there is none"
    try:
        import structlog  # noqa: F401 - for its being there, without rich
    finally:
        del sys.modules["rich"]

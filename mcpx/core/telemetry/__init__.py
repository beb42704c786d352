"""Logs and counters, for the people who run MCPX.

structlog is first imported here, because the commands configure the log before anything else. structlog
imports rich where it finds it, at its own import (`structlog.dev`, `structlog.tracebacks`), for tracebacks
that MCPX does not use: a tenth of the start-up time, and 3 MB of an idle daemon; and greenlet, for what it
calls deprecated itself: a megabyte. No option keeps it from that, so they are hidden for the length of this
one import.
"""

from __future__ import annotations

import sys

_hidden = [name for name in ("rich", "greenlet") if name not in sys.modules]
for name in _hidden:
    sys.modules[name] = None  # type: ignore[assignment]  # which the import system takes for "there is none"
try:
    import structlog  # noqa: F401 - for its being there, without them
finally:
    for name in _hidden:
        del sys.modules[name]

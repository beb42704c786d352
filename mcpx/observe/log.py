"""The log: structlog on standard error, a dotted event and fields a line.

`configure` is called once by the command line. Colours only on a terminal; `MCPX_LOG` sets the level
(debug, info, warning, error) and `MCPX_LOG_FORMAT=json` one JSON object a line, for machines. Records of
libraries that use `logging` pass through the same door, from warnings on. A log that cannot be written (its
disk is full, its reader is gone) costs what it says, and nothing else. `hide` keeps secrets out of every
line, whoever wrote it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

import structlog

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
TOLD_ELSEWHERE: Final = ("mcp.client.streamable_http", "mcp.client.sse")
"""Loggers that tell, with a traceback for each, of what the upstream and its caller are told in a line."""


def configure(level: str | None = None) -> None:
    """Send MCPX's log, and other libraries' warnings, to standard error. `level` wins over `MCPX_LOG`."""
    chosen = LEVELS.get((level or os.environ.get("MCPX_LOG") or "info").lower(), logging.INFO)
    as_json = os.environ.get("MCPX_LOG_FORMAT", "").lower() == "json"
    render: structlog.typing.Processor = structlog.processors.JSONRenderer() if as_json else _console()
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
        structlog.processors.format_exc_info if as_json else _as_it_is,
    ]
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(chosen),
        logger_factory=structlog.WriteLoggerFactory(_Forgiving(sys.stderr)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(_Forgiving(sys.stderr))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    for name in TOLD_ELSEWHERE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(chosen, logging.WARNING))


_redact: Callable[[str], str] = str


def hide(redact: Callable[[str], str]) -> None:
    """From now on, pass every line of the log through `redact`, which takes secrets out of it."""
    global _redact  # noqa: PLW0603 - a process has one log
    _redact = redact


class _Forgiving:
    """A text stream whose failures are nobody's business: the log must not stop what it tells of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(_redact(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def _console() -> structlog.dev.ConsoleRenderer:
    """For people. Tracebacks are plain: a pretty one takes half a second, in which nothing else happens."""
    return structlog.dev.ConsoleRenderer(colors=_colours(), exception_formatter=structlog.dev.plain_traceback)


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _as_it_is(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return event

"""The log: structlog on standard error, a dotted event and fields a line.

`configure` is called once by the command line. Colours only on a terminal; `MCPX_LOG` sets the level
(debug, info, warning, error) and `MCPX_LOG_FORMAT=json` one JSON object a line, for machines. Records of
libraries that use `logging` pass through the same door, from warnings on, the same one ten times a minute.
Control characters are shown, and reach no terminal. A log that cannot be written (its
disk is full, its reader is gone) costs what it says, and nothing else. `hide` keeps secrets out of every
line, whoever wrote it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from typing import Final, TextIO

import structlog

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_OBEYED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
SAID: Final = 10  # times a minute that another library may say the same
TOLD_ELSEWHERE: Final = ("mcp.client.streamable_http", "mcp.client.sse")
"""Loggers that tell, with a traceback for each, of what the upstream and its caller are told in a line."""


def configure(level: str | None = None) -> None:
    """Send MCPX's log, and other libraries' warnings, to standard error. `level` wins over `MCPX_LOG`."""
    chosen = LEVELS.get((level or os.environ.get("MCPX_LOG") or "info").lower(), logging.INFO)
    as_json = os.environ.get("MCPX_LOG_FORMAT", "").lower() == "json"
    render: structlog.typing.Processor = structlog.processors.JSONRenderer() if as_json else _console()
    shared: list[structlog.typing.Processor] = [
        _clean,
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
    handler.addFilter(_Repeats())
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


class _Repeats(logging.Filter):
    """Lets a library say the same thing `SAID` times a minute: some say it for each request of a stranger."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._said: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created) // 60
        if minute != self._minute:
            self._minute = minute
            self._said.clear()
        self._said[record.pathname, record.lineno] += 1
        return self._said[record.pathname, record.lineno] <= SAID


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
    return structlog.dev.ConsoleRenderer(colors=_colours(), exception_formatter=_traceback)


def _traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """As structlog's plain one; the text of an exception may be anybody's."""
    plain = StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    stream.write(escaped(plain.getvalue()))


def escaped(text: str) -> str:
    """Text without what a terminal would obey: control characters but line ends and tabs, and bidi marks."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def _clean(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """What is logged may be what a stranger sent: a header, a line, a name."""
    for key, value in event.items():
        if isinstance(value, str) and _OBEYED.search(value):
            event[key] = escaped(value)
    return event


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _as_it_is(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return event

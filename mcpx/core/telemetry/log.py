"""The log: structlog on standard error, a dotted event and fields a line.

`configure` is called once by the command line. Colours only on a terminal; `MCPX_LOG` sets the level
(debug, info, warning, error) and `MCPX_LOG_FORMAT=json` one JSON object a line, for machines. Records of
libraries that use `logging` are written in the same way, from warnings on, each at most ten times a minute.
Control characters are escaped. A log that cannot be written (its disk is full, its reader is gone) is lost,
and nothing else. `hide` keeps secrets out of every line, and
`carry` adds the ids of the trace that it belongs to.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from typing import Final, TextIO
from weakref import WeakKeyDictionary

import structlog

from mcpx.core.text import escaped, is_clean

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
REPEAT_AFTER_S: Final = 60.0
MAX_REPEATS: Final = 10  # times a minute that another library may log the same
REPORTED_ELSEWHERE: Final = ("mcp.client.streamable_http", "mcp.client.sse")
"""Loggers that write a traceback for each error that MCPX itself reports in a line."""


def configure(level: str | None = None) -> None:
    """Send MCPX's log, and other libraries' warnings, to standard error. `level` wins over `MCPX_LOG`."""
    chosen = LEVELS.get((level or os.environ.get("MCPX_LOG") or "info").lower(), logging.INFO)
    as_json = os.environ.get("MCPX_LOG_FORMAT", "").lower() == "json"
    render: structlog.typing.Processor = structlog.processors.JSONRenderer() if as_json else _console()
    shared: list[structlog.typing.Processor] = [
        _with_trace,
        _clean,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt=_stamp(as_json=as_json), utc=as_json),
        structlog.processors.format_exc_info if as_json else _unchanged,
    ]
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(chosen),
        logger_factory=structlog.WriteLoggerFactory(_IgnoringErrors(sys.stderr)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(_IgnoringErrors(sys.stderr))
    handler.addFilter(_Repeats())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    for name in REPORTED_ELSEWHERE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(chosen, logging.WARNING))


def _stamp(*, as_json: bool) -> str:
    """The form of the time: a terminal, at which somebody sits, needs no date."""
    if as_json:
        return "iso"
    return "%H:%M:%S" if sys.stderr.isatty() else "%Y-%m-%d %H:%M:%S"


_redactors: Final[WeakKeyDictionary[object, Callable[[str], str]]] = WeakKeyDictionary()


def hide(owner: object, redact: Callable[[str], str]) -> None:
    """From now on, pass every line of the log through `redact`, which takes the secrets of `owner` out of it.

    A process has one log, whatever number of hubs. What an owner has hidden ends with the owner.
    """
    _redactors[owner] = redact


def redacted(text: str) -> str:
    """A text as the log has it, without secrets: for other records that leave the process."""
    for redact in list(_redactors.values()):
        text = redact(text)
    return text


_trace_ids: Callable[[], dict[str, str]] = dict


def carry(trace_ids: Callable[[], dict[str, str]]) -> None:
    """From now on, give every line the ids that `trace_ids` says, of the trace that it belongs to, if any."""
    global _trace_ids  # noqa: PLW0603 - as above
    _trace_ids = trace_ids


class Throttle:
    """Lets one message through, and then none for `seconds`: for what would be logged a thousand times."""

    def __init__(self, seconds: float = REPEAT_AFTER_S) -> None:
        self._seconds = seconds
        self._next = 0.0

    def lets_through(self) -> bool:
        """Return True if it is time to log it (again); if so, it counts as logged."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


class _Repeats(logging.Filter):
    """Lets a library log the same thing `MAX_REPEATS` times a minute: some do at every request."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._counts: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created) // 60
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        self._counts[record.pathname, record.lineno] += 1
        return self._counts[record.pathname, record.lineno] <= MAX_REPEATS


class _IgnoringErrors:
    """A text stream whose failures are ignored: a log must not stop what it reports."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(redacted(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def _console() -> structlog.dev.ConsoleRenderer:
    """For people. Tracebacks are plain: a pretty one takes half a second, in which nothing else happens."""
    return structlog.dev.ConsoleRenderer(colors=_colours(), exception_formatter=_traceback)


def _traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Structlog's plain traceback, escaped: the text of an exception may come from outside."""
    plain = StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    stream.write(escaped(plain.getvalue()))


def _with_trace(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the ids of the trace, unless the event has them already."""
    return {**_trace_ids(), **event}


def _clean(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape what harms a terminal: a value may be what a stranger sent, a header or a name."""
    for key, value in event.items():
        if isinstance(value, str) and not is_clean(value):
            event[key] = escaped(value)
    return event


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _unchanged(
    _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return event

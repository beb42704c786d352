"""The columns of the table of `mcpx top`: what is in each, which fit, and by what rows are sorted. Pure.

Each column has a rank: where the window is narrow, those of the highest rank are left out first, so that the
name and the state are always there. Widths are in cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mcpx.cli.operations.status_table import remarks, shown_state
from mcpx.cli.printing import count, duration, in_bytes, latency, percent, rate, tokens
from mcpx.core.system.processes import Use
from mcpx.core.text import one_line
from mcpx.top.history import Row, bars

NAME_CELLS: Final = {0: 8, 60: 14, 90: 28}
"""The most that a name gets in a window from so many cells on. A longer one is whole below the table."""
MAX_REMARK_CHARACTERS: Final = 300
_ORDER: Final = (
    "parked",
    "invalid",
    "needs setup",
    "needs sign-in",
    "waiting",
    "starting",
    "disabled",
    "stopped",
    "ready",
    "asleep",
)
"""The states, those that want somebody first."""
_FAULTS: Final = frozenset(_ORDER[: _ORDER.index("starting")])

Uses = Mapping[int, Use]
"""What process groups use, by their id, which is the pid of the server."""


class Column(NamedTuple):
    """One column: its header, its width, when it is left out, and the cell of a row."""

    header: str
    width: int
    rank: int
    cell: Callable[[Row, Uses], Text]
    is_left: bool = False
    """Whether its cells begin at the left."""


class Fitted(NamedTuple):
    """The columns that fit a window, each with its width."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]

    @property
    def headers(self) -> list[Text]:
        """The headers, as wide as their columns."""
        return [
            _aligned(Text(column.header), column, width)
            for column, width in zip(self.columns, self.widths, strict=True)
        ]

    def cells(self, row: Row, uses: Uses) -> list[Text]:
        """The cells of a row, as wide as their columns."""
        return [
            _aligned(_curve(row, width) if column is CURVE else column.cell(row, uses), column, width)
            for column, width in zip(self.columns, self.widths, strict=True)
        ]

    def shows(self, column: Column) -> bool:
        """Return True if that column is among them."""
        return column in self.columns


def fitted(width: int, names: Iterable[str]) -> Fitted:
    """The columns for a window of that width, and for servers of these names.

    Names come first, then the columns by their rank. What is left over widens the last errors, else the
    curves.
    """
    longest = max((cell_len(one_line(name, MAX_REMARK_CHARACTERS)) for name in names), default=0)
    most = max(cells for least, cells in NAME_CELLS.items() if least <= max(0, width))
    name = max(NAME_CELLS[0], min(most, longest))
    left, columns = width - name, {NAME}
    for column in sorted(COLUMNS, key=lambda each: each.rank):
        if left - column.width - 1 < 0:
            break
        left -= column.width + 1
        columns.add(column)
    last = REMARK if REMARK in columns else CURVE
    own = {NAME: name, last: last.width + max(0, left)}
    chosen = tuple(column for column in (NAME, *COLUMNS) if column in columns)
    return Fitted(chosen, tuple(own.get(column, column.width) + (column is not NAME) for column in chosen))


def _aligned(text: Text, column: Column, width: int) -> Text:
    """A cell of exactly that width: a space, but in the first column, and the text, cut with an ellipsis."""
    lead = "" if column is NAME else " "
    text.truncate(width - len(lead), overflow="ellipsis")
    padding = " " * (width - len(lead) - text.cell_len)
    if column.is_left:
        return Text(lead).append_text(text).append(padding)
    return Text(lead + padding).append_text(text)


def _name(row: Row, _uses: Uses) -> Text:
    return Text(one_line(row.name, MAX_REMARK_CHARACTERS))


def _busy(row: Row, _uses: Uses) -> Text:
    server = row.server
    queued = f"+{count(server.queued)}" if server.queued else ""
    return Text(count(server.in_flight) + queued, style="yellow" if queued else "")


def _failed(row: Row, _uses: Uses) -> Text:
    return Text(count(row.server.failed), style="red" if row.server.failed else "")


def _refused(row: Row, _uses: Uses) -> Text:
    return Text(count(row.server.refused), style="yellow" if row.server.refused else "")


def _use(row: Row, uses: Uses) -> Use | None:
    known = row.server
    if known.pid is not None:
        return uses.get(known.pid)
    if not isinstance(known.memory_bytes, int):
        return None  # it is on no node either
    return Use(known.memory_bytes, known.cpu_share if isinstance(known.cpu_share, float) else None, 0.0)


def _memory(row: Row, uses: Uses) -> Text:
    use = _use(row, uses)
    return Text("-" if use is None else in_bytes(use.memory))


def _cpu(row: Row, uses: Uses) -> Text:
    use = _use(row, uses)
    return Text("-" if use is None else percent(use.cpu))


def _curve(row: Row, width: int) -> Text:
    return Text(bars(row.calls, width - 1), style="cyan")


def _remark(row: Row, _uses: Uses) -> Text:
    found = remarks(row.server)
    if not found:
        return Text()
    text, style = found[-1]
    return Text(one_line(text, MAX_REMARK_CHARACTERS), style=style)


def _text(of: Callable[[Row], str]) -> Callable[[Row, Uses], Text]:
    return lambda row, _uses: Text(of(row))


NAME: Final = Column("server", NAME_CELLS[0], 0, _name, is_left=True)
REMARK: Final = Column("last error", 20, 15, _remark, is_left=True)
MEMORY: Final = Column("mem", 4, 11, _memory)
CPU: Final = Column("cpu", 4, 13, _cpu)
CURVE: Final[Column] = Column("calls/s", 8, 14, lambda row, _uses: _curve(row, CURVE.width))
COLUMNS: Final = (
    Column("state", 14, 1, lambda row, _uses: shown_state(row.server), is_left=True),
    Column("up", 5, 5, _text(lambda row: duration(row.server.uptime_s))),
    Column("re", 3, 9, _text(lambda row: count(row.server.restarts))),
    Column("calls", 5, 6, _text(lambda row: count(row.server.calls))),
    Column("/s", 4, 2, _text(lambda row: rate(row.rate))),
    Column("p50", 4, 7, _text(lambda row: latency(row.server.latency_ms.p50))),
    Column("p95ms", 5, 8, _text(lambda row: latency(row.server.latency_ms.p95))),
    Column("busy", 5, 4, _busy),
    Column("fail", 4, 3, _failed),
    Column("ref", 4, 12, _refused),
    Column("saved", 5, 10, _text(lambda row: tokens(row.saved))),
    MEMORY,
    CPU,
    CURVE,
    REMARK,
)


def _rank_of_state(row: Row) -> int:
    return _ORDER.index(row.server.state) if row.server.state in _ORDER else -1


def _held(row: Row, uses: Uses) -> int:
    use = _use(row, uses)
    return 0 if use is None else use.memory


def _worked(row: Row, uses: Uses) -> float:
    use = _use(row, uses)
    return 0 if use is None else use.cpu or 0


SORTS: Final[Mapping[str, Callable[[Row, Uses], float | str]]] = {
    "configuration": lambda _row, _uses: 0,
    "name": lambda row, _uses: row.name.casefold(),
    "state": lambda row, _uses: _rank_of_state(row),
    "calls/s": lambda row, _uses: -(row.rate or 0),
    "calls": lambda row, _uses: -row.server.calls,
    "p95": lambda row, _uses: -(row.server.latency_ms.p95 or 0),
    "busy": lambda row, _uses: -(row.server.in_flight + row.server.queued),
    "failed": lambda row, _uses: -row.server.failed,
    "refused": lambda row, _uses: -row.server.refused,
    "restarts": lambda row, _uses: -row.server.restarts,
    "saved": lambda row, _uses: -row.saved,
    "memory": lambda row, uses: -_held(row, uses),
    "cpu": lambda row, uses: -_worked(row, uses),
    "faults": lambda row, _uses: row.server.state not in _FAULTS,
}
"""By what rows can be sorted; what wants attention, or is largest, comes first. The last one is for
many servers: those that want somebody, then the others, each as they are configured."""
MANY: Final = 15
"""Servers from which on those that want somebody stand first, unless another order is chosen."""


def chosen(rows: Iterable[Row], words: str, sort: str, uses: Uses) -> list[Row]:
    """The rows in which each of these words stands, in the name, the state or a remark, in that order."""
    wanted = words.casefold().split()
    found = [row for row in rows if all(word in _searched(row) for word in wanted)]
    return sorted(found, key=lambda row: SORTS[sort](row, uses))


def _searched(row: Row) -> str:
    said = " ".join(text for text, _ in remarks(row.server))
    return f"{row.name} {row.server.state} {row.server.transport} {said}".casefold()

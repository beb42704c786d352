"""The first screen of `mcpx top`: the daemon, the curves of all servers, a row for each, and the chosen one.

It reads everything from the app and owns only how the rows are looked at: the words of the filter, the order,
the columns that fit, the chosen row. A cell is drawn again where it has changed. Everything that comes from
servers is `Text`, never markup, and on one clean line.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from mcpx.cli.operations.status_table import daemon_line, problems, remarks
from mcpx.cli.printing import counted, rate, tokens
from mcpx.core.daemon.status import Status
from mcpx.core.text import one_line
from mcpx.top.columns import MANY, MEMORY, SORTS, Fitted, chosen, fitted
from mcpx.top.history import Row, bars
from mcpx.top.polling import Host

MAX_TEXT: Final = 500  # characters of one thing that is said
MAX_PROBLEMS: Final = 3  # lines of them in the header
CURVE_CELLS: Final = (8, 60)  # the least and the most of each curve in the header
FAR: Final = 1_000_000  # rows


class ServerTable(DataTable[Text]):
    """The rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Details", key_display="⏎"),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        Binding("g,home", f"move({-FAR})", show=False),
        Binding("G,end", f"move({FAR})", show=False),
    ]

    def action_move(self, step: int) -> None:
        """Choose another row."""
        self.move_cursor(row=max(0, min(self.row_count - 1, self.cursor_row + step)))


class ServersScreen(Screen[None]):
    """The screen with the table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "Log"),
        Binding("r", "restart", "Restart"),
        Binding("e", "switch", "On/off"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", show=False),
        Binding("c", "app.clients", "Clients"),
        Binding("question_mark", "app.explain", "Help", key_display="?"),
        Binding("escape", "unfilter", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[Row] = []
        self._columns = Fitted((), ())
        self._texts: dict[str, Text] = {}
        self._words = ""
        self._order: str | None = None  # none has been chosen

    def compose(self) -> ComposeResult:
        yield Static(id="daemon")
        yield Static(id="problems")
        yield Static(id="curves")
        yield ServerTable(id="servers", cursor_type="row", cell_padding=0)
        yield Static(id="rule")
        yield Static(id="chosen")
        yield Input(placeholder="words of a name, a state or an error; Enter keeps, Esc clears", id="filter")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Have the keys go to the rows."""
        self._table.focus()

    def on_resize(self, _event: events.Resize) -> None:
        """Choose the columns that fit."""
        self.call_after_refresh(self.show)

    @property
    def top(self) -> Host:
        """The app."""
        return cast("Host", self.app)

    # --- keys

    def action_log(self) -> None:
        """Show the log of the chosen server."""
        if (row := self._chosen()) is not None:
            self.top.show_log(row.name)

    def action_restart(self) -> None:
        """Restart the chosen server."""
        if (row := self._chosen()) is not None:
            self.top.restart(row.name)

    def action_switch(self) -> None:
        """Switch the chosen server off, or on again."""
        if (row := self._chosen()) is not None:
            self.top.switch(row.name)

    def action_filter(self) -> None:
        """Let words be typed."""
        words = self.query_one("#filter", Input)
        words.add_class("-open")
        words.focus()

    def action_unfilter(self) -> None:
        """Show all servers again."""
        words = self.query_one("#filter", Input)
        words.value = ""
        words.remove_class("-open")
        self._table.focus()

    @property
    def _sorted_by(self) -> str:
        many = len(self.top.overview.status.servers) >= MANY
        return self._order or ("faults" if many else "configuration")

    def action_sort(self, step: int) -> None:
        """Sort by the next thing, or by the one before."""
        names = list(SORTS)
        self._order = names[(names.index(self._sorted_by) + step) % len(names)]
        self.show()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter by what is typed, as it is typed."""
        self._words = event.value
        self.show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and go back to the rows."""
        event.input.set_class(bool(event.value), "-open")
        self._table.focus()

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        """Enter, or a click on the chosen row: show all of it."""
        if (row := self._chosen()) is not None:
            self.top.show_details(row.name)

    def on_data_table_row_highlighted(self, _event: DataTable.RowHighlighted) -> None:
        """Another row was chosen."""
        self._show_chosen()

    # --- drawing

    @property
    def _table(self) -> ServerTable:
        return self.query_one(ServerTable)

    def _chosen(self) -> Row | None:
        at = self._table.cursor_row
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def show(self) -> None:
        """Show what the app knows now."""
        if not self.is_mounted:
            return
        self._show_header()
        self._show_rows()
        self._show_chosen()

    def _show_header(self) -> None:
        status, problem = self.top.overview.status, self.top.answer.problem
        lines = problems(status.daemon)[:MAX_PROBLEMS]
        if problem is not None:
            lines = [Text(one_line(problem, MAX_TEXT), style="bold red")]
        for line in lines:
            line.no_wrap, line.overflow = problem is None, "ellipsis"
        self._put("#daemon", self._first_line(status))
        self._put("#problems", Text("\n").join(lines))
        self.query_one("#problems").display = bool(lines)
        self._put("#curves", self._curves())
        self._table.set_class(problem is not None, "-stale")

    def _first_line(self, status: Status) -> Text:
        line, clock = daemon_line(status), time.strftime("%H:%M:%S")
        line.truncate(max(0, self.size.width - len(clock) - 1), overflow="ellipsis")
        return line.append(clock.rjust(self.size.width - line.cell_len), style="not bold dim")

    def _curves(self) -> Text:
        """Calls, failures and saved tokens a second, each with its last minute if there is room."""
        overview = self.top.overview
        curves = (
            ("calls/s", overview.calls, rate, "green"),
            ("failed/s", overview.failures, rate, "red"),
            ("saved tokens/s", overview.saved, _whole_tokens, "cyan"),
        )
        words = [f"{title} {said(curve[-1]):>4} " for title, curve, said, _ in curves]
        least, most = CURVE_CELLS
        room = (self.size.width - sum(map(len, words)) - 2 * (len(words) - 1)) // len(words)
        cells = min(most, room) if room >= least else 0
        line = Text(no_wrap=True, overflow="ellipsis")
        for word, (_, curve, _, style) in zip(words, curves, strict=True):
            line.append("  " if line.plain else "").append(word, "dim").append(bars(curve, cells), style)
        return line

    def _show_rows(self) -> None:
        overview, uses, table = self.top.overview, self.top.answer.uses, self._table
        rows = chosen(overview.rows, self._words, self._sorted_by, uses)
        columns = fitted(table.size.width - 1, (row.name for row in overview.rows))  # beside its scrollbar
        self.top.want_uses(of_rows=columns.shows(MEMORY) or self._sorted_by in {"memory", "cpu"})
        before = self._chosen()
        if columns != self._columns:
            self._columns, self._shown = columns, []
            table.clear(columns=True)
            for header, width in zip(columns.headers, columns.widths, strict=True):
                table.add_column(header, width=width)
        cells_of = {row.name: columns.cells(row, uses) for row in rows}
        if list(cells_of) == [row.name for row in self._shown]:
            self._shown = rows
            for at, cells in enumerate(cells_of.values()):
                self._show_cells(at, cells)
            return
        self._shown, top = rows, table.scroll_y
        table.clear()
        table.add_rows(cells_of.values())
        if before is not None and before.name in cells_of:
            table.move_cursor(row=list(cells_of).index(before.name), scroll=False)
            table.scroll_to(y=top, animate=False)

    def _show_cells(self, row: int, cells: list[Text]) -> None:
        for column, cell in enumerate(cells):
            place = Coordinate(row, column)
            if not _same(self._table.get_cell_at(place), cell):
                self._table.update_cell_at(place, cell)

    def _put(self, where: str, text: Text) -> None:
        """Show a text there, if it is another one: the terminal may be far away."""
        if not _same(self._texts.get(where, Text()), text):
            self._texts[where] = text
            self.query_one(where, Static).update(text)

    def _show_chosen(self) -> None:
        """All that is to be said of the chosen server, below a rule that says what the table shows."""
        row, every = self._chosen(), self.top.overview.rows
        self._put("#rule", self._rule(row, len(every)))
        said = [] if row is None else remarks(row.server)
        lines = [Text(one_line(text, MAX_TEXT), style=style) for text, style in said]
        if not every:
            lines = [Text("no servers are configured: mcpx setup, or mcpx add NAME -- COMMAND", style="dim")]
        elif row is None:
            lines = [Text("no server matches the filter; Esc clears it", style="dim")]
        self._put("#chosen", Text("\n").join(lines))

    def _rule(self, row: Row | None, every: int) -> Text:
        """`─ NAME ───── 3 of 70 servers, by name ─`."""
        filtered = f"{len(self._shown)} of " if len(self._shown) != every else ""
        about = f" {filtered}{counted(every, 'server')}, by {self._sorted_by} ─"
        line = Text("─ ", style="dim", no_wrap=True)
        if row is not None:
            name = Text(one_line(row.name, MAX_TEXT), style="not dim bold")
            name.truncate(max(1, self.size.width - len(about) - len("─  ─")), overflow="ellipsis")
            line.append_text(name).append(" ")
        return line.append("─" * (self.size.width - line.cell_len - len(about))).append(about)


def _same(one: Text, other: Text) -> bool:
    """Return True if they look the same; texts are equal to rich when only their words are."""
    return (one.plain, one.style, one.spans) == (other.plain, other.style, other.spans)


def _whole_tokens(per_second: float | None) -> str:
    return "-" if per_second is None else tokens(round(per_second))

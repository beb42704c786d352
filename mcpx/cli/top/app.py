"""`mcpx top` on the terminal: the header with its curves, the table of servers, the line of the chosen one.

`Top` is the app and owns all state: the last overview, what is filtered and sorted, the answer of the last
second. Screens above it (`mcpx.cli.top.screens`) are given what to show, and ask it to act. Everything from
servers is `Text`, never markup, on one clean line.

Colours are the sixteen of the terminal, so that it looks right in dark and light; a state is always a word,
too. Ctrl-C ends with 130, SIGTERM and SIGHUP with 128 and their number, and the terminal is as it was.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from mcpx.cli.status_table import daemon_line, problems, remarks
from mcpx.cli.top.columns import MEMORY, SORTS, Fitted, chosen, fitted, rate, signed_tokens
from mcpx.cli.top.history import History, Overview, Row, bars
from mcpx.cli.top.polling import Answer, Polling
from mcpx.cli.top.screens import ClientsScreen, Confirm, DetailsScreen, HelpScreen, LogScreen
from mcpx.cli.top.style import STYLE
from mcpx.core.status import Status
from mcpx.text import one_line

MAX_TEXT: Final = 500  # characters of one thing that is said on the screen
MAX_PROBLEMS: Final = 3  # lines of them in the header
CURVE_CELLS: Final = (8, 40)  # the least and the most of each curve in the header
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Answered(Message):
    """The daemon was asked, and has answered or not."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Restarted(Message):
    """A server was to be restarted."""

    def __init__(self, said: str, *, is_good: bool) -> None:
        super().__init__()
        self.said = said
        self.is_good = is_good


class Top(App[None]):
    """The app. `first` is what the daemon has said already."""

    CSS = STYLE
    TITLE = "mcpx top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("enter", "details", "Details", key_display="⏎", show=True),
        Binding("l", "log", "Log"),
        Binding("r", "restart", "Restart"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort back", show=False),
        Binding("c", "clients", "Clients"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("escape", "unfilter", "No filter", show=False),
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("g", "move(-1000000)", "First", show=False),
        Binding("G", "move(1000000)", "Last", show=False),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True),
    ]

    def __init__(self, polling: Polling, first: Status) -> None:
        super().__init__(ansi_color=True)
        self._polling = polling
        self._history = History()
        self._answer = Answer(first, None, {}, time.monotonic())
        self.overview: Overview = self._history.take(first, self._answer.at)
        self._shown: list[Row] = []
        self._columns = Fitted((), ())
        self._words = ""
        self._sort = next(iter(SORTS))

    def compose(self) -> ComposeResult:
        yield Static(id="daemon")
        yield Static(id="problems")
        yield Static(id="curves")
        yield DataTable[Text](id="servers", cursor_type="row", cell_padding=0)
        yield Static(id="chosen")
        yield Input(placeholder="words of a name, a state or an error; Enter keeps, Esc clears", id="filter")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to ask, and end in order when a signal comes."""
        self.theme = "ansi-dark"
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._end, 128 + number)
        self._table.focus()
        self._draw()
        self._polling.begin(lambda answer: self._tell(Answered(answer)))

    def on_unmount(self) -> None:
        """Ask no more."""
        self._polling.end()

    def on_resize(self, _event: events.Resize) -> None:
        """Choose the columns that fit."""
        self.call_after_refresh(self._draw)

    # --- what the daemon says

    def on_answered(self, message: Answered) -> None:
        """Take the answer of this second."""
        self._answer = message.answer
        if message.answer.status is None:
            self._history.miss()
        else:
            self.overview = self._history.take(message.answer.status, message.answer.at)
        self._draw()

    def on_restarted(self, message: Restarted) -> None:
        """Say how it went."""
        said = one_line(message.said, MAX_TEXT)
        self.notify(said, severity="information" if message.is_good else "error", markup=False)

    def row(self, name: str) -> Row | None:
        """The server of that name, as it is now; None where it has left the configuration."""
        return next((row for row in self.overview.rows if row.name == name), None)

    def restart(self, server: str) -> None:
        """Restart a server, once the person has agreed."""

        def agreed(yes: bool | None) -> None:  # noqa: FBT001 - as the screen gives it
            if yes:
                self.notify(one_line(f"restarting {server}", MAX_TEXT), markup=False)
                self._polling.restart(
                    server, lambda said, is_good: self._tell(Restarted(said, is_good=is_good))
                )

        row = self.row(server)
        busy = row.server.in_flight if row is not None else 0
        calls = f" It has {busy} calls in flight." if busy else ""
        self.push_screen(Confirm(f"Restart {one_line(server, MAX_TEXT)}?{calls}"), agreed)

    def log_of(self, server: str) -> None:
        """Show the log of a server, live."""
        path = self._polling.log_of(server, self.overview.status)
        self.push_screen(LogScreen(server, path))

    # --- keys

    def action_details(self) -> None:
        """Show everything that is known of the chosen server."""
        if (row := self._chosen_row()) is not None:
            self._polling.wants_memory = True
            self.push_screen(DetailsScreen(row.name, self._facts))

    def action_log(self) -> None:
        """Show the log of the chosen server."""
        if (row := self._chosen_row()) is not None:
            self.log_of(row.name)

    def action_restart(self) -> None:
        """Restart the chosen server."""
        if (row := self._chosen_row()) is not None:
            self.restart(row.name)

    def action_clients(self) -> None:
        """Show what each client has spent and saved."""
        self.push_screen(ClientsScreen(lambda: self.overview.status))

    def action_help(self) -> None:
        """Explain keys and columns."""
        self.push_screen(HelpScreen())

    def action_filter(self) -> None:
        """Let words be typed."""
        words = self.query_one("#filter", Input)
        words.add_class("-open")
        words.focus()

    def action_unfilter(self) -> None:
        """Show all servers again."""
        words = self.query_one("#filter", Input)
        words.value = self._words = ""
        words.remove_class("-open")
        self._table.focus()
        self._draw()

    def action_sort(self, step: int) -> None:
        """Sort by the next thing, or by the one before."""
        names = list(SORTS)
        self._sort = names[(names.index(self._sort) + step) % len(names)]
        self._draw()

    def action_move(self, step: int) -> None:
        """Choose another row."""
        table = self._table
        table.move_cursor(row=max(0, min(table.row_count - 1, table.cursor_row + step)))

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends every command."""
        self._end(128 + signal.SIGINT)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter by what is typed, as it is typed."""
        self._words = event.value
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and go back to the rows."""
        event.input.set_class(bool(event.value), "-open")
        self._table.focus()

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        """Enter, or a click on the chosen row."""
        self.action_details()

    def on_data_table_row_highlighted(self, _event: DataTable.RowHighlighted) -> None:
        """Another row was chosen."""
        self._draw_chosen()

    # --- drawing

    @property
    def _table(self) -> DataTable[Text]:
        found: DataTable[Text] = self.screen_stack[0].query_one("#servers", DataTable)
        return found

    def _chosen_row(self) -> Row | None:
        at = self._table.cursor_row
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def _facts(self, name: str) -> tuple[Row | None, int | None]:
        """A server and its memory, for the screen that shows all of it."""
        row = self.row(name)
        return row, None if row is None else self._answer.memory.get(row.server.pid or 0)

    def _draw(self) -> None:
        """Draw everything that stands on the first screen; a row is drawn where it has changed."""
        if not self.screen_stack or not self.is_running:
            return
        self._draw_header()
        self._draw_rows()
        self._draw_chosen()
        for screen in self.screen_stack[1:]:
            if isinstance(screen, DetailsScreen | ClientsScreen):
                screen.show()

    def _draw_header(self) -> None:
        status, first = self.overview.status, self.screen_stack[0]
        lines = problems(status.daemon)[:MAX_PROBLEMS]
        if self._answer.problem is not None:
            lines = [Text(one_line(self._answer.problem, MAX_TEXT), style="bold red")]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        first.query_one("#daemon", Static).update(self._first_line(status))
        first.query_one("#problems", Static).update(Text("\n").join(lines))
        first.query_one("#problems", Static).display = bool(lines)
        first.query_one("#curves", Static).update(self._curves())
        self._table.set_class(self._answer.status is None, "-stale")

    def _first_line(self, status: Status) -> Text:
        line, clock = daemon_line(status), time.strftime("%H:%M:%S")
        line.truncate(max(0, self.size.width - len(clock) - 1), overflow="ellipsis")
        return line.append(clock.rjust(self.size.width - line.cell_len), style="not bold dim")

    def _curves(self) -> Text:
        """Calls, failures and saved tokens a second, each with its last minute; fewer where it is narrow."""
        overview = self.overview
        curves = (
            ("calls/s", overview.calls, rate, "green"),
            ("failed/s", overview.failures, rate, "red"),
            ("saved tokens/s", overview.saved, _rounded_tokens, "cyan"),
        )
        words = [f"{title} {said(curve[-1]):>4} " for title, curve, said, _ in curves]
        least, most = CURVE_CELLS
        room = (self.size.width - sum(map(len, words)) - 2 * (len(words) - 1)) // len(words)
        cells = min(most, room) if room >= least else 0
        line = Text(no_wrap=True, overflow="ellipsis")
        for word, (_, curve, _, style) in zip(words, curves, strict=True):
            line.append("  " if line.plain else "").append(word, "dim").append(bars(curve, cells), style)
        return line

    def _draw_rows(self) -> None:
        rows = chosen(self.overview.rows, self._words, self._sort, self._answer.memory)
        table, before = self._table, self._chosen_row()
        width = max(1, table.size.width - 1)  # its scrollbar
        columns = fitted(width, (row.name for row in self.overview.rows))
        details_open = any(isinstance(screen, DetailsScreen) for screen in self.screen_stack)
        self._polling.wants_memory = columns.shows(MEMORY.header) or self._sort == "memory" or details_open
        if columns != self._columns:
            table.clear(columns=True)
            for header, cells in zip(columns.headers, columns.widths, strict=True):
                table.add_column(header, width=cells)
            self._columns, self._shown = columns, []
        if [row.name for row in rows] == [row.name for row in self._shown]:
            for at, row in enumerate(rows):
                for column, cell in enumerate(columns.cells(row, self._answer.memory)):
                    if table.get_cell_at((at, column)) != cell:  # type: ignore[arg-type]  # a coordinate is a pair
                        table.update_cell_at((at, column), cell)  # type: ignore[arg-type]
            self._shown = rows
            return
        top = table.scroll_y
        table.clear()
        self._shown = rows
        for row in rows:
            table.add_row(*columns.cells(row, self._answer.memory))
        if before is not None:
            places = [at for at, row in enumerate(rows) if row.name == before.name]
            table.move_cursor(row=places[0] if places else 0, scroll=not places)
        table.scroll_to(y=top, animate=False)

    def _draw_chosen(self) -> None:
        """All that is to be said of the chosen server, below a rule that says what the table shows."""
        shown = self.screen_stack[0].query_one("#chosen", Static)
        row = self._chosen_row()
        shown.border_title = Text("" if row is None else one_line(row.name, MAX_TEXT))
        about = f"{len(self._shown)} of {len(self.overview.rows)} servers, by {self._sort}"
        shown.border_subtitle = Text(about)
        said = [] if row is None else remarks(row.server)
        lines = [Text(one_line(text, MAX_TEXT), style=style) for text, style in said]
        if not self.overview.rows:
            lines = [Text("no servers are configured: mcpx add, or mcpx import", style="dim")]
        elif row is None:
            lines = [Text("no server matches the filter; Esc clears it", style="dim")]
        elif not lines:
            lines = [Text("nothing to report", style="dim")]
        shown.update(Text("\n").join(lines))

    # --- its end

    def _end(self, code: int) -> None:
        self.exit(return_code=code)

    def _tell(self, message: Message) -> None:
        """Post from another thread; one that comes after the end is dropped."""
        try:
            self.post_message(message)
        except RuntimeError:  # the event loop is closed
            return


def _rounded_tokens(per_second: float | None) -> str:
    return "-" if per_second is None else signed_tokens(round(per_second))

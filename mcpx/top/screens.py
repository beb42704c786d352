"""The screens above the table of `mcpx top`: a server whole, its log, the clients, the help, and a question.

Escape leaves each of them. They show what they are given, and own nothing but the log that they follow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final, cast

import msgspec
from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Footer, Log, Static

from mcpx.cli.operations.status_table import remarks, shown_state
from mcpx.cli.printing import count, duration, in_bytes, latency, percent, rate, saved, tokens
from mcpx.core.daemon.status import Cost, ServerStatus, SignInStatus, Status, Tokens
from mcpx.core.system.processes import Use
from mcpx.core.text import one_line
from mcpx.top.history import Row, bars
from mcpx.top.polling import Host, LogFile

# --- texts

MAX_TEXT: Final = 2000  # characters of a cause or a difference
MAX_ROWS: Final = 40  # tools, clients or changes, and lines of a difference
MAX_NAME_CELLS: Final = 40
FACT_CELLS: Final = 12
MIN_CURVE_CELLS: Final = 10

KEYS: Final = (
    ("↑ ↓ k j", "choose a server; g the first, G the last"),
    ("Enter", "everything about it"),
    ("l", "its log, live"),
    ("r", "restart it; asks first"),
    ("e", "switch it off, or on again; asks first"),
    ("/", "show only rows with these words; Esc shows all"),
    ("s S", "sort by the next thing, or by the one before"),
    ("c", "clients: what each has spent and saved"),
    ("Esc", "back to the table"),
    ("q", "quit"),
)
MEANINGS: Final = (
    ("state", "asleep: started when it is needed; retries in: after a failure;"),
    ("", "parked: it failed too often, and r starts it again"),
    ("up re", "time since it was started; restarts"),
    ("calls /s", "calls since the daemon's start, however they ended; a second, now"),
    ("p50 p95ms", "half of the last 512 calls took at most so many ms; 95 of 100"),
    ("busy", "calls that run, + calls that wait"),
    ("fail ref", "failed: sent, with no good answer; refused: nothing was sent"),
    ("saved", "tokens that reached no model, estimated, since the start"),
    ("mem cpu", "of its process and all that it has started; cpu is of one core"),
)


def help_text() -> Text:
    """The keys, and the meanings of the columns."""
    lines = [*KEYS, ("", ""), *MEANINGS]
    return Text("\n").join(_fact(key, Text(meaning)) for key, meaning in lines)


def server(row: Row, use: Use | None, width: int) -> Text:
    """Everything about a server, a fact a line; `use` is of its processes, if that is known."""
    return Text("\n").join(_facts(row, use, width))


def _facts(row: Row, use: Use | None, width: int) -> Iterator[Text]:
    known = row.server
    state = shown_state(known)
    if known.uptime_s is not None:
        state.append(f" for {duration(known.uptime_s)}", style="not dim")
    yield _fact("state", state)
    for text, style in remarks(known):
        yield _fact("", Text(one_line(text, MAX_TEXT), style=style))
    where = [known.transport, known.protocol_version, known.pid and f"pid {known.pid}"]
    where += [f"on the node {known.node}"] if known.node else []
    if use is not None:
        where += [f"{in_bytes(use.memory)} of memory", f"{percent(use.cpu)} of a core"]
    yield _fact("connection", Text(", ".join(one_line(each, MAX_TEXT) for each in where if each)))
    yield _fact("restarts", Text(f"{known.restarts}, failures in a row: {known.failures}"))
    yield _fact("offers", Text(_offers(known)))
    yield _fact("calls", Text(_calls(row)))
    time = known.latency_ms
    yield _fact("ms", Text(f"p50 {latency(time.p50)}, p95 {latency(time.p95)}, p99 {latency(time.p99)}"))
    curve = bars(row.calls, max(MIN_CURVE_CELLS, width - FACT_CELLS - 3))
    yield _fact("calls/s", Text(curve.lstrip() or "-", style="cyan"))
    if isinstance(known.sign_in, SignInStatus):
        yield _fact("sign-in", Text(_sign_in(known.sign_in)))
    if isinstance(known.tokens, Tokens):
        yield from _tokens(known.tokens)
    yield from _changes(known)


def _offers(known: ServerStatus) -> str:
    numbers = {
        "tools": known.tools,
        "resources": known.resources,
        "templates": known.templates,
        "prompts": known.prompts,
    }
    left_out = f", left out or cut: {known.left_out}" if known.left_out else ""
    old = f" (from last time, {known.listed_at or 'not now'})" if known.from_last_time else ""
    return one_line(", ".join(f"{number} {what}" for what, number in numbers.items()) + left_out + old)


def _calls(row: Row) -> str:
    known = row.server
    ends = f"{count(known.failed)} failed, {count(known.refused)} refused"
    now = f"{known.in_flight} in flight, {known.queued} waiting"
    return f"{count(known.calls)}, {ends}, {now}, {rate(row.rate)} a second"


def _sign_in(sign_in: SignInStatus) -> str:
    scopes = " ".join(sign_in.scopes or [])
    expires = f"token until {sign_in.expires_at}" if sign_in.expires_at else "no token"
    return one_line(f"{expires}{f', scopes {scopes}' if scopes else ''}", MAX_TEXT)


def _tokens(known: Tokens) -> Iterator[Text]:
    for period, cost in (("since start", known.since_start), ("all time", known.all_time)):
        yield _fact("tokens", Text(f"{period}: {_cost(cost)}"))
    tools = known.since_start.tools
    if isinstance(tools, msgspec.UnsetType) or not tools:
        return
    yield Text()
    yield from _table("tool", tools)


def _changes(known: ServerStatus) -> Iterator[Text]:
    """Changes that wait for approval, with their differences."""
    for change in (known.changes or [])[:MAX_ROWS]:
        yield Text()
        yield Text(one_line(change.summary, MAX_TEXT), style="yellow")
        for line in change.difference[:MAX_ROWS]:
            style = {"+": "green", "-": "red"}.get(line[:1], "")
            yield Text(one_line(line, MAX_TEXT), style=style)


def clients(status: Status) -> Text:
    """The number of clients, and the tokens of each that has ever called."""
    lines = [Text(f"connected now: {status.daemon.clients}")]
    if isinstance(known := status.daemon.tokens, Tokens):
        for period, cost in (("Since the start", known.since_start), ("All time", known.all_time)):
            lines += [Text(), Text(f"{period}: {_cost(cost)}", style="bold")]
            named = cost.clients
            if not isinstance(named, msgspec.UnsetType) and named:
                lines += _table("client", named)
    return Text("\n").join(lines)


def _table(what: str, costs: Mapping[str, Cost]) -> Iterator[Text]:
    """A row for each name, what saved most first."""
    rows = sorted(costs.items(), key=lambda each: each[1].spent - each[1].direct)
    names = [one_line(name, MAX_NAME_CELLS) for name, _ in rows[:MAX_ROWS]]
    width = max(map(cell_len, [what, *names]))
    yield Text(f"{_padded(what, width)}  direct  mcpx  saved", style="bold")
    for name, (_, cost) in zip(names, rows, strict=False):
        share = saved(cost.direct, cost.spent)
        numbers = f"{tokens(cost.direct):>6} {tokens(cost.spent):>5} {share:>6}"
        yield Text(f"{_padded(name, width)}  {numbers}")
    if len(rows) > MAX_ROWS:
        yield Text(f"and {len(rows) - MAX_ROWS} more: mcpx stats", style="dim")


def _cost(cost: Cost) -> str:
    share = saved(cost.direct, cost.spent)
    return f"{tokens(cost.direct)} directly, {tokens(cost.spent)} through MCPX ({share} saved)"


def _fact(name: str, value: Text) -> Text:
    return Text(_padded(name, FACT_CELLS), style="dim").append_text(_undimmed(value))


def _undimmed(value: Text) -> Text:
    """A text whose style stays its own behind one that is dim."""
    return Text("", style="not dim").append_text(value)


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cell_len(text))


MAX_LOG_LINES: Final = 2000  # kept on the screen
LOG_INTERVAL_S: Final = 0.2
MAX_NAME: Final = 200  # characters in a title

BACK: Final = Binding("escape", "dismiss", "Back", key_display="Esc")


class _Page(Screen[None]):
    """A title, something that scrolls, and the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]
    _is_composed = False

    @property
    def top(self) -> Host:
        """The app."""
        return cast("Host", self.app)

    def compose(self) -> ComposeResult:
        yield Static(classes="title")
        with VerticalScroll(classes="body"):
            yield Static(classes="text")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show it, and let the keys scroll it."""
        self._is_composed = True
        self.show()
        self.query_one(VerticalScroll).focus()

    def show(self) -> None:
        """Show what there is to show now."""
        raise NotImplementedError

    def put(self, title: str, text: Text) -> None:
        """Show that text under that title."""
        if self._is_composed:
            self.query_one(".title", Static).update(Text(title, no_wrap=True, overflow="ellipsis"))
            self.query_one(".text", Static).update(text)


class DetailsScreen(_Page):
    """Everything that is known of one server, as it changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        BACK,
        Binding("l", "log", "Log"),
        Binding("r", "restart", "Restart"),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self._server = name

    def show(self) -> None:
        row = self.top.row(self._server)
        gone = Text("it is no longer in the configuration", style="yellow")
        text = gone if row is None else server(row, self.top.use_of(row), self.app.size.width)
        self.put(one_line(self._server, MAX_NAME), text)

    def action_log(self) -> None:
        """Show its log."""
        self.top.show_log(self._server)

    def action_restart(self) -> None:
        """Restart it."""
        self.top.restart(self._server)


class ClientsScreen(_Page):
    """The tokens that each client has spent and saved."""

    def show(self) -> None:
        self.put("Clients", clients(self.top.overview.status))


class HelpScreen(_Page):
    """The keys, and the meanings of the columns."""

    def show(self) -> None:
        self.put("Keys and columns", help_text())


class Confirm(ModalScreen[bool]):
    """A question that is answered by y or n."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right", "app.focus_next", "Other", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._question))
            with Horizontal():
                yield Button(Text("y  Yes"), id="yes")
                yield Button(Text("n  No"), id="no")

    def on_mount(self) -> None:
        """Enter alone changes nothing."""
        self.query_one("#no", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer by Enter on a button, or by a click."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - the binding gives it
        """Answer by a key."""
        self.dismiss(yes)


class LogScreen(Screen[None]):
    """The log of a server, as it is written. It follows the end until it is scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        BACK,
        Binding("end,G", "follow", "Follow the end", key_display="End"),
        Binding("home,g", "begin", "Beginning", show=False),
    ]

    class Lines(Message):
        """More lines of the file, or the reason that it cannot be read."""

        def __init__(self, lines: list[str], problem: str | None) -> None:
            super().__init__()
            self.lines = lines
            self.problem = problem

    def __init__(self, name: str, path: Path) -> None:
        super().__init__()
        self._server = name
        self._path = path
        self._left = threading.Event()

    def compose(self) -> ComposeResult:
        yield Static(classes="title")
        yield Log(max_lines=MAX_LOG_LINES, classes="body")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to read."""
        self._entitle(f"nothing yet ({self._path})")
        self.query_one(Log).focus()
        threading.Thread(target=self._follow, name="mcpx-top-log", daemon=True).start()

    def on_unmount(self) -> None:
        """Read no more."""
        self._left.set()

    def on_log_screen_lines(self, message: LogScreen.Lines) -> None:
        """Show what was read."""
        self._entitle(message.problem or str(self._path))
        log = self.query_one(Log)
        if message.lines:
            log.write("\n".join(message.lines) + "\n", scroll_end=log.is_vertical_scroll_end)

    def action_follow(self) -> None:
        """Go to the end, and stay there."""
        self.query_one(Log).scroll_end(animate=False)

    def action_begin(self) -> None:
        """Go to the first line that is kept."""
        self.query_one(Log).scroll_home(animate=False)

    def _entitle(self, about: str) -> None:
        title = Text(f"Log of {one_line(self._server, MAX_NAME)}", no_wrap=True, overflow="ellipsis")
        title.append(f"  {one_line(about, MAX_NAME)}", style="not bold dim")
        self.query_one(".title", Static).update(title)

    def _follow(self) -> None:
        """In a thread of its own: read until the screen is left."""
        log, said = LogFile(self._path), None
        while not self._left.is_set():
            lines, problem = [], None
            try:
                lines = log.news()
            except OSError as error:
                problem = f"cannot be read: {error.strerror} ({self._path})"
            if lines or problem != said:
                said = problem
                self._tell(lines, problem)
            self._left.wait(LOG_INTERVAL_S)
        log.close()

    def _tell(self, lines: list[str], problem: str | None) -> None:
        try:
            self.post_message(self.Lines(lines, problem))
        except RuntimeError:  # the event loop is closed: it is the end
            self._left.set()

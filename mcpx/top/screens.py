"""The screens above the table of `mcpx top`: a server whole, its log, the clients, the help, and a question.

Escape leaves each of them. They show what they are given, and own nothing but the log that they follow.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Footer, Log, Static

from mcpx.core.text import one_line
from mcpx.top.details import clients, help_text, server
from mcpx.top.log_file import LogFile

if TYPE_CHECKING:
    from mcpx.top.app import Top

MAX_LOG_LINES: Final = 2000  # kept on the screen
LOG_INTERVAL_S: Final = 0.2
MAX_NAME: Final = 200  # characters in a title

BACK: Final = Binding("escape", "dismiss", "Back", key_display="Esc")


class _Page(Screen[None]):
    """A title, something that scrolls, and the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]
    _is_composed = False

    @property
    def top(self) -> Top:
        """The app."""
        return cast("Top", self.app)

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
    """What each client has spent and saved."""

    def show(self) -> None:
        self.put("Clients", clients(self.top.overview.status))


class HelpScreen(_Page):
    """What the keys do, and what the columns mean."""

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
    """What a server says on standard error, as it is written. It follows the end until it is scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        BACK,
        Binding("end,G", "follow", "Follow the end", key_display="End"),
        Binding("home,g", "begin", "Beginning", show=False),
    ]

    class Lines(Message):
        """What the file has more of, or why it cannot be read."""

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

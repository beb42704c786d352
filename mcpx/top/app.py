"""`mcpx top` as an app: what the daemon said last, the screens, and how it ends.

`Top` owns the overview and tells the screens of each new one; they ask it to restart a server or to show a
log. What another thread has to say comes as a message.

Colours are the sixteen of the terminal, so that it looks right in dark and light; a state is always a word,
too. Ctrl-C ends with 130, SIGTERM and SIGHUP with 128 and their number, and the terminal is as it was.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from mcpx.core.daemon.status import Status
from mcpx.core.system.processes import Use
from mcpx.core.text import one_line
from mcpx.top.history import History, Overview, Row
from mcpx.top.polling import Answer, Polling
from mcpx.top.screens import ClientsScreen, Confirm, DetailsScreen, HelpScreen, LogScreen
from mcpx.top.servers import ServersScreen

MAX_TEXT: Final = 500  # characters of one thing that is said
MAX_NAME: Final = 60  # characters of a name in a question
Done = Callable[[str, bool], None]
"""Told how something went, and whether it went well."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Answered(Message):
    """The daemon was asked, and has answered or not."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Restarted(Message):
    """A server was to be restarted, or switched on or off."""

    def __init__(self, said: str, *, is_good: bool) -> None:
        super().__init__()
        self.said = said
        self.is_good = is_good


class Top(App[None]):
    """The app. `first` is what the daemon has said already."""

    CSS_PATH = "style.tcss"
    TITLE = "mcpx top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True),
    ]

    def __init__(self, polling: Polling, first: Status) -> None:
        super().__init__(ansi_color=True)
        self._polling = polling
        self._history = History()
        self.answer = Answer(first, None, {}, time.monotonic())
        """The last one."""
        self.overview: Overview = self._history.take(first, self.answer.at)
        """Of the last answer that had a status."""

    def get_default_screen(self) -> ServersScreen:
        return ServersScreen()

    def on_mount(self) -> None:
        """Begin to ask, and end in order when a signal comes."""
        self.theme = "ansi-dark"
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._end, 128 + number)
        self._polling.begin(lambda answer: self._tell(Answered(answer)))

    def on_unmount(self) -> None:
        """Ask no more."""
        self._polling.end()

    # --- what the daemon says

    def on_answered(self, message: Answered) -> None:
        """Take the answer of this second, and have it shown."""
        self.answer = message.answer
        if message.answer.status is None:
            self._history.miss()
            self.overview = self._history.overview(self.overview.status)
        else:
            self.overview = self._history.take(message.answer.status, message.answer.at)
        for screen in self.screen_stack:
            if isinstance(screen, ServersScreen | DetailsScreen | ClientsScreen):
                screen.show()

    def on_restarted(self, message: Restarted) -> None:
        """Say how it went."""
        said = one_line(message.said, MAX_TEXT)
        self.notify(said, severity="information" if message.is_good else "error", markup=False)

    def row(self, name: str) -> Row | None:
        """The server of that name, as it is now; None where it has left the configuration."""
        return next((row for row in self.overview.rows if row.name == name), None)

    def use_of(self, row: Row) -> Use | None:
        """Memory and CPU of its processes, if known."""
        return None if row.server.pid is None else self.answer.uses.get(row.server.pid)

    def want_uses(self, *, of_rows: bool) -> None:
        """Have the processes looked at, as long as the rows show it, or the details of a server do."""
        details = any(isinstance(screen, DetailsScreen) for screen in self.screen_stack)
        self._polling.wants_uses = of_rows or details

    # --- what the person wants

    def show_details(self, server: str) -> None:
        """Show everything that is known of a server."""
        self._polling.wants_uses = True
        self.push_screen(DetailsScreen(server))

    def show_log(self, server: str) -> None:
        """Show the log of a server, live."""
        self.push_screen(LogScreen(server, self._polling.log_of(server, self.overview.status)))

    def action_clients(self) -> None:
        """Show what each client has spent and saved."""
        self.push_screen(ClientsScreen())

    def action_explain(self) -> None:
        """Explain keys and columns."""
        self.push_screen(HelpScreen())

    def restart(self, server: str) -> None:
        """Restart a server, once the person has agreed."""
        self._ask(server, "Restart {}?", "restarting {}", self._polling.restart)

    def switch(self, server: str) -> None:
        """Switch a server off, or on again, once the person has agreed."""
        row = self.row(server)
        on = row is not None and row.server.state == "disabled"
        word = "on" if on else "off"
        self._ask(
            server, f"Switch {{}} {word}?", f"switching {{}} {word}", partial(self._polling.switch, on=on)
        )

    def _ask(self, server: str, question: str, doing: str, perform: Callable[[str, Done], None]) -> None:
        """Ask, with the calls that run, and have it done if the person agrees; `{}` is the server."""

        def agreed(yes: bool | None) -> None:  # noqa: FBT001 - as the screen gives it
            if yes:
                self.notify(one_line(doing.format(server), MAX_TEXT), markup=False)
                perform(server, lambda said, is_good: self._tell(Restarted(said, is_good=is_good)))

        row = self.row(server)
        busy = row.server.in_flight if row is not None else 0
        calls = f" It has {busy} calls in flight." if busy else ""
        self.push_screen(Confirm(f"{question.format(one_line(server, MAX_NAME))}{calls}"), agreed)

    # --- its end

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends every command."""
        self._end(128 + signal.SIGINT)

    def _end(self, code: int) -> None:
        self.exit(return_code=code)

    def _tell(self, message: Message) -> None:
        """Post from another thread; one that comes after the end is dropped."""
        try:
            self.post_message(message)
        except RuntimeError:  # the event loop is closed
            return

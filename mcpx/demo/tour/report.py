"""Findings of a demonstration: structs, as `mcpx demo --json` prints them, and `Printer` for people.

Token counts are estimates; times are seconds unless the name says `_ms`. The printer writes to standard
output only. Text of servers is never read as markup, and what would harm a terminal is printed as its escape.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from rich.console import Console
from rich.text import Text

from mcpx.core.text import escaped
from mcpx.version import __version__

MAX_WIDTH: Final = 100  # longer lines are hard to read
PIPE_WIDTH: Final = 80
INDENT: Final = 4
RECORDED_SESSIONS: Final = Path(__file__).with_name("recorded_sessions.json")


class StepFailed(Exception):
    """Something did not do what the demonstration says it does; the text is for the reader."""


class Excerpt(msgspec.Struct, frozen=True):
    """A text as it came up; `text` may be its beginning, and then says so."""

    caption: str
    text: str


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of one thing in two forms, and both texts whole, to be counted by others."""

    before: int
    after: int
    before_is: str
    after_is: str
    before_text: str
    after_text: str


class Share(msgspec.Struct, frozen=True):
    """The tokens that a step costs a model: `direct` is without MCPX."""

    what: str
    direct: int
    through_mcpx: int


class Step(msgspec.Struct, frozen=True):
    """One step that has worked."""

    name: str
    title: str
    said: str
    excerpts: tuple[Excerpt, ...]
    tokens: Tokens | None = None
    share: Share | None = None
    facts: dict[str, Any] = {}


class Failure(msgspec.Struct, frozen=True):
    """The step that did not work, why, and the last warnings and errors of the log."""

    step: str = msgspec.field(name="scene")
    error: str
    log: tuple[str, ...]


class Report(msgspec.Struct):
    """The whole run. `processes` were started; `left` are the process groups that still exist."""

    steps: list[Step] = msgspec.field(name="scenes", default_factory=list)
    took_s: float = 0.0
    processes: int = 0
    left: list[int] = []
    failed: Failure | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        """True if every step worked and no process is left."""
        return self.failed is None and self.signal is None and not self.left

    @property
    def exit_code(self) -> int:
        """Exit code of the command (`mcpx.demo.tour.command`)."""
        return 128 + self.signal if self.signal is not None else int(not self.ok)


class RecordedSessions(msgspec.Struct, frozen=True):
    """The cost of whole sessions, as `scripts/context --demo` wrote it.

    `median_tokens` are of one session; the first is what the others are compared with.
    """

    servers: int
    tools: int
    sessions: int
    tokenizer: str
    median_tokens: dict[str, int]


def recorded_sessions() -> RecordedSessions:
    """The figures that end the demonstration. They are data of the package: no run measures them."""
    return msgspec.json.decode(RECORDED_SESSIONS.read_bytes(), type=RecordedSessions)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called where it is handled: the command ends its servers first, and then itself


class Printer:
    """Prints steps as they come, and then the report: in colours on a terminal, 80 to 100 cells wide."""

    def __init__(self) -> None:
        colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
        self._console = _Console(highlight=False, markup=False, emoji=False, color_system=colours)
        self._width = min(self._console.width, MAX_WIDTH) if self._console.is_terminal else PIPE_WIDTH
        self._number = 0
        self._line(f"MCPX {__version__}: a demonstration. Token counts are estimates.", "bold")

    def show_step(self, step: Step) -> None:
        """Print one step."""
        self._heading(step.title)
        self._line(step.said)
        for excerpt in step.excerpts:
            self._line(excerpt.caption, "dim", before="\n")
            self._line(excerpt.text, indent=INDENT)
        if tokens := step.tokens:
            before = f"About {tokens.before:,} tokens {tokens.before_is}"
            after = f"about {tokens.after:,} {tokens.after_is}"
            part = _saved_percent(tokens.before, tokens.after)
            self._line(f"{before}, {after}: {part} % saved.", "green", before="\n")

    def show_report(self, report: Report) -> None:
        """Print how it ended."""
        if report.failed is None and report.signal is None:
            self._summary([step.share for step in report.steps if step.share is not None])
            self._recorded_sessions()
        self._console.print()
        if report.signal is not None:
            self._line(f"Ended by {signal.Signals(report.signal).name}.", "yellow")
        elif report.failed is not None:
            self._line(f"FAILED: {report.failed.step}: {report.failed.error}", "bold red")
            if report.failed.log:
                self._line("The log said last:", "dim")
                self._line("\n".join(report.failed.log), indent=INDENT)
        if report.left:
            self._line(f"FAILED: still running: {', '.join(map(str, report.left))}", "bold red")
        elif report.ok:
            text = f"All {report.processes} server processes have ended. It took {report.took_s:.1f} s."
            self._line(text, "bold green")

    def _summary(self, shares: list[Share]) -> None:
        direct = sum(share.direct for share in shares)
        through = sum(share.through_mcpx for share in shares)
        self._heading("The tokens of this session")
        self._line(
            "What a model would have been given with the three servers connected directly, and what it was"
            " given through MCPX; both include everything."
        )
        self._line(f"{'':<38}{'directly':>12}{'through MCPX':>16}", "dim", indent=INDENT, before="\n")
        total = Share("together", direct, through)
        for share in (*shares, total):
            row = f"{share.what:<38}{f'about {share.direct:,}':>12}{f'about {share.through_mcpx:,}':>16}"
            self._line(row, "bold" if share is total else "", indent=INDENT)
        self._line(
            f"About {direct - through:,} tokens saved, {_saved_percent(direct, through)} %, with three small"
            " servers. The first line grows with every server that is connected directly.",
            "green",
            before="\n",
        )

    def _recorded_sessions(self) -> None:
        recorded = recorded_sessions()
        direct = next(iter(recorded.median_tokens.values()))
        self._heading(f"The same with {recorded.servers} servers")
        self._line(
            f"What a model read in {recorded.sessions} recorded sessions of LiveMCPBench, with"
            f" {recorded.tools} tools to choose from: definitions, searches and results together, the median."
            f" Measured beforehand by scripts/context, with a real tokenizer ({recorded.tokenizer})."
        )
        self._line(f"{'':<38}{'tokens':>12}{'saved':>16}", "dim", indent=INDENT, before="\n")
        for what, tokens in recorded.median_tokens.items():
            row = f"{what:<38}{tokens:>12,}{f'{100 - 100 * tokens / direct:.1f} %':>16}"
            self._line(row, "bold" if what.startswith("MCPX") else "", indent=INDENT)

    def _heading(self, title: str) -> None:
        self._number += 1
        self._line(f"{self._number}. {title}", "bold cyan", before="\n")

    def _line(self, text: str, style: str = "", *, indent: int = 0, before: str = "") -> None:
        """Print text, wrapped to the width. Lines are cut here, because the console would pad them."""
        self._console.print(before, end="")
        for line in Text(escaped(text), style=style).wrap(self._console, self._width - indent):
            line.rstrip()
            self._console.print(Text(" " * indent) + line if line else line, soft_wrap=True)


def _saved_percent(before: int, after: int) -> int:
    """By how many percent `after` is less than `before`, rounded down; negative where it is more."""
    return 100 * (before - after) // before if before else 0

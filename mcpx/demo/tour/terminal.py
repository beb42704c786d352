"""The demonstration for people: colours on a terminal, plain text elsewhere, 80 to 100 cells wide.

Writes to standard output only. Text from servers is never read as markup, and what would harm a terminal is
printed as its escape.
"""

from __future__ import annotations

import signal
from typing import Final

from rich.console import Console
from rich.text import Text

from mcpx import __version__
from mcpx.demo.tour.scene import Ending, Failure, Scene, Share, Tokens, fewer_percent
from mcpx.text import escaped

WIDEST: Final = 100  # longer lines are hard to read
PLAIN_WIDTH: Final = 80  # a pipe has no width of its own
INDENT: Final = 4


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called where it is handled: the command ends its servers first, and then itself


class Terminal:
    """Prints scenes as they come, and how it ended."""

    def __init__(self) -> None:
        self._console = _Console(highlight=False, markup=False, emoji=False)
        known = min(self._console.width, WIDEST)
        self._width = known if self._console.is_terminal else PLAIN_WIDTH
        self._number = 0

    def open(self) -> None:
        """Say what is going to happen."""
        self._line(f"MCPX {__version__}: a demonstration. Token counts are estimates.", "bold")

    def show(self, scene: Scene) -> None:
        """Print one scene."""
        self._heading(scene.title)
        self._line(scene.said)
        for excerpt in scene.excerpts:
            self._console.print()
            self._line(excerpt.caption, "dim")
            self._line(excerpt.text, indent=INDENT)
        if scene.tokens is not None:
            self._console.print()
            self._line(_told(scene.tokens), "green")

    def close(self, ending: Ending) -> None:
        """Print how it ended."""
        if ending.failed is None and ending.signal is None:
            self._summary([scene.share for scene in ending.scenes if scene.share is not None])
        self._console.print()
        if ending.signal is not None:
            self._line(f"Ended by {signal.Signals(ending.signal).name}.", "yellow")
        elif ending.failed is not None:
            self._failure(ending.failed)
        if ending.left:
            self._line(f"FAILED: still running: {', '.join(map(str, ending.left))}", "bold red")
        elif ending.ok:
            self._line(
                f"All {ending.processes} server processes have ended. It took {ending.took_s:.1f} s.",
                "bold green",
            )

    def _failure(self, failed: Failure) -> None:
        self._line(f"FAILED: {failed.scene}: {failed.error}", "bold red")
        if failed.log:
            self._line("The log said last:", "dim")
            self._line("\n".join(failed.log), indent=INDENT)

    def _summary(self, shares: list[Share]) -> None:
        direct = sum(share.direct for share in shares)
        through = sum(share.through_mcpx for share in shares)
        self._heading("The tokens of this session")
        self._line(
            "What a model would have been given with the three servers connected directly, and what it was"
            " given through MCPX; both include everything."
        )
        self._console.print()
        self._line(f"{'':<38}{'directly':>12}{'through MCPX':>16}", "dim", indent=INDENT)
        total = Share(what="together", direct=direct, through_mcpx=through)
        for share in (*shares, total):
            row = f"{share.what:<38}{f'about {share.direct:,}':>12}{f'about {share.through_mcpx:,}':>16}"
            self._line(row, "bold" if share is total else "", indent=INDENT)
        self._console.print()
        self._line(
            f"About {direct - through:,} tokens saved, {fewer_percent(direct, through)} %, with three small"
            " servers. The first line grows with every server that is connected directly.",
            "green",
        )

    def _heading(self, title: str) -> None:
        self._number += 1
        self._console.print()
        self._line(f"{self._number}. {title}", "bold cyan")

    def _line(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Print text, wrapped to the width. Lines are cut here, because the console would pad them."""
        for line in Text(escaped(text), style=style).wrap(self._console, self._width - indent):
            line.rstrip()
            self._console.print(Text(" " * indent) + line if line else line, soft_wrap=True)


def _told(tokens: Tokens) -> str:
    fewer = fewer_percent(tokens.before, tokens.after)
    return (
        f"About {tokens.before:,} tokens {tokens.before_is}, about {tokens.after:,} {tokens.after_is}:"
        f" {fewer} % fewer."
    )

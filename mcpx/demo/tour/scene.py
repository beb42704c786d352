"""What the demonstration tells: frozen structs, for people and programs alike.

Made by the scenes, read by the terminal and printed as they are by `--json`. Nothing here does I/O.
Token counts are estimates; durations are seconds unless the name says `_ms`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class DemoFailed(Exception):  # noqa: N818 - a finding, told to the reader as it is
    """Something did not do what the demonstration says it does."""


class Excerpt(msgspec.Struct, frozen=True):
    """A text as it was at work; `text` may be its beginning only, and then says so."""

    caption: str
    text: str


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """About how many tokens the same thing takes in two forms, and what these are.

    The texts are whole, so that anybody can count them with a tokenizer of their own.
    """

    before: int
    after: int
    before_is: str
    after_is: str
    before_text: str
    after_text: str


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one scene puts into a model's context: `direct` with the servers connected without MCPX."""

    what: str
    direct: int
    through_mcpx: int


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was shown, after it has worked."""

    name: str
    title: str
    said: str
    excerpts: tuple[Excerpt, ...] = ()
    tokens: Tokens | None = None
    share: Share | None = None
    facts: dict[str, Any] = {}


class Failure(msgspec.Struct, frozen=True):
    """The scene that did not work, why, and what the log said last."""

    scene: str
    error: str
    log: tuple[str, ...] = ()


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the whole ended. `processes` were started, of which `left` still run (it should be none)."""

    scenes: tuple[Scene, ...]
    took_s: float
    processes: int = 0
    left: tuple[int, ...] = ()
    failed: Failure | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every scene worked and nothing is left."""
        return self.failed is None and self.signal is None and not self.left

    @property
    def exit_code(self) -> int:
        """As the module `mcpx.cli.demo` says."""
        return 128 + self.signal if self.signal is not None else int(not self.ok)


def excerpt(caption: str, text: str, lines: int) -> Excerpt:
    """The first `lines` lines of a text, and how many there are beside."""
    all_lines = text.rstrip().splitlines()
    more = len(all_lines) - lines
    shown = all_lines[:lines] + ([f"... {more} more lines"] if more > 1 else all_lines[lines:])
    return Excerpt(caption, "\n".join(shown))


def fewer_percent(before: int, after: int) -> int:
    """By how many percent `after` is less than `before`, rounded down; negative where it is more."""
    return 100 * (before - after) // before if before else 0

"""The strings of a server's entry, with their variables expanded.

Owns the table of the keys whose strings are expanded, and the rule for what comes out: what is wrong as
written raises, what is wrong only after expansion (a variable that is not set, or that holds nonsense) is a
reason to disable that server. Used by `mcpx.config.transport`; the table also by the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mcpx.config.document import Members
from mcpx.config.expand import expand
from mcpx.config.notices import Notices
from mcpx.config.place import Place
from mcpx.config.values import Check, NamedTexts, Text, Texts

Problem = Callable[[str], str | None]
"""Says what is wrong with a string, without showing it; `None` for a good one."""

URL_KEYS: Final = ("url", "serverUrl", "httpUrl")

_URL: Final = Text(filled=True, pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://|\$\{")

KEYS: Final[dict[str, tuple[Check, str]]] = {
    "command": (Text(filled=True), "The program of a stdio server. `~` at the start is the home folder."),
    "args": (Texts(), "Arguments of the program."),
    "env": (
        NamedTexts("an environment variable", "[^=]+", numbers=True),
        "Environment variables of the program, beside the few it inherits.",
    ),
    "cwd": (Text(filled=True), "Working folder of the program; a relative one starts at this file's folder."),
    "url": (
        _URL,
        "Address of an HTTP server. Without a type, one whose path ends in /sse is reached by SSE.",
    ),
    "serverUrl": (_URL, "Another client's name for url."),
    "httpUrl": (_URL, "Another client's name for url."),
    "headers": (NamedTexts("a header", "[A-Za-z0-9!#$%&'*+.^_`|~-]+"), "Headers of every request."),
}
"""The keys whose strings are expanded: rule and meaning."""


def _nothing(_: str) -> None:
    """Finds nothing wrong."""


class Surroundings(msgspec.Struct, frozen=True):
    """What an entry is read against: the environment, the home folder, and the folder of the file."""

    environ: Mapping[str, str]
    home: str
    folder: str


class Strings:
    """Reads and expands the strings of one entry.

    `reasons` gathers why the server cannot be used, `variables` which were used, with their values.
    """

    def __init__(self, entry: Members, at: Place, around: Surroundings, notices: Notices) -> None:
        self.reasons: list[str] = []
        self.variables: list[tuple[str, str]] = []
        self._entry, self._at, self._around, self._notices = entry, at, around, notices

    def text(self, key: str, problem: Problem) -> str:
        """The string at `key`, which is there."""
        at = self._at.key(key)
        return self._expanded(KEYS[key][0].read(self._entry[key], at), at, problem)

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings at `key`, empty when absent."""
        at = self._at.key(key)
        given = KEYS[key][0].read(self._entry.get(key, []), at)
        return tuple(self._expanded(each, at.item(index)) for index, each in enumerate(given))

    def named(self, key: str, problem: Problem = _nothing) -> dict[str, str]:
        """The object of strings at `key`, empty when absent."""
        at = self._at.key(key)
        given = KEYS[key][0].read(self._entry.get(key, Members([])), at)
        return {name: self._expanded(each, at.key(name), problem) for name, each in given.items()}

    def _expanded(self, written: str, at: Place, problem: Problem = _nothing) -> str:
        if "${" not in written:
            if wrong := problem(written):
                raise at.error(wrong)
            return written
        done = expand(written, environ=self._around.environ, home=self._around.home)
        self.variables += done.used
        if done.unread:
            self._notices.say(at, "a ${...} that names no variable stays as written; $${ says so on purpose")
        wrong = None if done.problems else problem(done.text)
        self.reasons += [f"{each} (used in {at.path})" for each in done.problems]
        self.reasons += [f"{wrong} (in {at.path}, after expansion)"] if wrong else []
        return done.text

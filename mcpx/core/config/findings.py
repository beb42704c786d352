"""Everything that is wrong or odd with a configuration file, each with its line, column and an excerpt.

`examine` is for `mcpx check` and `mcpx doctor`: it never raises for what the file holds, and shows no value
that may be a secret. `load` reads the same file and stops at what makes it unusable. In an excerpt, keys and
the values of harmless keys are shown as they are; of other values only the punctuation, so that the columns
stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from mcpx.core.config.document import JSONSyntaxError, LocatedError, Location, as_text
from mcpx.core.config.load import read_config
from mcpx.core.config.model import Config, Settings
from mcpx.core.config.per_server import PerServer
from mcpx.core.config.reading import Reading, read
from mcpx.core.config.redaction import redactor_of
from mcpx.core.config.sanity import odd_commands, odd_credentials, readable_secrets
from mcpx.core.config.server_config import ServerConfig
from mcpx.core.config.settings import keys
from mcpx.core.config.strings import TYPE_KEYS
from mcpx.core.running.keychain import NOT_INSTALLED
from mcpx.core.text.jsonc import LINE_END, Node, excerpt, line_and_column, line_start, parse
from mcpx.core.text.nearest import nearest
from mcpx.errors import ConfigError
from mcpx.paths import config_file

_SHOWN: Final = {
    "command",
    "cwd",
    "name",
    "disabled",
    "enabled",
    *TYPE_KEYS,
    *keys(PerServer),
    *keys(Settings),
}
"""Keys whose values are shown; so is that of a `command` which is misspelt."""
_PIECE: Final = re.compile(
    r"""(?P<value>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[\u201c\u201d\u201e][^\u201c\u201d]*[\u201c\u201d]?
    |//.*|/\*.*|[^\s"'{}\[\]:,]+)(?P<colon>\s*:)?|,""",
    re.VERBOSE,
)
_PLAIN: Final = re.compile(
    r"""true|false|null|-?[\d.]{1,6}|["']--?[A-Za-z][\w-]{0,29}["']|["']\$\{[A-Za-z_]\w*(?::\w[\w.-]*)?\}["']"""
)
"""Values that are no secrets: literals, short numbers, options of a command line, references."""
_LETTER: Final = re.compile(r"\w")
Level = Literal["error", "warning", "note"]
_PLACE: Final = re.compile(r":(\d+):(\d+)$")
_OF_COMMANDS: Final = ".command"  # the end of the path of a command that is not found


def safe_excerpt(text: str, offset: int) -> str:
    """The line of that offset with a caret beneath, long ones cut, what may be a secret as `***`."""
    start = line_start(text, offset)
    end = found.start() if (found := LINE_END.search(text, start)) else len(text)
    return excerpt(text[:start] + _masked(text[start:end]) + text[end:], offset)


def safe_text(text: str) -> str:
    """A text, each line of it as in an excerpt."""
    return "\n".join(map(_masked, text.splitlines()))


def _masked(line: str) -> str:
    """The line in the same length, its values masked; its keys and harmless values as they are."""
    key = ""
    done: list[str] = []
    last = 0
    for found in _PIECE.finditer(line):
        done.append(line[last : found.start()])
        last = found.end()
        value = found["value"]
        if value is None:  # a comma
            key = ""
        elif found["colon"] and not value.startswith(("//", "/*")):
            key = value.strip("\"'\u201c\u201d\u201e")
        elif not (key in _SHOWN or _PLAIN.fullmatch(value) or nearest(key, ["command"], typos_only=True)):
            done.append(_LETTER.sub("*", found[0]))
            continue
        done.append(found[0])
    return "".join(done) + line[last:]


# --- the findings


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong (`error`), was hardly meant so (`warning`), or is good to know (`note`).

    `line` and `column` count from 1, `path` is as `$.mcpServers.git.args[1]`; None for the whole file.
    `excerpt` is the line and a caret beneath. `server` is the one whose entry it is in.
    """

    level: Level
    text: str
    path: str | None = None
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None
    server: str | None = None
    missing: str | None = None
    """The name of what is not there, where that keeps the server from being started."""

    @property
    def keeps_from_starting(self) -> bool:
        """True if something is not there that its server needs: a variable, a folder, its command."""
        is_of_command = (self.path or "").endswith(_OF_COMMANDS)
        return (
            self.level == "warning"
            and self.server is not None
            and (self.missing is not None or is_of_command)
        )


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """A file's findings in the order of its lines. `config` is None if it cannot be used at all."""

    source: str
    findings: tuple[Finding, ...]
    config: Config | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The mistakes."""
        return tuple(finding for finding in self.findings if finding.level == "error")


def examine(
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    resolve: bool = True,
    commands: bool = False,
) -> Examination:
    """Look at the file that `load` would read. `resolve` as in `parse`; it may block for some seconds.

    A command that prints a secret is run only if `commands` says so: the file may be somebody else's.
    """
    file = config_file(path, environ=environ)
    source, text = str(file), ""
    try:
        text = as_text(read_config(path, environ=environ).data, where=source)
        folder = file.absolute().parent
        reading = read(text, where=source, environ=environ, folder=folder, resolve=resolve, commands=commands)
    except LocatedError as error:  # no object
        return Examination(
            source=source, findings=tuple(_placed([_unplaced("error", error.at, error.problem)], text))
        )
    except ConfigError as error:
        return Examination(source=source, findings=(_unread(error, text),))
    findings = _placed(_found(reading), text)
    if note := readable_secrets(reading.config):
        findings.append(Finding(level="note", text=note))
    usable = not reading.spoiling
    return Examination(source=source, findings=tuple(findings), config=reading.config if usable else None)


_Unplaced = tuple[Location, Finding]
"""A finding before its line is known, and its place."""


def _unplaced(
    level: Level, at: Location, text: str, server: str | None = None, missing: str | None = None
) -> _Unplaced:
    return at, Finding(level=level, text=text, path=at.path, server=server, missing=missing)


def _found(reading: Reading) -> Iterator[_Unplaced]:
    for mistake in reading.notices.mistakes:
        yield _unplaced("error", mistake.at, mistake.problem, mistake.server)
    mistaken = [mistake.at for mistake in reading.notices.mistakes]
    for remark in reading.notices.remarks():
        if remark.at in mistaken:
            continue
        level: Level = "warning" if remark.is_warning else "note"
        server_at = next((name for name, place in reading.places.items() if place.holds(remark.at)), None)
        yield _unplaced(level, remark.at, remark.text, server_at)
    for name, not_run in reading.not_run.items():
        for command in not_run:
            yield _unplaced("note", reading.places[name], f"its command was not run: {command}", name)
    if reading.config.token_store == "keychain" and find_spec("keyring") is None:  # noqa: S105 - a kind
        yield _unplaced("warning", Location(reading.config.source).key("token_store"), NOT_INSTALLED)
    for server in (*reading.config.servers.values(), *reading.config.peers.values()):
        yield from _lacking(server)
    for server in reading.config.servers.values():
        for inside, odd in (*odd_commands(server, reading.config), *odd_credentials(server)):
            at = reading.places[server.name]
            text = redactor_of(server)(odd)
            missing = None if (program := server.transport.program) is None else program.cwd
            yield _unplaced(
                "warning",
                Location(at.source, (*at.steps, *inside)),
                text,
                server.name,
                redactor_of(server)(missing) if missing and inside == ("cwd",) else None,
            )


def _lacking(server: ServerConfig) -> Iterator[_Unplaced]:
    """Yield what a server lacks: it is not started until that is there."""
    for each in server.obstacles:
        if not each.is_mistake:
            text = f"{each.problem}: {each.remedy}" if each.remedy else each.problem
            yield _unplaced("warning", each.at, text, server.name, each.missing or None)


def _placed(found: Iterable[_Unplaced], text: str) -> list[Finding]:
    """Return the findings in the order of their places in the text."""
    tree = parse(text)
    offsets = sorted(((_offset(tree, at), each) for at, each in found), key=lambda each: each[0])
    return [_at(text, offset, each) for offset, each in offsets]


def _offset(tree: Node, at: Location) -> int:
    """Return the offset of a place (of its key, if that is meant), or of the nearest one above it."""
    for known in range(len(at.steps), -1, -1):
        node = tree.find(at.steps[:known])
        if node is None:
            continue
        last = at.steps[-1] if at.steps else None
        if known == len(at.steps) and at.is_key and isinstance(last, str):
            above = tree.find(at.steps[:-1])
            member = above.member(last) if above else None
            return member.key_start if member else node.start
        return node.start
    return tree.start


def _at(text: str, offset: int, finding: Finding) -> Finding:
    line, column = line_and_column(text, offset)
    return replace(finding, line=line, column=column, excerpt=safe_excerpt(text, offset))


def _unread(error: ConfigError, text: str) -> Finding:
    """The finding for a file that could not be read, or whose syntax is wrong."""
    if isinstance(error, JSONSyntaxError):
        return _at(text, error.offset, Finding(level="error", text=error.problem))
    if place := _PLACE.search(error.where):
        return Finding(level="error", text=error.problem, line=int(place[1]), column=int(place[2]))
    return Finding(level="error", text=error.problem)

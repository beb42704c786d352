"""Reading audit lines: those that fit a selection, of all chains, in the order of their time.

Files are read a line at a time, so that what is held in memory is what was asked for, however long the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.events.audit.chain_files import UNREADABLE, Segment, segments

Number = float | int | None
TAIL_BYTES: Final = 256 << 10
MAX_LINE_BYTES: Final = 1 << 20  # of what can be a line; what is longer is none


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a line. A line of the log on itself has a time, a kind, a name and `what` alone."""

    time: str
    kind: str = ""
    name: str = ""
    client: str | None = None
    user: str | None = None
    transport: str | None = None
    profile: str | None = None
    token: str | None = None
    server: str = ""
    arguments: list[str] | None = None
    outcome: str = ""
    code: str | None = None
    ms: Number = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    approval: str | None = None
    rule: str | None = None
    what: str = ""
    raw: bytes = b""
    """The line as it stands in the file."""
    gateway: str | None = None
    """Whose log it stands in, where the logs of several gateways are read."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are wanted. Each that is None fits all."""

    server: str | None = None
    tool: str | None = None
    """The name of a tool, a prompt, or the URI of a resource."""
    client: str | None = None
    """The name that a client calls itself, with or without its version."""
    code: str | None = None
    """A code, or an outcome."""
    since: str | None = None
    """The earliest time, as it stands in the lines."""

    def fits(self, line: Line) -> bool:
        """Return True if a line is wanted."""
        return (
            self.server in {None, line.server}
            and self.tool in {None, line.name}
            and (self.client is None or self.client in {line.client, (line.client or "").partition("/")[0]})
            and self.code in {None, line.code, line.outcome}
            and (self.since is None or line.time >= self.since)
        )


_decode: Final = msgspec.json.Decoder(Line).decode


def last_lines(folder: Path, wanted: Selection, most: int) -> list[Line]:
    """The last lines that are wanted, at most that many, by their time.

    Raises:
        OSError: They cannot be read.
    """
    of_chains: dict[int, list[Segment]] = {}
    for segment in segments(folder):
        of_chains.setdefault(segment.chain, []).append(segment)
    found: list[Line] = []
    for files in of_chains.values():
        found += _last_of_chain(files, wanted, most)
        found = sorted(found, key=lambda line: line.time)[-most:]
    return found


def tail(folder: Path, most: int) -> list[Line]:
    """The last lines of all chains, at most that many, as far as they are in the last `TAIL_BYTES` of each.

    Raises:
        OSError: They cannot be read.
    """
    last = {segment.chain: segment for segment in segments(folder)}
    found: list[Line] = []
    for segment in last.values():
        try:
            size = segment.path.stat().st_size
        except FileNotFoundError:
            continue
        data = _read(segment.path, max(0, size - TAIL_BYTES))
        found += _lines(data)[-most:]  # the first may be half of one, which is none
    return sorted(found, key=lambda line: line.time)[-most:]


def _last_of_chain(files: list[Segment], wanted: Selection, most: int) -> list[Line]:
    found: list[Line] = []
    for file in reversed(files):
        last, first = deque[Line](maxlen=most), None
        for line in _each_line(file.path):
            first = first or line
            if wanted.fits(line):
                last.append(line)
        found = [*last, *found][-most:]
        if len(found) >= most or (
            first is not None and wanted.since is not None and _ended(first) < wanted.since
        ):
            break  # what stands before has ended before
    return found


def _ended(line: Line) -> str:
    """When the call of a line had ended; the lines stand in that order."""
    try:
        at = datetime.fromisoformat(line.time) + timedelta(milliseconds=line.ms or 0)
    except (ValueError, OverflowError):
        return line.time
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _each_line(path: Path) -> Iterator[Line]:
    """The lines of a file, one after the other; what is no line is left out."""
    try:
        with path.open("rb") as file:
            is_middle = False
            while raw := file.readline(MAX_LINE_BYTES):
                is_whole = raw.endswith(b"\n")
                if is_whole and not is_middle and (line := _line(raw[:-1])) is not None:
                    yield line
                is_middle = not is_whole
    except FileNotFoundError:  # it was removed, because there is enough of all
        return


def _read(path: Path, offset: int) -> bytes:
    """The whole lines of a file from an offset on."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:  # it was removed, because there is enough of all
        return b""
    return data[: data.rfind(b"\n") + 1]


def _lines(data: bytes) -> list[Line]:
    """The lines; what is no line is left out."""
    return [line for raw in data.splitlines() if (line := _line(raw)) is not None]


def _line(raw: bytes) -> Line | None:
    try:
        return msgspec.structs.replace(_decode(raw), raw=raw, gateway=None)
    except UNREADABLE:
        return None


class Follower:
    """Yield the lines that are written from now on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets = {segment.path: segment.path.stat().st_size for segment in segments(folder)}

    def more(self, wanted: Selection) -> list[Line]:
        """The lines since the last time that are wanted.

        Raises:
            OSError: They cannot be read.
        """
        found: list[Line] = []
        for segment in segments(self._folder):
            offset = self._offsets.get(segment.path, 0)
            data = _read(segment.path, offset)
            self._offsets[segment.path] = offset + len(data)
            found += [line for line in _lines(data) if wanted.fits(line)]
        return sorted(found, key=lambda line: line.time)

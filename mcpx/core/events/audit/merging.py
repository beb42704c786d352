"""The audit logs of several gateways as one: their lines by time, and each log verified on its own.

A gateway's log is found by its state folder, or by the folder `audit` in it, wherever that is mounted or was
copied to. Nothing is written. The order is that of the times in the lines, each by the clock of its gateway:
`clocks_ahead` names those that are ahead of this machine's. A line that stands in two of the logs, one of
which is a copy of the other, is there once. Every function blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import asdict, replace

from mcpx.core.events.audit.chain_files import chain_numbers, known_chains
from mcpx.core.events.audit.reading import Follower, Line, Selection, last_lines
from mcpx.core.events.audit.verifying import Problem, Verified, verify
from mcpx.errors import MCPXError
from mcpx.paths import AUDIT_FOLDER

HERE: Final = "here"
"""The name of this machine's own log among the others."""
NO_LOG: Final = "there is no audit log"
CLOCK_TOLERANCE_S: Final = 2.0


class NoSuchLogError(MCPXError):
    """A folder is not there, or two logs were given one name."""


class Log(NamedTuple):
    """The log of one gateway."""

    gateway: str
    folder: Path
    """With the chains; its parent is the state folder."""

    @property
    def is_there(self) -> bool:
        """Return True if there is a log, or was one."""
        return bool(chain_numbers(self.folder)) or (known_chains(self.folder) or 0) > 0


class GatewayVerified(Verified, kw_only=True):
    """The findings in the log of one gateway."""

    gateway: str
    folder: str


# --- which logs


def logs_of(given: Iterable[str], own: Path) -> list[Log]:
    """The logs that `FOLDER` and `NAME=FOLDER` name, and the own one where there is one; each once.

    Those without a name are called by the end of their path, as much of it as tells them apart.

    Raises:
        NoSuchLogError: A folder is not there; a name is given to two.
    """
    names: dict[Path, str] = {}
    unnamed: list[Path] = []
    for text in given:
        name, folder = _named(text)
        if name and names.get(folder, name) != name:
            raise NoSuchLogError(f"{folder.parent} is given two names, {names[folder]} and {name}")
        if name and folder not in names and name in names.values():
            raise NoSuchLogError(f"two folders are called {name}")
        if name:
            names[folder] = name
        elif folder not in unnamed:
            unnamed.append(folder)
    folders = list(dict.fromkeys((*names, *unnamed)))
    own = own.resolve()
    if own not in folders and Log(HERE, own).is_there:
        names[own] = HERE if HERE not in names.values() else str(own.parent)
        folders.insert(0, own)
    tails = _tails([each for each in folders if each not in names], set(names.values()))
    return [Log(names.get(each) or tails[each], each) for each in folders]


def _named(text: str) -> tuple[str, Path]:
    """The name and the folder of the chains that `FOLDER` or `NAME=FOLDER` says."""
    name, equals, rest = text.partition("=")
    is_named = bool(equals and name and rest) and "/" not in name and not Path(text).is_dir()
    path = Path(rest if is_named else text).expanduser()
    if not path.is_dir():
        raise NoSuchLogError(f"{path}: no such folder; --merge takes the state folder of a gateway")
    path = path.resolve()
    inner = path / AUDIT_FOLDER
    if inner.is_dir():
        path = inner.resolve()
    elif path.name != AUDIT_FOLDER and not chain_numbers(path):
        path = inner
    return (name if is_named else ""), path


def _tails(folders: Sequence[Path], taken: set[str]) -> dict[Path, str]:
    """The ends of the paths of the state folders that tell them apart, from what is taken too."""
    states = {each: each.parent if each.name == AUDIT_FOLDER else each for each in folders}
    depth = max((len(each.parts) for each in states.values()), default=0)
    for count in range(1, depth + 1):
        found = {each: "/".join(state.parts[-count:]).lstrip("/") for each, state in states.items()}
        if len({*found.values(), *taken}) == len(found) + len(taken):
            return found
    return {each: str(each) for each in folders}


# --- their lines


def last_of_all(logs: Sequence[Log], wanted: Selection, most: int) -> list[Line]:
    """The last lines of all logs that are wanted, at most that many, by their time, each with its gateway.

    Raises:
        OSError: One cannot be read.
    """
    found: list[Line] = []
    for log in logs:
        found += (replace(line, gateway=log.gateway) for line in last_lines(log.folder, wanted, most))
        found = _in_order(found)[-most:]
    return found


class FollowerOfAll:
    """Yield the lines that are written to any of the logs from now on."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._followers = [(log.gateway, Follower(log.folder)) for log in logs]

    def more(self, wanted: Selection) -> list[Line]:
        """The lines since the last time that are wanted, by their time.

        Raises:
            OSError: They cannot be read.
        """
        return _in_order(
            replace(line, gateway=gateway)
            for gateway, follower in self._followers
            for line in follower.more(wanted)
        )


def _in_order(lines: Iterable[Line]) -> list[Line]:
    """By time; a line that is there twice is there once."""
    once: dict[bytes, Line] = {}
    for line in lines:
        once.setdefault(line.raw, line)
    return sorted(once.values(), key=lambda line: line.time)


def clocks_ahead(lines: Iterable[Line], now: datetime) -> dict[str, float]:
    """By how many seconds the clocks of gateways are ahead of this machine's, by lines of a time to come."""
    ahead: dict[str, float] = {}
    for line in lines:
        try:
            seconds = (datetime.fromisoformat(line.time).astimezone(UTC) - now).total_seconds()
        except (ValueError, OverflowError):
            continue
        if line.gateway is not None and seconds > CLOCK_TOLERANCE_S:
            ahead[line.gateway] = max(seconds, ahead.get(line.gateway, 0.0))
    return ahead


# --- whether they are whole


def verify_all(logs: Sequence[Log]) -> list[GatewayVerified]:
    """Look at all chains of each log; one that cannot be read, or is not there, is a problem of its own."""
    return [_verified(log) for log in logs]


def _verified(log: Log) -> GatewayVerified:
    try:
        found = verify(log.folder) if log.is_there else Verified(problems=[Problem("", None, NO_LOG)])
    except OSError as error:
        found = Verified(problems=[Problem("", None, f"it cannot be read: {error.strerror or error}")])
    return GatewayVerified(gateway=log.gateway, folder=str(log.folder), **asdict(found))

"""The processes of a server: all that carry its mark, wherever they are, and what these have started.

A server is started with a random mark in the variable `MCPX_CHILD`, which its descendants inherit: also those
that begin a session of their own (setsid(2)), as browsers and their like do, and those whose parents have
died. One look at the process table finds them; that is cheaper than to be the reaper of descendants
(prctl(2), PR_SET_CHILD_SUBREAPER) and walk the tree, and it finds them after a crash of MCPX as well. One
that has thrown its environment away is known by its descent, if it is seen while its parents live (`note`).

One session is left alone: that of a browser which a server has opened for the person, to sign in for instance
(`xdg-open URL`). It is the person's, with all that is open in it. A browser that a program drives shows that
in its command line.

A process is signalled only if it is proven to be the server's, by the mark or by its start time, while it is
held (`mcpx.core.system.reaping`), because its id may be reused. A mark is random: no other process has it by
chance.

Used by the ledger, which sweeps after a crash, and by each running child. Standard library only. Without
/proc (macOS) the marks are those that `ps` shows: not those of programs that come with the system.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import suppress
from typing import Final

from mcpx.core.system import ps
from mcpx.core.system.environment import CHILD_MARK
from mcpx.core.system.linux import PROC, has_proc
from mcpx.core.system.processes import commands_of, descendants, start_time, start_times
from mcpx.core.system.reaping import signal_if

_ENVIRON: Final = f"{PROC}/%s/environ"
_ENVIRON_BYTES: Final = 1 << 14  # at a time
_NAMED: Final = CHILD_MARK.encode() + b"="
_OPENERS: Final = frozenset({"xdg-open", "gio", "kde-open", "kde-open5", "kioclient", "exo-open", "wslview"})
_BROWSERS: Final = frozenset(
    {
        *("sensible-browser", "x-www-browser", "chrome", "google-chrome", "google-chrome-stable", "chromium"),
        *("chromium-browser", "firefox", "firefox-esr", "firefox-bin", "brave", "brave-browser", "opera"),
        *("vivaldi", "vivaldi-bin", "microsoft-edge", "microsoft-edge-stable", "msedge", "epiphany"),
        *("konqueror", "falkon", "librewolf", "zen-browser", "thorium-browser"),
    }
)
_DRIVEN: Final = (
    *("--remote-debugging", "--headless", "-headless", "--user-data-dir", "--marionette", "-marionette"),
    "--enable-automation",
)
"""Beginnings of options by which a program drives a browser."""
_URLS: Final = ("http://", "https://")
POLL_S: Final = 0.02
MAX_KILL_ROUNDS: Final = 10  # for those that were forked while the others were killed

Marks = Mapping[int, str]
"""The mark of each process that carries one."""
_Instance = tuple[str, int]
"""A process for as long as it lives: its id, and the inode of its folder in /proc."""
SETTLED_S: Final = 0.1  # after which it is believed of a process which mark it carries, if any
EMPTY_S: Final = 5.0  # the same of one without an environment: it is a thread of the kernel
_Believed = tuple[float, str | None]
"""The mark of a process, and from when on it is believed."""
_known: Final[dict[_Instance, _Believed]] = {}  # by the last look
_UNSEEN: Final = math.inf, None


def look(*, exact: bool = True) -> Marks:
    """Look at the process table once, as far as we may.

    About 8 microseconds for each process that was not seen before, 1 for any other: its mark is
    remembered, or that it carries none. Not at once, for the environment is another one, or empty, for an
    instant while a program is started in the place of another. An `exact` look reads anew whatever carries a
    mark: it may have ended, or thrown that away.
    """
    if not has_proc():
        return ps.with_variable(CHILD_MARK)
    found: dict[int, str] = {}
    now, buffer, known = time.monotonic(), bytearray(_ENVIRON_BYTES), dict[_Instance, _Believed]()
    for entry in os.scandir(PROC):
        if not (name := entry.name).isdigit():
            continue
        instance = name, entry.inode()
        before = believed_at, mark = _known.get(instance, _UNSEEN)
        if believed_at > now or (exact and mark is not None):
            if (environ := _environ_of(name, buffer)) is None:
                continue
            mark = _mark_in(environ)
            before = min(believed_at, now + (SETTLED_S if environ else EMPTY_S)), mark
        known[instance] = before
        if mark is not None:
            found[int(name)] = mark
    _known.clear()
    _known.update(known)
    return found


def mark_of(pid: int) -> str | None:
    """The mark that a process was started with (proc(5), environ); None without one, or if it is unknown."""
    environ = _environ_of(str(pid), bytearray(_ENVIRON_BYTES))
    return None if environ is None else _mark_in(environ)


def _environ_of(pid: str, buffer: bytearray) -> bytes | None:
    """The environment of a process; None where it may not be read."""
    try:
        file = os.open(_ENVIRON % pid, os.O_RDONLY)
    except OSError:
        return None
    try:
        size = os.readv(file, [buffer])
        environ = bytes(buffer[:size])
        while size == _ENVIRON_BYTES:
            size = os.readv(file, [buffer])
            environ += buffer[:size]
    except OSError:  # it has ended meanwhile
        return None
    finally:
        os.close(file)
    return environ


def _mark_in(environ: bytes) -> str | None:
    if _NAMED not in environ:
        return None
    _, found, rest = (b"\0" + environ).partition(b"\0" + _NAMED)
    return os.fsdecode(rest.partition(b"\0")[0]) if found else None


class Family:
    """The processes with these marks, and `group`, the process group of a leader that is still ours.

    `leaders` are the processes that were started with the marks.
    """

    def __init__(
        self, marks: Iterable[str], *, group: int | None = None, leaders: Collection[int] = ()
    ) -> None:
        own = os.environ.get(CHILD_MARK)  # of an MCPX that is the server of another one
        self._marks = frozenset(mark for mark in marks if mark and mark != own)
        self._group = group
        self._leaders = leaders if group is None else (group, *leaders)
        self._noted: dict[int, str] = {}  # descendants with their start times
        self._seen: set[int] = set()  # those with the mark so far
        self._started: dict[int, str] = {}  # of those with the mark, where it cannot be looked up again

    def note(self, pid: int) -> None:
        """Take in the descendants of a process that is known to be the server's."""
        if (started := start_time(pid)) is not None:
            self._noted |= descendants(pid, started)

    def living(self, marks: Marks) -> set[int]:
        """Return those that live, by a look that was just made; the group as its negative number."""
        found = {pid for pid, mark in marks.items() if mark in self._marks and pid not in {1, os.getpid()}}
        if has_proc():  # what was looked at may be remembered
            found = {pid for pid in found if mark_of(pid) in self._marks}
        else:
            self._started |= start_times(found - self._started.keys())
        for pid in found - self._seen:
            self.note(pid)
        self._seen |= found
        now = start_times(self._noted.keys())
        found |= {pid for pid, started in self._noted.items() if now.get(pid) == started}
        found -= _of_persons_browser(found, self._leaders)
        if self._group is not None and _is_there(-self._group):
            found = {pid for pid in found if not _is_in(pid, self._group)} | {-self._group}
        return found

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to one of those that live, if it still is the server's."""
        with suppress(OSError):  # it is gone, or not ours to signal
            if pid < 0:
                os.kill(pid, number)
                return
            signal_if(pid, number, lambda: self._is_proven(pid))

    def _is_proven(self, pid: int) -> bool:
        known = self._noted.get(pid) or self._started.get(pid)
        if known is not None and start_time(pid) == known:
            return True
        return has_proc() and mark_of(pid) in self._marks

    def ending(self, term_timeout_s: float) -> Generator[float, set[int]]:
        """End them: SIGTERM, SIGKILL to what is left then, and again to what was forked meanwhile.

        Yields the seconds after which it wants to be sent who lives.
        """
        found = yield 0.0
        for pid in found:
            self.signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + term_timeout_s
        while found and time.monotonic() < deadline:
            found = yield POLL_S
        for _ in range(MAX_KILL_ROUNDS):
            if not found:
                return
            for pid in found:
                self.signal(pid, signal.SIGKILL)
            found = yield POLL_S

    def end(self, term_timeout_s: float) -> set[int]:
        """End them, and wait for that; return those that were found. Blocks."""
        steps, seen = self.ending(term_timeout_s), set[int]()
        with suppress(StopIteration):
            pause = next(steps)
            while True:
                time.sleep(pause)
                seen |= (living := self.living(look(exact=False)))
                pause = steps.send(living)
        return seen


def _of_persons_browser(pids: set[int], leaders: Collection[int]) -> set[int]:
    """Return those in the session of a browser that was opened for the person, or of what has opened it.

    That is none that a server itself leads.
    """
    sessions = {pid: session for pid in pids if (session := _session_of(pid)) is not None}
    commands = commands_of({*sessions, *sessions.values()})
    opened = {_session_of(pid) for pid, words in commands.items() if _opens_for_person(words)} - {*leaders}
    return {pid for pid, session in sessions.items() if session in opened}


def _opens_for_person(words: list[str]) -> bool:
    """Return True for the command line of a browser, or of its opener, with an address and not driven."""
    if not any(word.startswith(_URLS) for word in words) or any(word.startswith(_DRIVEN) for word in words):
        return False
    names = [os.path.basename(word) for word in words[:3]]  # an opener may be a script
    return any(name in _OPENERS or name in _BROWSERS for name in names)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # it is gone
        return None


def _is_in(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of a group: some of it
        pass
    return True

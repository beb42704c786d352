"""MCPX as one user has it, and the findings of the checks that look at it.

Facts are found out when a check first asks for them. A finding may hold a fix.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from mcpx.core.config import Config
from mcpx.core.config.findings import Examination, examine
from mcpx.core.daemon.control_client import request
from mcpx.core.running import Environment, own
from mcpx.core.store.paths import DaemonPaths, LockOwner, daemon_paths, lock_owner
from mcpx.errors import DaemonError, MCPXError
from mcpx.paths import config_file, home

_PROGRAM: Final = re.compile(r"(?:mcpx|chmod|kill|export) ")
_COMMAND: Final = re.compile(r"(?:mcpx|chmod|kill|export) (?:(?![;,] ).)+")
_PLACEHOLDER: Final = re.compile(r"(?<!\S)[A-Z]{2,}(?!\S)")
Level = Literal["ok", "note", "wrong"]
"""`note`: worth knowing, works all the same. `wrong`: something does not work, or is not safe."""
STATUS_TIMEOUT_S: Final = 3.0  # for a daemon to say how it is; it does so at once
START_TIMEOUT_S: Final = 30.0  # for a server to start, unless the user says otherwise


class Fix(NamedTuple):
    """A change that is safe to make without understanding more of the user's intentions."""

    description: str
    """What is done, as one would type it where that is possible."""
    apply: Callable[[], object]
    """Makes the change. May raise OSError or MCPXError, whose text is shown."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a check has found out.

    `subject` is what it is about: a server, a client, a file. `advice` is a command to type, or a sentence.
    `details` are plain JSON for programs; secrets are in none of the texts.
    """

    level: Level
    subject: str
    text: str
    advice: str | None = None
    fix: Fix | None = None
    details: dict[str, Any] = {}

    @property
    def command(self) -> str | None:
        """The command that the advice is, or ends with after a colon; None where none runs as it stands."""
        words, _, last = (self.advice or "").rpartition(": ")
        for text in (self.advice or "", "" if _PROGRAM.match(words) else last):
            if _COMMAND.fullmatch(text) and not _PLACEHOLDER.search(text):
                return text
        return None


def ok(subject: str, text: str, **details: Any) -> Finding:
    """Return a finding that says that all is well."""
    return Finding(level="ok", subject=subject, text=text, details=details)


def note(subject: str, text: str, advice: str | None = None, *, fix: Fix | None = None) -> Finding:
    """Return a finding that is worth knowing."""
    return Finding(level="note", subject=subject, text=text, advice=advice, fix=fix)


def wrong(
    subject: str, text: str, advice: str | None = None, *, fix: Fix | None = None, **details: Any
) -> Finding:
    """Return a finding that has to be mended."""
    return Finding(level="wrong", subject=subject, text=text, advice=advice, fix=fix, details=details)


# --- what is examined


class Installation:
    """One user's MCPX.

    `config_path` is the configuration that the user names, if any. Servers are started only if `starts`, and
    get `timeout_s` at most.
    """

    def __init__(
        self,
        config_path: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        starts: bool = True,
        timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.environ = environ
        self.starts = starts
        self.timeout_s = timeout_s
        self.named = config_path
        self.file = config_file(config_path, environ=environ)
        self.failed: dict[str, bool] = {}
        """The servers that cannot get ready, as doctor has seen itself, and whether they want a sign-in."""

    @property
    def home(self) -> Path:
        """The user's home folder, whether it exists or not."""
        return Path(home(self.environ))

    def command(self, *words: str) -> str:
        """Return what to type for an MCPX command on this configuration."""
        named = () if self.named is None else ("--config", self.named)
        return shlex.join(("mcpx", *words, *named))

    # --- the configuration

    def is_examined(self, path: str | Path) -> bool:
        """Return True if a path leads to the configuration that is examined."""
        return os.path.realpath(path) == os.path.realpath(self.file)

    @cached_property
    def examined(self) -> Examination:
        """All that is wrong or odd with the configuration."""
        return examine(self.named, environ=self.environ, commands=self.starts)

    @property
    def config(self) -> Config | None:
        """The configuration, if it can be used."""
        return self.examined.config

    @property
    def environment(self) -> Environment:
        """The environment of the servers: the person's, where the configuration can be used."""
        loaded = self.config
        return (loaded.environment if loaded else None) or own(self.environ)

    # --- the daemon

    @cached_property
    def found_paths(self) -> DaemonPaths | DaemonError:
        """The files of the daemon, or why it can have none."""
        try:
            return daemon_paths(self.named)
        except DaemonError as error:
            return error

    @property
    def paths(self) -> DaemonPaths | None:
        """The files of the daemon, if it can have any."""
        return self.found_paths if isinstance(self.found_paths, DaemonPaths) else None

    @cached_property
    def owner(self) -> LockOwner | None:
        """The daemon's process, if one runs."""
        return lock_owner(self.paths.lock) if self.paths else None

    @cached_property
    def answer(self) -> dict[str, Any] | MCPXError | None:
        """The daemon's status, why it gives none, or None if nobody listens."""
        if self.paths is None:
            return None
        try:
            return request(self.paths, {"mcpx": "status"}, within=STATUS_TIMEOUT_S)
        except MCPXError as error:
            return error

    @property
    def status(self) -> dict[str, Any] | None:
        """The daemon's status, if it answers."""
        return self.answer if isinstance(self.answer, dict) else None

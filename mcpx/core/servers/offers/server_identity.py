"""The identity of a server, as a digest: two that have the same one can be expected to offer the same.

Everything of the server's entry that reaches it counts (its name, how it is started or reached, environment
and headers, the era, whose sessions it has), and so do the program that its command names, and a script among
the arguments, by path, size and time of change: an upgrade in place is another server. Settings that only say
when it runs, or how long is waited for it, do not count. Nothing can be read out of a digest. Blocks for a
few calls of the system.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

from mcpx.core.config import Http, Placed, ServerConfig, Sse, Stdio
from mcpx.core.running import Environment, in_force

MAX_ARGUMENTS: Final = 64  # that are looked at for a script
_SCRIPTS: Final = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".sh", ".jar")
_FIELDS: Final = ("name", "transport", "era", "sessions", "auto_describe")


def server_identity(server: ServerConfig) -> str:
    """The digest, in hexadecimal digits."""
    known = [[field, msgspec.to_builtins(getattr(server, field))] for field in _FIELDS]
    if isinstance(server.transport, Placed):  # its programs are on the nodes
        known[1][1] = ["placed", msgspec.to_builtins(server.transport.stdio)]
        known[1][1][1] = _as_started(known[1][1][1])
    if isinstance(server.transport, Stdio):
        known[1][1] = _as_started(known[1][1])
    if isinstance(server.transport, Http | Sse) and (program := known[1][1].pop("program")) is not None:
        known[1][1]["program"] = _as_started(program)
    if (started := server.transport.program) is not None:
        known.append(["programs", list(_programs(started))])
    written = json.dumps(known, sort_keys=True)  # ASCII: values may hold bytes that are no UTF-8
    return hashlib.sha256(written.encode()).hexdigest()


def _as_started(stdio: dict[str, object]) -> dict[str, object]:
    """A command without what does not make another server of it; nor is an empty setting a difference."""
    without = {"limits"} if stdio["inherit"] else {"limits", "inherit"}
    return {name: value for name, value in stdio.items() if name not in without}


def _programs(stdio: Stdio) -> Iterator[tuple[str | int, ...]]:
    """The folder that the server works in, its command, and its scripts."""
    try:
        folder = stdio.cwd or os.getcwd()
    except FileNotFoundError:
        folder = ""
    yield (folder,)
    found = program_of(stdio, in_force())
    yield from _file(found or os.path.join(folder, stdio.command), any_kind=True)
    for argument in stdio.args[:MAX_ARGUMENTS]:
        yield from _file(os.path.join(folder, argument), any_kind=argument.endswith(_SCRIPTS))


def program_of(stdio: Stdio, environment: Environment) -> str | None:
    """The file that a server's command runs, in the real folder; None if there is none.

    A version manager may make a link to that folder for each shell.
    """
    found = environment.find(stdio.command, path=stdio.env.get("PATH"), folder=stdio.cwd)
    if found is None:
        return None
    parent, name = os.path.split(found)
    return os.path.join(os.path.realpath(parent), name)


def _file(path: str, *, any_kind: bool) -> Iterator[tuple[str | int, ...]]:
    """Path, size and time of change of a file; one that is not executable only if `any_kind` is welcome.

    A file that is neither may be data, which the server changes itself.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # the latter: a null byte
        return
    if stat.S_ISREG(found.st_mode) and (any_kind or found.st_mode & stat.S_IXUSR):
        yield path, found.st_size, found.st_mtime_ns

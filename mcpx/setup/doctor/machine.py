"""The machine as MCPX needs it: home, folders that are the user's alone, space, descriptors, proxy, clock."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mcpx.core.config import Config, Http, Sse
from mcpx.core.config.urls import is_loopback
from mcpx.core.store.folders import OWNER_ONLY, replaceable_above
from mcpx.core.store.paths import check_runtime_folder, check_state_folder
from mcpx.core.system.limits import descriptors
from mcpx.errors import DaemonError
from mcpx.paths import CONFIGURATIONS, runtime_folder, state_folder
from mcpx.setup.doctor.installation import Finding, Fix, Installation, note, ok, wrong

FULL_BYTES: Final = 5 << 20  # of free space, under which files can soon not be written
LITTLE_BYTES: Final = 200 << 20
LARGE_STATE_BYTES: Final = 1 << 30  # of logs and the like
FEW_DESCRIPTORS: Final = 256  # each server takes three, each client one
MIB: Final = 1 << 20
DAY_S: Final = 86400.0
PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def check_machine(installation: Installation) -> Iterator[Finding]:
    """Check the home folder, MCPX's own folders, space, descriptors, proxies and the clock."""
    yield from _home(installation)
    yield from _folders()
    yield from _space(state_folder())
    yield from _descriptors()
    yield from _proxy(installation.environ, installation.config)
    yield from _clock()


# --- folders


def _home(installation: Installation) -> Iterator[Finding]:
    if not installation.environ.get("HOME"):
        yield note("home", f"HOME is not set; {installation.home} is taken", 'export HOME="$(echo ~)"')
    if not os.path.isdir(installation.home):
        yield wrong("home", f"{installation.home} is no folder", "set HOME to your home folder")


def _folders() -> Iterator[Finding]:
    for problems in (_closed_to_others(), _writable(state_folder()), _writable(runtime_folder())):
        found = list(problems)
        yield from found
        if found:  # the others follow from it
            return
    yield ok("folders", f"{state_folder()} and {runtime_folder()} are yours alone")


def _closed_to_others() -> Iterator[Finding]:
    state, runtime = state_folder(), runtime_folder()
    try:
        check_state_folder()
    except DaemonError as error:
        open_one = replaceable_above(state) or state
        yield wrong(
            "state folder",
            str(error),
            f"chmod go-w {shlex.quote(str(open_one))}",
            fix=_closing(open_one, 0o022),
        )
    if not os.path.exists(runtime):
        return
    try:
        check_runtime_folder(runtime)
    except DaemonError as error:
        yield wrong(
            "runtime folder",
            str(error),
            f"chmod 700 {shlex.quote(str(runtime))}",
            fix=_closing(runtime, 0o077),
        )


def _closing(folder: Path, bits: int) -> Fix | None:
    """Take these permissions from a folder, if they are what is wrong with it and it is the user's."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not found.st_mode & bits:
        return None
    mode = stat.S_IMODE(found.st_mode) & ~bits
    return Fix(f"chmod {mode:o} {shlex.quote(str(folder))}", lambda: folder.chmod(mode | OWNER_ONLY))


def _writable(folder: Path) -> Iterator[Finding]:
    """Write a file where MCPX does, or look whether the folder can be made."""
    if not os.path.exists(folder):
        above = _existing(folder)
        if not os.access(above, os.W_OK | os.X_OK):
            text = f"{folder} cannot be made: {above} cannot be written to"
            yield wrong("folders", text, "name a folder of yours with MCPX_STATE_DIR")
        return
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        text = f"{folder} cannot be written to: {error.strerror}"
        yield wrong("folders", text, "free some space, or name another folder with MCPX_STATE_DIR")


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next((each for each in (folder, *folder.parents) if os.path.exists(each)), Path("/"))


# --- space and descriptors


def _space(folder: Path) -> Iterator[Finding]:
    above = _existing(folder)
    found = os.statvfs(above)
    free = found.f_bavail * found.f_frsize
    text = f"{free / MIB:,.0f} MB are free under {above}"
    if free < FULL_BYTES or (found.f_files and not found.f_favail):
        why = text if free < FULL_BYTES else f"no more files can be made under {above}"
        yield wrong("disk", f"is full: {why}", "free some space, or name another folder with MCPX_STATE_DIR")
    elif free < LITTLE_BYTES:
        yield note("disk", f"is nearly full: {text}")
    else:
        yield ok("disk", text)
    size = sum(_size(path) for path in (folder / CONFIGURATIONS).rglob("*"))
    if size > LARGE_STATE_BYTES:
        yield note("disk", f"{folder / CONFIGURATIONS} holds {size / MIB:,.0f} MB", "look there for old logs")


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _descriptors() -> Iterator[Finding]:
    now, most = descriptors()
    if most is not None and most < FEW_DESCRIPTORS:
        text = f"only {most} files may be open at a time (now {now})"
        yield note("descriptors", text, "ulimit -Hn 4096, as root")


# --- network and time


def _proxy(environ: Mapping[str, str], config: Config | None) -> Iterator[Finding]:
    """Find a proxy that requests to this machine itself would go through."""
    named = [name for name in (*PROXIES, *map(str.lower, PROXIES)) if environ.get(name)]
    excepted = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = {entry.strip().lower() for entry in excepted.split(",")}
    if not named or "*" in hosts or {"localhost", "127.0.0.1"} <= hosts:
        return
    text = f"{named[0]} is set, and NO_PROXY does not except this machine"
    advice = "export NO_PROXY=localhost,127.0.0.1,::1"
    local = [name for name, host in _hosts(config) if is_loopback(host) and host.lower() not in hosts]
    if local:
        yield wrong("proxy", f"{text}: what is sent to {', '.join(local)} goes to the proxy", advice)
    else:
        yield note("proxy", f"{text}: a server on this machine could not be reached over HTTP", advice)


def _hosts(config: Config | None) -> Iterator[tuple[str, str]]:
    for server in config.servers.values() if config else ():
        if server.disabled is None and isinstance(server.transport, Http | Sse):
            yield server.name, urlsplit(server.transport.url).hostname or ""


def _clock() -> Iterator[Finding]:
    written = Path(__file__).stat().st_mtime
    if time.time() < written - DAY_S:
        now = time.strftime("%Y-%m-%d", time.localtime())
        text = f"says {now}, which is before MCPX was installed: certificates will not be accepted"
        yield wrong("clock", text, "set the clock")

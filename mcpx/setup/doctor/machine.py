"""The machine as MCPX needs it, and MCPX as it is installed there.

Home, folders that are the user's alone, space, descriptors, proxy, clock; versions that fit together, and the
service unit that starts this MCPX at login.
"""

from __future__ import annotations

import os
import platform
import plistlib
import re
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mcpx.core.config import Config, Http, Sse
from mcpx.core.config.urls import is_loopback
from mcpx.core.daemon.service import MARK, ServiceError, service
from mcpx.core.running.bounded import OutOfBounds, run
from mcpx.core.store.folders import OWNER_ONLY, replaceable_above
from mcpx.core.store.paths import check_runtime_folder, check_state_folder
from mcpx.core.system.limits import descriptors
from mcpx.errors import DaemonError
from mcpx.paths import CONFIGURATIONS, runtime_folder, state_folder
from mcpx.setup.doctor.installation import Finding, Fix, Installation, note, ok, wrong
from mcpx.version import DISTRIBUTION, __version__

REINSTALL: Final = f"pip install --force-reinstall {DISTRIBUTION}"
VERSION_TIMEOUT_S: Final = 10.0  # for another installation to say its version
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*([<>=!~0-9.,\s]*)$")
_BOUND: Final = re.compile(r"(>=|<)\s*([0-9.]+)")
_EXEC_START = re.compile(r"^ExecStart=:?(.*)$", re.MULTILINE)
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


def check_versions(installation: Installation) -> Iterator[Finding]:
    """Check the versions of MCPX, Python and the packages, and which `mcpx` the user's PATH has."""
    system = f"{platform.system()} {platform.machine()}"
    python = platform.python_version()
    text = f"MCPX {__version__}, Python {python}, MCP SDK {_version('mcp') or 'missing'}, {system}"
    yield ok("MCPX", text, mcpx=__version__, python=python, sdk=_version("mcp"), executable=sys.executable)
    yield from _unfit_packages(_requirements())
    yield from _other_installation(installation.environ.get("PATH"))


def _requirements() -> list[str]:
    try:
        return metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return []


def _unfit_packages(requirements: list[str]) -> Iterator[Finding]:
    for requirement in requirements:
        if (match := _REQUIREMENT.match(requirement)) is None:  # of an extra
            continue
        name, bounds = match[1], match[2]
        version = _version(name)
        if version is None:
            yield wrong(name, f"the package {name} is missing, which MCPX needs", REINSTALL)
        elif not all(_fits(version, sign, bound) for sign, bound in _BOUND.findall(bounds)):
            yield wrong(name, f"{name} {version} is installed, and MCPX needs {bounds.strip()}", REINSTALL)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fits(version: str, sign: str, bound: str) -> bool:
    found, limit = _numbers(version), _numbers(bound)
    return found >= limit if sign == ">=" else found < limit


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[0-9.]*", version)[0].split(".") if part)  # type: ignore[index]  # matches anything


def _other_installation(path: str | None) -> Iterator[Finding]:
    """Find an `mcpx` that is typed but is not this one: what it does would be another version's."""
    typed = shutil.which("mcpx", path=path)
    if typed is None or Path(typed).resolve().parent == Path(sys.executable).parent.resolve():
        return
    if os.path.realpath(typed) == os.path.realpath(sys.argv[0]):
        return
    version = _version_of(typed)
    if version == __version__:
        return
    found = f"MCPX {version}" if version else "not this MCPX"
    text = f"`mcpx` on your PATH is {typed}, which is {found}; this is MCPX {__version__} of {sys.prefix}"
    yield note("PATH", text, "remove the one that you do not want, or type the path of the other")


def _version_of(command: str) -> str | None:
    """The version of another MCPX; None if the command is something else."""
    try:
        done = run([command, "--version"], os.environ, timeout_s=VERSION_TIMEOUT_S)
    except (OSError, OutOfBounds):
        return None
    match = re.match(r"mcpx, version (\S+)", done.output.decode(errors="replace"))
    return match[1] if match else None


# --- the service unit


def check_service(installation: Installation) -> Iterator[Finding]:
    """Check the unit that `mcpx daemon install` has written. That there is none is no finding."""
    try:
        file = service(environ=installation.environ).file
        text = file.read_text("utf-8", "surrogateescape")
    except ServiceError:
        return
    except FileNotFoundError:
        return
    except OSError as error:
        yield wrong(str(file), f"cannot be read: {error.strerror}")
        return
    if MARK not in text:
        yield note(str(file), "was not written by MCPX, which leaves it as it is")
        return
    install = f"mcpx daemon install --config {shlex.quote(str(installation.file))}"
    words = command_of(file, text)
    problem = _stale(words, installation)
    if problem is not None:
        yield wrong(str(file), problem, install)
    elif not _is_enabled(file):
        yield wrong(str(file), "is not enabled: it is not started at login", install)
    elif os.path.realpath(words[0]) != os.path.realpath(sys.executable):
        yield note(str(file), f"runs the MCPX of {words[0]}, and this is that of {sys.executable}", install)
    else:
        yield ok(str(file), "starts the daemon at login")


def command_of(file: Path, text: str) -> list[str]:
    """The words of the command that the unit runs; empty if it has none."""
    if file.suffix == ".plist":
        try:
            agent = plistlib.loads(text.encode("utf-8", "surrogateescape"))
            return [str(word) for word in agent["ProgramArguments"]]
        except (ValueError, KeyError, TypeError):
            return []
    line = _EXEC_START.search(text)
    return [_plain(word) for word in _WORD.findall(line[1])] if line else []


def _plain(word: str) -> str:
    r"""A quoted word of a unit file as it is meant: `\"`, `\\`, `\x20`, `%%`."""
    unescaped = re.sub(r"\\x([0-9a-f]{2})|\\(.)", lambda m: chr(int(m[1], 16)) if m[1] else m[2], word)
    return unescaped.replace("%%", "%")


def _stale(words: list[str], installation: Installation) -> str | None:
    """Return the reason that the unit's command cannot work, or is not what is examined."""
    if not words:
        return "holds no command"
    if not os.access(words[0], os.X_OK):
        return f"runs {words[0]}, which is not there any more"
    config = words[words.index("--config") + 1] if "--config" in words[:-1] else None
    if config is None:
        return None
    if not os.path.exists(config):
        return f"serves {config}, which is not there any more"
    if not installation.is_examined(config):
        return f"serves {config}, and not {installation.file}"
    return None


def _is_enabled(file: Path) -> bool:
    """Return True if it starts at login: systemd has a link for that, launchd takes what is in its folder."""
    if file.suffix == ".plist":
        return True
    return any(os.path.lexists(folder / file.name) for folder in file.parent.glob("*.wants"))


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

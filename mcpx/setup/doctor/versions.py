"""The installation: versions that fit together, and the service unit that starts this MCPX at login."""

from __future__ import annotations

import os
import platform
import plistlib
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from mcpx.core.daemon.service import MARK, ServiceError, service
from mcpx.core.running.bounded import OutOfBounds, run
from mcpx.setup.doctor.installation import Finding, Installation, note, ok, wrong
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

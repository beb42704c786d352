"""Whether MCPX and what it needs are of versions that fit together."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from mcpx.setup.doctor.findings import Finding, note, ok, wrong
from mcpx.setup.doctor.installation import Installation
from mcpx.version import __version__

DISTRIBUTION: Final = "mcpx-gateway"
REINSTALL: Final = f"pip install --force-reinstall {DISTRIBUTION}"
VERSION_TIMEOUT_S: Final = 10.0  # for another installation to say its version
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*([<>=!~0-9.,\s]*)$")
_BOUND: Final = re.compile(r"(>=|<)\s*([0-9.]+)")


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
        done = subprocess.run(
            [command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"mcpx, version (\S+)", done.stdout)
    return match[1] if match else None

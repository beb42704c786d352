"""The service unit: whether it still runs this MCPX, on this configuration, and is enabled."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from mcpx.core.daemon.service import ServiceError, service
from mcpx.core.daemon.service_files import MARK
from mcpx.setup.doctor.findings import Finding, note, ok, wrong
from mcpx.setup.doctor.installation import Installation

_EXEC_START = re.compile(r"^ExecStart=:?(.*)$", re.MULTILINE)
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')


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
    """Why what the unit runs cannot work, or is not what is examined."""
    if not words:
        return "holds no command"
    if not os.access(words[0], os.X_OK):
        return f"runs {words[0]}, which is not there any more"
    config = words[words.index("--config") + 1] if "--config" in words[:-1] else None
    if config is None:
        return None
    if not os.path.exists(config):  # noqa: PTH110 - False where it cannot be seen
        return f"serves {config}, which is not there any more"
    if os.path.realpath(config) != os.path.realpath(installation.file):
        return f"serves {config}, and not {installation.file}"
    return None


def _is_enabled(file: Path) -> bool:
    """Whether it starts at login: systemd has a link for that, launchd takes what is in its folder."""
    if file.suffix == ".plist":
        return True
    return any(os.path.lexists(folder / file.name) for folder in file.parent.glob("*.wants"))

"""The user's files: those with secrets in them that others may read, and changes that were cut short."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mcpx.setup.changes import recover, unfinished
from mcpx.setup.clients.masking import masked_arguments
from mcpx.setup.doctor.findings import Finding, Fix, wrong
from mcpx.setup.doctor.installation import Installation

READ_BY_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|credential|cookie|(^|_)pat$", re.IGNORECASE)
_OF_AUTH: Final = ("client_secret", "private_key")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|\b(bearer|basic|token)\b", re.IGNORECASE)


def holds_secret(entry: Mapping[str, Any]) -> bool:
    """Whether a secret is written in an entry of MCPX's form: its name or its looks call it one."""
    auth = entry.get("auth")
    own = {key: auth.get(key) for key in _OF_AUTH} if isinstance(auth, Mapping) else {}
    values = {**entry.get("env", {}), **entry.get("headers", {}), **own}
    if any(
        _SECRET_NAME.search(name) and _VARIABLE.sub("", value or "").strip() for name, value in values.items()
    ):
        return True
    words = [entry.get("url", ""), *entry.get("args", ())]
    return masked_arguments(words) != words


def readable_by_others(
    subject: str, path: Path, holding: Sequence[str], *, found: Callable[..., Finding] = wrong
) -> Iterator[Finding]:
    """Find that others may read a file in which secrets of servers stand: `holding` are their names.

    It is `found` wrong for a file of MCPX, and worth a note for another program's.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if holding and mode & READ_BY_OTHERS:
        closed, target = stat.S_IMODE(mode) & 0o700, Path(os.path.realpath(path))
        text = f"{path} holds secrets ({', '.join(holding)}), and others may read it"
        chmod = f"chmod {closed:o} {shlex.quote(str(target))}"
        yield found(subject, text, chmod, fix=Fix(chmod, lambda: target.chmod(closed)))


def check_changes(_installation: Installation) -> Iterator[Finding]:
    """Check that every change that a command has begun has come to an end. That all have is no finding."""
    for change in unfinished():
        files = ", ".join(file.path for file in change.files)
        text = f"`{change.command}` was cut short at {change.at}; it was changing {files}"
        fix = Fix("put back what a change that was cut short had changed", _recover)
        yield wrong(change.id, text, "mcpx undo", fix=fix)


def _recover() -> None:
    recover()

"""A client's own command that adds a server to it (`claude mcp add`): preferred to an edit of its file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcpx.paths import home
from mcpx.setup.clients.entries import write_entry
from mcpx.setup.clients.installing import NAME
from mcpx.setup.clients.launching import Launch
from mcpx.setup.clients.rows import Client

LIMIT_S: Final = 30.0  # for the command, which starts Node as a rule
_HIDDEN: Final = ".claude/local/{program}"
"""In the home folder: where Claude Code installs itself behind an alias of the shell."""


def add_command(
    client: Client, launch: Launch, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...] | None:
    """The command line that adds MCPX to a client; None if the client has none, or it is not installed."""
    if client.command is None:
        return None
    hidden = Path(home(environ), _HIDDEN.format(program=client.command.program))
    program = shutil.which(client.command.program, path=environ.get("PATH"))
    if program is None and os.access(hidden, os.X_OK):
        program = str(hidden)
    if program is None:
        return None
    return (program, *(word for part in client.command.add for word in _filled(part, client, launch)))


def _filled(part: str, client: Client, launch: Launch) -> Iterator[str]:
    if part == "{args}":
        yield from launch.args()
    elif part == "{env}":
        for name, value in launch.env.items():
            yield from ("--env", f"{name}={value}")
    elif part == "{json}":
        entry = write_entry(client.form, launch.command, launch.args(), launch.env, name=NAME)
        yield json.dumps({"name": NAME, **entry})
    else:
        yield {"{name}": NAME, "{command}": launch.command}.get(part, part)


def run(line: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> str | None:
    """Run a command line to its end, in the home folder; why it failed, None for success."""
    folder = home(environ)
    try:
        process = subprocess.Popen(
            line,
            cwd=folder if Path(folder).is_dir() else "/",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return error.strerror or str(error)
    with process:
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except BaseException as error:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"it did not end within {LIMIT_S:g} s"
            raise
    if process.returncode == 0:
        return None
    words = [line for line in output.splitlines() if line.strip()]
    return words[-1].strip() if words else f"it ended with exit code {process.returncode}"

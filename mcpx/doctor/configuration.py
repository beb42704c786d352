"""The configuration file: whether it can be used, and what is odd in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcpx.config.servers import FORMS
from mcpx.doctor.findings import Finding, note, ok, wrong
from mcpx.doctor.installation import Installation
from mcpx.doctor.secret_files import readable_secrets
from mcpx.documents.jsonc import JSONCError, loads
from mcpx.errors import ConfigError


def check_configuration(installation: Installation) -> Iterator[Finding]:
    """Check the configuration file itself."""
    loaded = installation.loaded
    if isinstance(loaded, ConfigError):
        if not installation.file.exists():
            text = f"there is no configuration: {loaded.problem}"
            yield wrong(loaded.where, text, "mcpx import, or: mcpx add NAME -- COMMAND")
        else:
            yield wrong(loaded.where, loaded.problem, installation.command("check"))
        yield from readable_secrets(str(installation.file), installation.file, _entries(installation.file))
        return
    count = len(loaded.servers)
    yield ok(loaded.source, f"{count} server{'' if count == 1 else 's'}")
    if loaded.environment is not None and (problem := loaded.environment.problem) is not None:
        text = f"{problem}; commands are looked for on the PATH of this process alone"
        yield wrong("login shell", text, 'mend its start-up files, or turn it off: "login_shell": false')
    yield from readable_secrets(loaded.source, installation.file, _entries(installation.file))
    for notice in loaded.notices:
        yield note(loaded.source, notice)


def _entries(file: Path) -> Iterator[tuple[str, Any]]:
    """The servers as they are written, in any of the accepted forms."""
    try:
        document = loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError, JSONCError):  # it cannot be read, as the configuration itself says
        return
    for form in FORMS:
        servers = document.get(form) if isinstance(document, dict) else None
        if isinstance(servers, dict):
            yield from servers.items()
        elif isinstance(servers, list):
            yield from ((str(each.get("name")), each) for each in servers if isinstance(each, dict))

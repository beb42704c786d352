"""The configuration file: whether it can be used, and what is odd in it."""

from __future__ import annotations

from collections.abc import Iterator

from mcpx.doctor.findings import Finding, note, ok, wrong
from mcpx.doctor.installation import Installation
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
        return
    count = len(loaded.servers)
    yield ok(loaded.source, f"{count} server{'' if count == 1 else 's'}")
    if loaded.environment is not None and (problem := loaded.environment.problem) is not None:
        text = f"{problem}; commands are looked for on the PATH of this process alone"
        yield wrong("login shell", text, 'mend its start-up files, or turn it off: "login_shell": false')
    for notice in loaded.notices:
        yield note(loaded.source, notice)

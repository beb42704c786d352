"""What the commands share that change files: an interrupted change first, the daemon afterwards."""

from __future__ import annotations

import os
from pathlib import Path

from mcpx.cli.consent import exit_unchanged, may_go_on
from mcpx.cli.printing import echo

RELOAD_TIMEOUT_S = 60.0  # servers that stop get their grace time


def take_back_interrupted(*, yes: bool, dry_run: bool, as_json: bool) -> tuple[str, ...]:
    """Take back a change that was interrupted, if the person agrees, since what follows builds on it.

    A sentence for each. Without consent the command ends here; a dry run goes on with the files as they are.

    Raises:
        ChangeError: A file or the journal cannot be written.
    """
    from mcpx.setup.changes import recover, unfinished

    for change in unfinished():
        echo(f"{change.command} was interrupted at {change.at}: some of its files may be changed", err=True)
        if dry_run:
            continue
        if not may_go_on("Take it back first?", yes=yes, dry_run=False, as_json=as_json):
            exit_unchanged(dry_run=False)
    if dry_run:
        return ()
    sentences = recover()
    for sentence in sentences:
        echo(sentence, err=True)
    return sentences


def reload_daemon(config: str | os.PathLike[str] | None) -> str | None:
    """Have the daemon of a configuration read it again; what came of it, None where no daemon runs."""
    from mcpx.core.daemon.control_client import request
    from mcpx.core.system.paths import daemon_paths
    from mcpx.errors import MCPXError

    try:
        answer = request(daemon_paths(config), {"mcpx": "reload"}, within=RELOAD_TIMEOUT_S)
    except MCPXError as error:
        return f"the daemon does not use it yet: {error}"
    return None if answer is None else "the daemon uses it now"


def short(path: str | os.PathLike[str]) -> str:
    """A path with `~` for the home folder."""
    from mcpx.paths import home

    text, folder = os.fspath(path), str(Path(home()))
    return f"~{text[len(folder) :]}" if folder != "/" and text.startswith(f"{folder}/") else text

"""The configuration file as the page shows it: its text without secrets, and what is wrong or odd with it.

`read` blocks for a moment, like `mcpx check`, and is for a thread. It never raises for what the file holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.config.excerpts import safe_text
from mcpx.core.config.findings import examine
from mcpx.core.config.load import read_file
from mcpx.core.documents.jsonc import JSONCError
from mcpx.errors import ConfigError
from mcpx.setup.changes import history, undone
from mcpx.setup.clients.masking import masked_json

MAX_TEXT_CHARS: Final = 200_000
MAX_FILE_BYTES: Final = 4 << 20  # of a file whose text is shown
MAX_FINDINGS: Final = 200
MAX_CHANGES: Final = 20


def read(path: str, in_force: Iterable[ServerConfig]) -> JSON:
    """`{path, text, left_out, usable, servers, findings, more_findings, changes}`.

    `text` is null where the file cannot be read. `findings` are as `mcpx check` has them. `in_force` are
    servers whose secrets are known. `changes` are those of `mcpx undo --list`, the latest first.
    """
    found = examine(path)
    text = _text(path, [*in_force, *(found.config.servers.values() if found.config is not None else ())])
    return {
        "path": path,
        "text": None if text is None else text[:MAX_TEXT_CHARS],
        "left_out": 0 if text is None else max(0, len(text) - MAX_TEXT_CHARS),
        "usable": found.config is not None,
        "servers": 0 if found.config is None else len(found.config.servers),
        "findings": [msgspec.to_builtins(each) for each in found.findings[:MAX_FINDINGS]],
        "more_findings": max(0, len(found.findings) - MAX_FINDINGS),
        "changes": _changes(),
    }


def _text(path: str, servers: Iterable[ServerConfig]) -> str | None:
    """The text of the file, with `***` for what may be a secret; None where it cannot be read."""
    try:
        data = read_file(Path(path))
    except ConfigError:
        return None
    if len(data) > MAX_FILE_BYTES:
        return None
    try:
        shown = masked_json(data)
    except (JSONCError, RecursionError):  # then no key is known to be harmless, but by its line
        shown = safe_text(data.decode(errors="replace"))
    return redactor_of(*servers)(shown)


def _changes() -> list[JSON]:
    """What can be taken back, and what was."""
    changes = history()
    gone = undone(changes)
    return [
        {
            "id": change.id,
            "command": change.command,
            "at": change.at,
            "state": "undone" if change.id in gone else str(change.state),
            "files": [file.path for file in change.files],
        }
        for change in reversed(changes[-MAX_CHANGES:])
    ]

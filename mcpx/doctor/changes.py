"""Changes of files that were cut short, as by a kill or a power cut."""

from __future__ import annotations

from collections.abc import Iterator

from mcpx.changes import recover, unfinished
from mcpx.doctor.findings import Finding, Fix, wrong
from mcpx.doctor.installation import Installation


def check_changes(_installation: Installation) -> Iterator[Finding]:
    """Check that every change that a command has begun has come to an end. That all have is no finding."""
    for change in unfinished():
        files = ", ".join(file.path for file in change.files)
        text = f"`{change.command}` was cut short at {change.at}; it was changing {files}"
        fix = Fix("put back what a change that was cut short had changed", _recover)
        yield wrong(change.id, text, "mcpx undo", fix=fix)


def _recover() -> None:
    recover()

"""An audit log in a folder of its own, and what stands in it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mcpx.core.events.audit.audit import Audit as AuditLog
from mcpx.core.events.audit.verifying import verify
from mcpx.core.events.records import Records
from supervisors import Reply

RESULT = msgspec.Raw(b'{"content":[],"isError":false}')


class Audit(AuditLog):
    """An audit log, and the calls that it hears of."""

    def __init__(self, *given, **more):
        super().__init__(*given)
        self.records = Records(self, **more)
        self.begin, self.refused = self.records.begin, self.records.refused


class Log:
    """The audit log in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))

    def lines(self) -> list[dict]:
        return [json.loads(line) for file in self.files for line in file.read_text().splitlines()]

    def names(self) -> list[str]:
        return [line["name"] for line in self.lines()]

    def problems(self) -> list[str]:
        return [each.problem for each in verify(self.folder).problems]

    @contextmanager
    def audit(self, *, required=False, redact=None):
        """Somebody who writes it."""
        audit = Audit(lambda: self.folder)
        audit.configure(enabled=True, required=required, redact=redact)
        audit.open()
        yield audit
        audit.close()

    def write(self, *names: str) -> None:
        """Write a line for each name."""
        with self.audit() as audit:
            for name in names:
                call(audit, name)


def begin(audit: Audit, name: str, arguments: bytes = b'{"text":"a value"}') -> Reply:
    """A call that has begun."""
    reply: Reply = Reply()
    reply.observer = audit.begin("tool", "s", name, arguments)
    return reply


def call(audit: Audit, name: str, arguments: bytes = b'{"text":"a value"}') -> None:
    """A call from its beginning to its end."""
    begin(audit, name, arguments).resolve(RESULT)


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "audit")

"""What hears of calls where the audit log does: the contract between `Audit` and whoever watches calls."""

from __future__ import annotations

from typing import Protocol

from mcpx.audit.entry import Entry


class Watch(Protocol):
    """Hears of calls while they run. None of its methods raises."""

    def begun(self, entry: Entry, request: object | None) -> None:
        """A call begins. `request` is what the paths of the gateway know it by, where they do."""
        ...

    def ended(self, entry: Entry) -> None:
        """A call has ended that is `watched`, or one has failed or was refused."""
        ...

    def same(self, request: object, again: object) -> None:
        """The second request is the same call as the first."""
        ...

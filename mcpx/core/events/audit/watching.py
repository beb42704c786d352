"""What hears of calls where the audit log does: `Audit`'s contracts with those who count and watch them."""

from __future__ import annotations

from typing import Protocol

from mcpx.core.events.audit.entry import End, Entry, Target


class Tally(Protocol):
    """Counts calls. None of its methods raises."""

    def begun(self, entry: Entry) -> None:
        """Count a call that begins."""
        ...

    def ended(self, entry: Entry) -> None:
        """Count its end."""
        ...

    def asked(self, target: Target, end: End) -> None:
        """Note that a call that ended so was answered with a question, as an entry says of itself."""
        ...

    def goes_on(self, target: Target) -> None:
        """Take back the count of a call that ended with a question: it goes on with the answer."""
        ...


class Uncounted:
    """Counts nothing."""

    def begun(self, entry: Entry) -> None:
        """As `Tally.begun`."""

    def ended(self, entry: Entry) -> None:
        """As `Tally.ended`."""

    def asked(self, target: Target, end: End) -> None:
        """As `Tally.asked`."""

    def goes_on(self, target: Target) -> None:
        """As `Tally.goes_on`."""


class Watch(Protocol):
    """Hears of calls while they run. None of its methods raises."""

    def begun(self, entry: Entry, request: object | None) -> None:
        """A call begins. `request` is what the paths of the gateway know it by, where they do."""
        ...

    def ended(self, entry: Entry) -> None:
        """A call has ended."""
        ...

    def same(self, request: object, again: object) -> None:
        """The second request is the same call as the first."""
        ...

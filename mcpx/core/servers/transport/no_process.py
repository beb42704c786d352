"""What a link has no process of its own for: it cannot ask the kernel how the server is.

The part of `Link` that is the same for every connection to another machine.
"""

from __future__ import annotations


class NoProcess:
    """A link whose server is no child of this process."""

    pid: int | None = None
    mark = ""

    def is_doomed(self) -> bool:
        """Never known."""
        return False

    def is_stopped(self) -> bool:
        """Never known."""
        return False

    def first_unread(self) -> int | None:
        """Never known: what the other system has taken, the server may not have read."""
        return None

    def stderr_tail(self) -> str:
        """Nothing: what the server says on standard error stays where it runs."""
        return ""

"""What of a server waits for approval, and the words for it. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from mcpx.catalog.model import JSON, present
from mcpx.trust.differences import contents, differences
from mcpx.trust.pin_record import PinRecord

Kind = Literal["changed", "new", "server", "pins", "always"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a server that waits for approval.

    `kind` is `changed` or `new` for a tool, `server` for what the server says of itself, and `pins` where the
    file with the pins cannot be believed; `always` for a tool that is to run without asking. `blocked`: it is
    not in force.
    """

    kind: Kind
    tool: str | None = None
    difference: tuple[str, ...] = ()
    blocked: bool = False
    digest: str | None = None
    """Of what waits: the form of a tool, or what the server says of itself."""

    def to_dict(self) -> JSON:
        """`{kind, tool?, difference, blocked, digest?}`."""
        shown = {"difference": list(self.difference), "blocked": self.blocked}
        return present(kind=self.kind, tool=self.tool, **shown, digest=self.digest)

    def summary(self) -> str:
        """A few words: `commit has changed (description)`."""
        if self.kind == "new":
            return f"{self.tool} is new"
        if self.kind == "pins":
            return self.difference[0]
        paths = ", ".join(dict.fromkeys(line.partition(": ")[0] for line in self.difference))
        return f"{self.tool or 'what it says of itself'} has changed ({paths})"


def changes_of(
    record: PinRecord, problem: str | None, *, blocks: bool, holds_all: bool, whole: bool = False
) -> list[Change]:
    """What waits in a record; with `whole` values for one who is to approve them."""
    room = {"most": 1_000, "chars": 8_000} if whole else {}
    found: list[Change] = []
    if problem is not None:
        found.append(Change(kind="pins", difference=(problem,), blocked=blocks or holds_all))
        if record.state == "held" and not whole:
            return found  # nothing is known of what there was
    if (now := record.waiting_about) is not None:
        is_new = record.state != "pinned"
        said = (
            contents(now.to_dict(), **room)
            if is_new
            else differences(record.about.to_dict(), now.to_dict(), **room)
        )
        blocked = blocks or holds_all
        found.append(Change(kind="server", difference=said, blocked=blocked, digest=now.digest))
    for name, pin in record.waiting.items():
        old, new = record.tools.get(name), pin.to_dict()
        if old is not None:
            lines = differences(old.to_dict(), new, **room)
        else:
            lines = contents({key: value for key, value in new.items() if key != "name"}, **room)
        found.append(
            Change(
                kind="new" if old is None else "changed",
                tool=name,
                difference=lines,
                blocked=blocks or holds_all,
                digest=pin.digest,
            )
        )
    return found

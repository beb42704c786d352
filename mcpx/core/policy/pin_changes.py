"""What of a server waits for approval, and the words for it. Pure."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mcpx.core.catalog.model import JSON, present
from mcpx.core.policy.differences import contents, differences
from mcpx.core.policy.pin_record import Pin, PinRecord
from mcpx.core.text import cut, one_line, shown_name

MAX_COMPARED_BYTES: Final = 4 << 20  # of all definitions whose differences are found out at a time
_NOT_SHOWN: Final = "definition: too large for the difference to be shown"
MAX_MEMBERS_CHARS: Final = 120  # of the members that differ, in a summary
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
        match self.kind:
            case "pins":
                return one_line(self.difference[0])
            case "new":
                return f"{shown_name(self.tool or '')} is new"
            case _:
                members = dict.fromkeys(line.partition(": ")[0] for line in self.difference)
                what = shown_name(self.tool) if self.tool else "what the server says of itself"
                return f"{what} has changed ({cut(', '.join(members), MAX_MEMBERS_CHARS)})"


def changes_of(
    record: PinRecord, problem: str | None, *, blocks: bool, holds_all: bool, whole: bool = False
) -> list[Change]:
    """What waits in a record; with `whole` values for one who is to approve them."""
    room, left = ({"most": 1_000, "chars": 8_000} if whole else {}), MAX_COMPARED_BYTES
    found: list[Change] = []
    blocked = blocks or holds_all
    if problem is not None:
        found.append(Change(kind="pins", difference=(problem,), blocked=blocked))
        if record.state == "held" and not whole:
            return found  # nothing is known of what there was
    now = record.waiting_about
    lines: tuple[str, ...] = ()
    if record.formerly and (now is not None or record.waiting):
        lines = differences({"started by": record.formerly}, {"started by": record.started_by}, **room)
    if now is not None:
        new = now.to_dict()
        if record.state == "pinned":
            lines += differences(record.about.to_dict(), new, **room)
        else:
            lines += contents(new, **room)
    if lines:
        digest = None if now is None else now.digest
        found.append(Change(kind="server", difference=lines, blocked=blocked, digest=digest))
    for name, pin in record.waiting.items():
        old = record.tools.get(name)
        left -= len(bytes(pin.definition)) + (len(bytes(old.definition)) if old else 0)
        lines = _difference(old, pin, room) if left >= 0 else (_NOT_SHOWN,)
        kind: Kind = "new" if old is None else "changed"
        found.append(Change(kind=kind, tool=name, difference=lines, blocked=blocked, digest=pin.digest))
    return found


def _difference(old: Pin | None, now: Pin, room: dict[str, int]) -> tuple[str, ...]:
    new = now.to_dict()
    before = None if old is None else old.to_dict()
    if "inputSchema" not in new or (before is not None and "inputSchema" not in before):
        return (_NOT_SHOWN,)  # the larger one was not kept
    if before is not None:
        return differences(before, new, **room)
    return contents({name: value for name, value in new.items() if name != "name"}, **room)

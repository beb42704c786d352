"""Pins that several gateways share: what one has to tell the others, and what it takes over from them. Pure.

What is shared of a server is its record without what waits: every gateway sees for itself what is listed to
it. Each gateway keeps, beside its own record, the marks of the shared one that it has taken over last
(`Marks`). What differs from these in its own record was approved here since, by a person, and the others do
not know it yet.

The rules: what a person has approved here since then holds over what is shared; what is shared holds over
everything else, most of all over what this gateway has merely seen first. So approvals of different tools add
up, and of two forms of one tool the one that is written later holds, for all. An approval ends by another one
alone, so nothing has to be taken back. `number` grows with each change of the shared record. A store that was
lost, and has another `origin` now, is begun again by one gateway from what that one knew (`known`): whoever
knew more of the lost one has all that hold, and whoever knew no more takes over as ever.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.policy.pin_record import About, Pin, PinRecord


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The shared record of one server. `by`: the gateway that has written it."""

    number: int
    by: str
    origin: str
    known: int
    """Of the store that was lost, the highest number whose record is in this one."""
    record: PinRecord


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """By what a record is known again: the digests of what is approved in it."""

    number: int = 0
    """Of the shared record; 0 where nothing was shared yet."""
    origin: str = ""
    state: str = "unseen"
    about: str = ""
    tools: dict[str, str] = {}
    always: dict[str, str] = {}


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """The names of what was approved here, and is not shared yet. `about`: what the server says of itself."""

    about: bool = False
    tools: frozenset[str] = frozenset()
    always: frozenset[str] = frozenset()


NONE: Final = Approvals()


def shareable(record: PinRecord) -> PinRecord | None:
    """Reduce a record to what is for all gateways; None while nothing of it was seen or approved."""
    is_approved = record.state == "held" and bool(record.tools or record.always)
    if record.state != "pinned" and not is_approved:
        return None
    return replace(record, waiting={}, waiting_about=None)


def marks_of(record: PinRecord, number: int = 0, origin: str = "") -> Marks:
    """The marks of a record that was taken over from the shared one of that number."""
    return Marks(
        number=number,
        origin=origin,
        state=record.state,
        about=record.about.digest,
        tools={name: pin.digest for name, pin in record.tools.items()},
        always=dict(record.always),
    )


def approved_since(record: PinRecord, marks: Marks | None) -> Approvals:
    """Find what was approved in a record since it had these marks.

    With empty marks that is everything. Without any it was never shared: then only what runs without asking
    is known to be a person's approval, for the rest may merely have been seen first.
    """
    if marks is None:
        by_person = {name for name, pin in record.tools.items() if record.always.get(name) == pin.digest}
        return Approvals(tools=frozenset(by_person), always=frozenset(record.always))
    return Approvals(
        about=record.state == "pinned" and (marks.state, marks.about) != ("pinned", record.about.digest),
        tools=frozenset(name for name, pin in record.tools.items() if marks.tools.get(name) != pin.digest),
        always=frozenset(name for name, form in record.always.items() if marks.always.get(name) != form),
    )


def first_marks(record: PinRecord) -> Marks | None:
    """The marks of a record of which nothing is shared: where it is held, all in it will be approvals."""
    return marks_of(record) if record.state == "held" else None


def is_same(one: PinRecord, other: PinRecord) -> bool:
    """Return True if the same is approved in both."""
    return marks_of(one) == marks_of(other)


def taken_over(record: PinRecord, shared: PinRecord, mine: Approvals = NONE) -> PinRecord:
    """The own record with what is shared in force, but for what holds over it.

    What was in force here and is not shared waits from now on.
    """
    if record.state in {"unseen", "succeeding"}:
        return replace(shared, waiting={}, waiting_about=None)
    tools = shared.tools | {name: record.tools[name] for name in mine.tools if name in record.tools}
    always = shared.always | {name: record.always[name] for name in mine.always if name in record.always}
    listed_now = record.tools | record.waiting
    waiting = {name: pin for name, pin in listed_now.items() if _differs(tools.get(name), pin)}
    if mine.about:
        return replace(record, tools=tools, always=always, waiting=waiting)
    listed = record.waiting_about or record.about
    is_known = shared.state == "pinned" and listed.digest == shared.about.digest
    return replace(
        record,
        state=shared.state,
        about=shared.about if shared.state == "pinned" else About(),
        tools=tools,
        always=always,
        waiting=waiting,
        waiting_about=None if is_known else listed,
    )


def together(record: PinRecord, marks: Marks | None, shared: Shared, *, by: str) -> Shared:
    """Unite a record with the shared one: this very one, or the next, to be written `by` this gateway."""
    knows_more = marks is not None and marks.origin != shared.origin and marks.number > shared.known
    mine = approved_since(record, Marks() if knows_more else marks)
    both = shareable(taken_over(record, shared.record, mine))
    if both is None or is_same(both, shared.record):
        return shared
    number = 0 if marks is None else marks.number
    known = number if knows_more else shared.known
    return replace(shared, number=1 + max(number, shared.number), by=by, known=known, record=both)


def begun(record: PinRecord, marks: Marks | None, *, by: str, origin: str) -> Shared | None:
    """Make the first shared record; None while there is nothing to share."""
    number = 0 if marks is None else marks.number
    if (mine := shareable(record)) is None:
        return None
    return Shared(number=number + 1, by=by, origin=origin, known=number, record=mine)


def _differs(one: Pin | None, other: Pin) -> bool:
    return one is None or one.digest != other.digest


def distrusted(shared: Shared, server: str, number: int) -> str | None:
    """Say why it is not a record of this server and number that MCPX has written; None if it is."""
    record = shared.record
    if record.server != server or shared.number != number:
        return "it is of another server, or another version"
    if record.state not in {"pinned", "held"} or record.waiting or record.waiting_about is not None:
        return "it holds what no gateway shares"
    for name, pin in record.tools.items():
        try:
            form = msgspec.json.decode(pin.definition, type=_Form)
        except (msgspec.DecodeError, RecursionError):
            return f"the form of {name} cannot be read"
        is_whole = form.input_schema is not None or form.frontmatter is not None
        if form.name != name or (is_whole and hashlib.sha256(pin.definition).hexdigest() != pin.digest):
            return f"the form of {name} is not the one that was approved"
    return None


class _Form(msgspec.Struct):
    """The members of a definition; of one that is too large to be kept the name alone."""

    name: str
    input_schema: dict[str, Any] | None = msgspec.field(name="inputSchema", default=None)
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = msgspec.field(name="outputSchema", default=None)
    annotations: dict[str, Any] | None = None
    frontmatter: dict[str, Any] | None = None

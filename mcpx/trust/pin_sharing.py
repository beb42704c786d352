"""Pins that several gateways share: what one has to tell the others, and what it takes over from them. Pure.

What is shared of a server is its record without what waits: every gateway sees for itself what is listed to
it. Each gateway keeps, beside its own record, the marks of the shared one that it has taken over last
(`Marks`). What differs from these in its own record was approved here since, by a person, and the others do
not know it yet.

The rules: what a person has approved here since then holds over what is shared; what is shared holds over
everything else, most of all over what this gateway has merely seen first. So approvals of different tools add
up, and of two forms of one tool the one that is written later holds, for all. An approval ends by another one
alone, so nothing has to be taken back. `number` grows with each change of the shared record, and outlives the
store: a store with a lower number than is known here was lost and begun again, and learns all from here.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpx.trust.pin_record import About, Pin, PinRecord


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What is shared of one server. `by`: the gateway that has written it."""

    number: int
    by: str
    record: PinRecord


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """By what a record is known again: the digests of what is approved in it."""

    number: int = 0
    """Of the shared record; 0 where nothing was shared yet."""
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
    """What of a record is for all gateways; None while nothing of it was seen or approved."""
    is_approved = record.state == "held" and bool(record.tools or record.always)
    if record.state != "pinned" and not is_approved:
        return None
    return replace(record, waiting={}, waiting_about=None)


def marks_of(record: PinRecord, number: int) -> Marks:
    """The marks of a record that was taken over from the shared one of that number."""
    return Marks(
        number=number,
        state=record.state,
        about=record.about.digest,
        tools={name: pin.digest for name, pin in record.tools.items()},
        always=dict(record.always),
    )


def approved_since(record: PinRecord, marks: Marks | None) -> Approvals:
    """What was approved in a record since it had these marks.

    Without marks it was never shared. Then only what runs without asking is known to be a person's approval:
    the rest may merely have been seen first.
    """
    if marks is None:
        by_person = {name for name, pin in record.tools.items() if record.always.get(name) == pin.digest}
        return Approvals(tools=frozenset(by_person), always=frozenset(record.always))
    return Approvals(
        about=record.state == "pinned" and (marks.state, marks.about) != ("pinned", record.about.digest),
        tools=frozenset(name for name, pin in record.tools.items() if marks.tools.get(name) != pin.digest),
        always=frozenset(name for name, form in record.always.items() if marks.always.get(name) != form),
    )


def all_of(record: PinRecord) -> Approvals:
    """Everything in a record, for a store that has lost it."""
    return Approvals(
        about=record.state == "pinned", tools=frozenset(record.tools), always=frozenset(record.always)
    )


def first_marks(record: PinRecord) -> Marks | None:
    """The marks of a record of which nothing is shared: where it is held, all in it will be approvals."""
    return marks_of(record, 0) if record.state == "held" else None


def is_same(one: PinRecord, other: PinRecord) -> bool:
    """Whether the same is approved in both."""
    return marks_of(one, 0) == marks_of(other, 0)


def mine_over(record: PinRecord, marks: Marks | None, shared: Shared) -> Approvals:
    """What of a record holds over the shared one."""
    if marks is not None and shared.number < marks.number:
        return all_of(record)
    return approved_since(record, marks)


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


def _differs(one: Pin | None, other: Pin) -> bool:
    return one is None or one.digest != other.digest


def distrusted(record: PinRecord, server: str) -> str | None:
    """Why a shared record cannot be that of this server, as MCPX would have written it."""
    if record.server != server:
        return "it is of another server"
    if record.state not in {"pinned", "held"} or record.waiting or record.waiting_about is not None:
        return "it holds what no gateway shares"
    for name, pin in record.tools.items():
        try:
            members = pin.to_dict()
            is_whole = "inputSchema" in members
            if members["name"] != name or (is_whole and _digest(pin) != pin.digest):
                return f"the form of {name} is not the one that was approved"
        except (KeyError, TypeError, msgspec.DecodeError):
            return f"the form of {name} cannot be read"
    return None


def _digest(pin: Pin) -> str:
    return hashlib.sha256(bytes(pin.definition)).hexdigest()

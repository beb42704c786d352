"""One upstream server at one moment: its state, and its last known catalogue.

An upstream actor makes a `ServerInfo` of itself whenever somebody asks for one. It says in words and in JSON
what state the server is in, for descriptions, errors and programs. Does no I/O.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON, Catalogue, LeftOut, ResourceInfo, ToolInfo, present


def iso_seconds(timestamp: float) -> str:
    """A time in seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="seconds")


class State(StrEnum):
    """The state of an upstream server as users see it."""

    STARTING = "starting"
    READY = "ready"
    ASLEEP = "asleep"
    WAITING = "waiting"
    PARKED = "parked"
    NEEDS_SIGN_IN = "needs sign-in"
    NEEDS_SETUP = "needs setup"
    INVALID = "invalid"
    STOPPED = "stopped"
    DISABLED = "disabled"


_NOTHING: Final = Catalogue(generation=0)


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of one upstream server: its state, and its last known catalogue.

    `cause` says why it is not ready. `retry_in_s` is seconds until it is tried again by itself, where that is
    due, and `call_in_s` until a call has it tried again, which is mostly sooner, where that is known.
    `sign_in` is the command by which a person signs in, where the server waits for that. `remedy` is what a
    person does where it waits for something else, and `missing` names what is not there.
    `catalogue` is `None` until the first listing; it is stale whenever `state` is not `ready`.
    """

    name: str
    state: State
    transport: str
    cause: str | None = None
    retry_in_s: float | None = None
    call_in_s: float | None = None
    sign_in: str | None = None
    remedy: str | None = None
    missing: tuple[str, ...] = ()
    catalogue: Catalogue | None = None

    @property
    def ready(self) -> bool:
        """True if calls are served now."""
        return self.state is State.READY

    @property
    def available(self) -> bool:
        """True if a call is served, though the server may have to be started for it."""
        return self.state in {State.READY, State.ASLEEP}

    @property
    def away(self) -> str | None:
        """The state where it takes no calls now, for a model; it may pass."""
        return None if self.available else str(self.state)

    @property
    def lasting(self) -> str | None:
        """The state where it lasts until a person has changed something, so that descriptions may show it."""
        is_lasting = self.state in {State.NEEDS_SETUP, State.INVALID} and self.retry_in_s is None
        return str(self.state) if is_lasting else None

    @property
    def tools(self) -> dict[str, ToolInfo]:
        """The tools last listed, by name; empty before the first listing."""
        return self.catalogue.tools if self.catalogue else {}

    @property
    def resources(self) -> dict[str, ResourceInfo]:
        """The resources last listed, by URI; empty before the first listing."""
        return self.catalogue.resources if self.catalogue else {}

    def lists(self, uri: str) -> bool:
        """Return True if the URI stands in the lists of the server."""
        return self.catalogue is not None and self.catalogue.lists(uri)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Offers that MCPX leaves out or cuts, and why."""
        return self.catalogue.left_out if self.catalogue else ()

    @property
    def instructions(self) -> str | None:
        """The server's own usage instructions, uncut."""
        return self.catalogue.instructions if self.catalogue else None

    def counts(self) -> JSON:
        """The numbers of its `tools`, `resources`, `templates` and `prompts`, by these names."""
        known = self.catalogue or _NOTHING
        return {kind: len(getattr(known, kind)) for kind in ("tools", "resources", "templates", "prompts")}

    def from_last_time(self) -> JSON:
        """`{from_last_time: true, listed_at}` where an earlier MCPX has kept the catalogue, else nothing."""
        if self.catalogue is None or self.catalogue.listed_at is None:
            return {}
        return {"from_last_time": True, "listed_at": iso_seconds(self.catalogue.listed_at)}

    def describe_state(self, *, cause: bool = True) -> str:
        """`ready`, `waiting, retry in 4 s: <cause>`, `needs sign-in: run: ...`, ...

        The cause may quote the server: pass `cause=False` where its words must not appear.
        """
        text = str(self.state)
        if self.sign_in is not None:
            return f"{text}: run: {self.sign_in}"
        if self.state is State.WAITING and self.retry_in_s is not None:
            text += f", retry in {self.retry_in_s:.0f} s"
        return f"{text}: {self.cause}" if cause and self.cause and not self.ready else text

    def refuse(self, what: str) -> str:
        """The reason why nothing was sent, and what helps: a call from some time on, or a person.

        `what` is the predicate of the sentence: "is not available", for one.
        """
        if self.state is State.DISABLED:
            return f"{self.name} is switched off; nothing was sent. To switch it on: {self.remedy}"
        state = str(self.state) if self.state is State.WAITING else self.describe_state(cause=False)
        state += f": {self.cause}" if self.cause and self.sign_in is None else ""
        text = f"{self.name} {what} ({state}); nothing was sent"
        if self.remedy is not None:
            text += f". What helps, by the user: {self.remedy}"
        return f"{text}. {said}" if (said := self._next_attempt()) else text

    def _next_attempt(self) -> str:
        if self.call_in_s is None:
            return "" if self.retry_in_s is None else f"Next attempt in {self.retry_in_s:.0f} s"
        seconds = math.ceil(self.call_in_s)
        return f"A call from {seconds} s on tries again" if seconds else "The next call tries again"

    def why(self) -> JSON:
        """The state for an error's details: `{state, cause?, missing?, remedy?, sign_in?, retry_in_s?}`."""
        return present(
            state=str(self.state),
            cause=self.cause,
            missing=list(self.missing) or None,
            remedy=self.remedy,
            sign_in=self.sign_in,
            **self.next_attempt(),
        )

    def next_attempt(self) -> JSON:
        """`{retry_in_s}` where a call, or nobody at all, has the server tried again then; else nothing."""
        due = self.retry_in_s if self.call_in_s is None else self.call_in_s
        return {} if due is None else {"retry_in_s": math.ceil(max(0.0, due) * 10) / 10}

    def to_dict(self) -> JSON:
        """Plain JSON: `{name, state, cause?, sign_in?, tools, resources, ...}`; the lists as counts."""
        known = self.catalogue
        return present(
            name=self.name,
            state=str(self.state),
            transport=self.transport,
            cause=self.cause,
            missing=list(self.missing) or None,
            remedy=self.remedy,
            sign_in=self.sign_in,
            title=known.server_title if known else None,
            version=known.server_version if known else None,
            protocol_version=known.protocol_version if known else None,
            instructions=self.instructions,
            **self.counts(),
            skills=(len(known.skills) or None) if known else None,
            **self.next_attempt(),
            **self.from_last_time(),
        )

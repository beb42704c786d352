"""What a configuration says of trust: which tools, resources and prompts there are, and what may run unasked.

Shapes, defaults and meanings, as in `mcpx.core.config.per_server`; what follows from them `mcpx.core.policy`
says. An unknown key in one of these is an error: a slip must not allow more than was meant. Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

NonEmpty = Annotated[str, Meta(min_length=1)]
Patterns = tuple[NonEmpty, ...]
"""Names, or patterns of names with `*`, `?` and `[...]`."""
Approve = Literal["off", "writes"]
Pin = Literal["off", "warn", "block"]
Audit = Literal["off", "on", "full"]


def doc(meaning: str) -> Meta:
    """What a setting means, for the JSON Schema and the documentation."""
    return Meta(description=meaning)


class AccessRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the resources or prompts of a server there are. `deny` wins; `allow` None: all."""

    allow: Annotated[
        Patterns | None, doc("Patterns of what there is; without it, everything that is not denied.")
    ] = None
    deny: Annotated[Patterns, doc("Patterns of what there is not, whatever is allowed.")] = ()

    def patterns(self) -> Patterns:
        """All of its patterns."""
        return tuple(each for field in self.__struct_fields__ for each in getattr(self, field) or ())


R = TypeVar("R", bound=AccessRules)


class ToolRules(AccessRules, frozen=True, kw_only=True):
    """Which tools of a server there are, and which of them a person is asked about first."""

    ask: Annotated[
        Patterns, doc("Patterns of the tools that run only once you have agreed; they count as allowed.")
    ] = ()


def joined(own: R, common: R) -> R:
    """The rules of one server with those for all: what is denied or asked by either, the own `allow`.

    What is asked counts as allowed, beside an `allow` of the same place: to ask about all tools of all
    servers adds none to what one server allows. `own` is `common` with what differs.
    """
    lists = [field for field in own.__struct_fields__ if field != "allow"]
    both: dict[str, Patterns] = {field: (*getattr(common, field), *getattr(own, field)) for field in lists}
    if own.allow is not None:
        own_ask = () if _ask(own) is _ask(common) else _ask(own)
        counted = (*_ask(common), *own_ask) if own.allow is common.allow else own_ask
        both["allow"] = (*own.allow, *counted)
    return replace(own, **{field: tuple(dict.fromkeys(patterns)) for field, patterns in both.items()})


def _ask(rules: AccessRules) -> Patterns:
    return rules.ask if isinstance(rules, ToolRules) else ()


class Hints(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Annotations of a tool that you know better than its server. None: as the server says."""

    read_only_hint: Annotated[bool | None, doc("Whether the tool changes nothing.")] = None
    destructive_hint: Annotated[bool | None, doc("Whether it may delete or overwrite.")] = None
    idempotent_hint: Annotated[bool | None, doc("Whether calling it twice does what one call does.")] = None
    open_world_hint: Annotated[bool | None, doc("Whether it reaches beyond the server's own data.")] = None


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each process of one server may use. None: as much as it wants."""

    nice: Annotated[
        Annotated[int, Meta(ge=0, le=19)] | None,
        doc("Niceness of its processes: 19 is the lowest priority."),
    ] = None
    address_space: Annotated[
        Annotated[int, Meta(ge=1 << 20, le=1 << 50)] | None,
        doc("Bytes of address space of each of its processes (RLIMIT_AS)."),
    ] = None
    open_files: Annotated[
        Annotated[int, Meta(ge=16, le=1_000_000)] | None,
        doc("Files that each of its processes may have open (RLIMIT_NOFILE)."),
    ] = None


class Quota(ProcessLimits, frozen=True, kw_only=True):
    """What one server may use. None: as much as it wants."""

    calls_per_minute: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc("Requests of clients to the server in a minute. One more is refused as overloaded, unsent."),
    ] = None

    @property
    def of_processes(self) -> ProcessLimits:
        """The limits of its processes alone."""
        return ProcessLimits(**{field: getattr(self, field) for field in ProcessLimits.__struct_fields__})

"""One call as it is shown to those who watch calls: `CallWatch` makes it, and says what becomes of it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mcpx.core.events.audit.calls import argument_names
from mcpx.core.events.records import Record
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.text import cut, visible

MAX_NAME_CHARS: Final = 200
MAX_ARGUMENTS_BYTES: Final = 64 << 10  # of one call that can be repeated
MAX_TARGET_CHARS: Final = 8192  # of the name of what it asks for, as the longest URI of a listing has them
_LOOKED_AT: Final = 4096  # bytes of a text whose cost is estimated
Json = dict[str, Any]


class Call:
    """One call: what is shown of it, and what it takes to repeat it."""

    __slots__ = (
        "arguments",
        "bytes_in",
        "has_asked",
        "kind",
        "name",
        "record",
        "server",
        "shown",
        "target",
        "version",
    )

    def __init__(self, record: Record, *, read_only: bool) -> None:
        self.target = record.target
        origin, self.server, self.kind, self.name = record.target
        self.has_asked = False
        """True if it has ended with a question, with whose answer it may go on."""
        self.record: Record | None = record
        """While it runs."""
        self.arguments: bytes | None = bytes(record.arguments)
        self.bytes_in = len(record.arguments)
        self.version = 0
        """When it changed last, as `CallWatch.version` counts."""
        self.shown = shown_call(
            record.at_us,
            client=origin.client,
            transport=origin.transport,
            profile=origin.profile,
            server=self.server,
            kind=self.kind,
            name=self.name,
        )
        self.shown |= {
            "tokens_in": _estimated(self.arguments),
            "read_only": read_only,
            "repeatable": read_only and self.kind in {"tool", "resource"},
        }
        if self.is_large:
            self.arguments, self.shown["repeatable"] = None, False
        self.named(self.name)

    @property
    def is_large(self) -> bool:
        """True if its arguments are too large to be kept."""
        return self.bytes_in > MAX_ARGUMENTS_BYTES

    def named(self, name: str) -> None:
        """Note the name of what it asks for; with one that is too long to be kept it cannot be repeated."""
        self.name = name[:MAX_TARGET_CHARS]
        if len(name) > MAX_TARGET_CHARS:
            self.shown["repeatable"] = False

    def argument_names(self) -> list[str] | None:
        """The names of its arguments; None where they are not known any more."""
        if self.arguments is None:
            return None
        names: list[str] | None = msgspec.json.decode(argument_names(self.arguments))
        return names


def shown_call(
    at_us: int,
    *,
    client: str | None,
    transport: str | None,
    profile: str | None,
    server: str,
    kind: str,
    name: str,
) -> Json:
    """Return what is shown of a call of which no more is known than who has asked for what."""
    return {
        "id": at_us,
        "at": at_us // 1000,
        "client": client or transport,
        "transport": transport,
        "profile": profile,
        "server": shown_name(server),
        "kind": kind,
        "tool": shown_name(name),
        **dict.fromkeys(("ms", "outcome", "code", "end", "approval", "rule")),
        **dict.fromkeys(("tokens_in", "tokens_out", "tokens_direct", "bytes_out")),
        **dict.fromkeys(("cut", "read_only", "repeatable"), False),
    }


def shown_name(name: str) -> str:
    """Return a client's name for a server or a tool, which may be anything, fit to be shown."""
    return visible(cut(name, MAX_NAME_CHARS))


def _estimated(arguments: bytes | None) -> int:
    """The tokens of arguments as a model writes them; of long ones, by their beginning."""
    if not arguments:
        return 0
    looked_at = arguments[:_LOOKED_AT]
    return estimate_result(looked_at.decode(errors="ignore")) * len(arguments) // len(looked_at)

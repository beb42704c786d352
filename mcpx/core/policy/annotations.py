"""The annotations of tools: what the server says, what a person says in its place, and what follows. Pure.

What a server claims never widens what may run unasked: it may be wrong, or a lie.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import asdict, replace

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.config.per_server import AccessRules, Hints
from mcpx.core.policy.rules import NameRules, names_of_server

HINTS: Final = dict(zip(Hints.__struct_fields__, Hints.__struct_encode_fields__, strict=True))
"""The fields of `Hints` with the protocol's names of the annotations."""
_CAUTIOUS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""What restricts: what the protocol takes for granted of a tool that says nothing."""


def is_read_only(tool: ToolInfo) -> bool:
    """Whether a tool, in the form that clients are shown, changes nothing."""
    hints = tool.annotations or {}
    return hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True


class AnnotationRules:
    """What a person says of the tools of one server; of several patterns that fit, the last one counts."""

    def __init__(
        self, server: str, given: dict[str, Hints], *, trusted: bool, aliases: tuple[str, ...] = ()
    ) -> None:
        self._trusted = trusted
        self._rules = [
            (
                NameRules("annotations", server, AccessRules(deny=(pattern,)), aliases),
                names_of_server(pattern, server, *aliases),
                {HINTS[field]: value for field, value in asdict(hints).items() if value is not None},
            )
            for pattern, hints in given.items()
        ]

    @property
    def change(self) -> bool:
        """Whether there may be a tool whose annotations they change."""
        return bool(self._rules) or not self._trusted

    def apply(self, tool: ToolInfo, *, trusted: bool = True) -> ToolInfo:
        """The tool with the annotations that hold.

        Those of the server count where they are `trusted`, here and by the configuration.
        """
        given: JSON = tool.annotations or {}
        held = given
        if not (trusted and self._trusted):
            held = {name: value for name, value in given.items() if name not in _CAUTIOUS}
        for broad, narrow, hints in self._rules:
            if any(fits(tool.name) for fits in narrow):
                held = held | hints
            elif broad.against(tool.name):
                held = held | _cautious(hints)
        return tool if held == given else replace(tool, annotations=held or None)


def _cautious(hints: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in hints.items() if value is _CAUTIOUS[name]}

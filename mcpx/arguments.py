"""Arguments of a call against the tool's JSON Schema, before anything is sent.

Most are plain and get a quick yes; the others are checked by jsonschema, which explains what is wrong. What
was compiled is kept, once for each tool as it was last listed. A schema that cannot be used checks nothing
(the upstream will), and is logged once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from mcpx.catalog.model import JSON, ToolInfo
from mcpx.problems import Problem, invalid_arguments, kind_of
from mcpx.quick_check import quick_check

if TYPE_CHECKING:
    from mcpx.schema_check import SchemaCheck

log = structlog.get_logger()


def read_raw_arguments(raw: msgspec.Raw | bytes, tool: ToolInfo) -> tuple[JSON, bytes | msgspec.Raw]:
    """The arguments as an object, and as the JSON to send: the very bytes that came, where they can be.

    Raises:
        CallError: `invalid_arguments`; they are something else.
    """
    if not raw:
        return {}, b"{}"
    value = msgspec.json.decode(raw)
    if isinstance(value, dict):
        return value, raw
    checked = read_arguments(value, tool)
    return checked, msgspec.json.encode(checked)


def read_arguments(arguments: Any, tool: ToolInfo) -> JSON:
    """The arguments as an object: as given, out of the JSON string that holds it, or empty for none.

    Raises:
        CallError: `invalid_arguments`; they are something else.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        except msgspec.DecodeError as error:
            problem = f"expected an object, got a string that is not JSON ({error})"
            raise invalid_arguments(tool, [Problem("$", problem)]) from None
    if not isinstance(arguments, dict):
        raise invalid_arguments(tool, [Problem("$", f"expected an object, got {kind_of(arguments)}")])
    return arguments


class ArgumentChecker:
    """Checks arguments; keeps what it has compiled."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Tool] = {}

    def check(self, tool: ToolInfo, arguments: JSON) -> None:
        """Raises CallError `invalid_arguments` with every offending path and the schema; nothing was sent."""
        known = self._known.get((tool.server_name, tool.name))
        if known is None or known.info is not tool:
            known = self._known[tool.server_name, tool.name] = _Tool(tool)
        if known.quick is not None and known.quick(arguments):
            return
        if problems := known.problems(arguments):
            raise invalid_arguments(tool, problems)


class _Tool:
    """One tool as it was last listed, and its schema as far as it has been compiled."""

    def __init__(self, info: ToolInfo) -> None:
        self.info = info
        self.quick = quick_check(info.input_schema)
        self._check: SchemaCheck | None = None
        self._usable = True

    def problems(self, arguments: JSON) -> list[Problem]:
        """What jsonschema finds wrong."""
        from mcpx.schema_check import SchemaCheck, UnusableSchema  # noqa: PLC0415 - 3 MB, when first needed

        if not self._usable:
            return []
        try:
            if self._check is None:
                self._check = SchemaCheck(self.info.input_schema)
            return self._check.problems(arguments)
        except UnusableSchema as error:
            self._usable = False
            names = {"server": self.info.server_name, "tool": self.info.name}
            log.warning("arguments.unchecked", **names, reason=str(error))
            return []

"""The tools and documents of the changing server: what is there, and what each of its verbs does.

Owns the two lists. Called by `mcpx.demo.changing`. No I/O: `Shelf.apply` says what changed, and the caller
tells the client.
"""

from __future__ import annotations

import re
from typing import Any, Final

from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent, ToolsListChanged
from mcp_types import Tool, ToolAnnotations

URI_PREFIX: Final = "note:///"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

Change = tuple[str, ServerEvent | None]
"""What to answer, and what to announce, if anything."""


class Shelf:
    """Added tools and documents, in the order of their adding. Names are 1 to 64 of A-Z a-z 0-9 _ -."""

    def __init__(self) -> None:
        self.greeters: dict[str, None] = {}  # a set that keeps its order
        self.documents: dict[str, str] = {}

    def apply(self, tool: str, arguments: dict[str, Any]) -> Change:
        """Carry out one tool call.

        Raises:
            ValueError: It cannot be done; the text says why.
        """
        if tool in self.greeters:
            return f"Hello from {tool}", None
        if tool == "add_document":
            return self._put(_name(arguments), _text(arguments))
        verbs = {"add_tool": self._add, "remove_tool": self._remove, "remove_document": self._drop}
        if tool not in verbs:
            raise ValueError(f"There is no tool {tool}; add it with add_tool")
        return verbs[tool](_name(arguments))

    def _add(self, name: str) -> Change:
        if name in self.greeters or name in _TAKEN:
            raise ValueError(f"There is a tool {name} already")
        self.greeters[name] = None
        return f"added tool {name}", ToolsListChanged()

    def _remove(self, name: str) -> Change:
        if name not in self.greeters:
            raise ValueError(
                f"There is no added tool {name}; there are: {', '.join(self.greeters) or 'none'}"
            )
        del self.greeters[name]
        return f"removed tool {name}", ToolsListChanged()

    def _put(self, name: str, text: str) -> Change:
        replaced = name in self.documents
        self.documents[name] = text
        if replaced:
            return f"replaced {URI_PREFIX}{name}", ResourceUpdated(uri=URI_PREFIX + name)
        return f"added {URI_PREFIX}{name}", ResourcesListChanged()

    def _drop(self, name: str) -> Change:
        if name not in self.documents:
            raise ValueError(f"There is no document {name}; there are: {', '.join(self.documents) or 'none'}")
        del self.documents[name]
        return f"removed {URI_PREFIX}{name}", ResourcesListChanged()


def greeter(name: str) -> Tool:
    """The tool that was added under that name."""
    return Tool(
        name=name,
        description=f"Say hello from {name}.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def _verb(tool: str, description: str, /, **properties: str) -> Tool:
    """One of the server's own tools; every property is a required string, given with its description."""
    schemas = {key: {"type": "string", "description": text} for key, text in properties.items()}
    schemas["name"]["pattern"] = f"^{_NAME.pattern}$"
    return Tool(
        name=tool,
        description=description,
        input_schema={
            "type": "object",
            "properties": schemas,
            "required": list(schemas),
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=tool.startswith("remove"), open_world_hint=False
        ),
    )


VERBS: Final = (
    _verb("add_tool", "Add a tool that answers with a greeting.", name="The new tool's name"),
    _verb("remove_tool", "Remove a tool that was added.", name="The tool's name"),
    _verb(
        "add_document",
        "Add a document to the resources, or replace its text.",
        name="The document's name",
        text="Its text",
    ),
    _verb("remove_document", "Remove a document from the resources.", name="The document's name"),
)
_TAKEN: Final = frozenset(verb.name for verb in VERBS)


def _name(arguments: dict[str, Any]) -> str:
    name = arguments.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("name must be 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return name


def _text(arguments: dict[str, Any]) -> str:
    text = arguments.get("text")
    if not isinstance(text, str):
        raise ValueError("text must be a string")  # noqa: TRY004 - one kind of error for bad arguments
    return text

"""The texts that one client's model is shown: how large they are, and what the client cuts off.

`look` gathers them on the event loop, from the very code that serves the client; `Sight.measured` is for a
thread, since hundreds of definitions take a moment. What the client cuts is known from its row in
`mcpx.core.gateway.clients.known_clients`.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.events.costs import definitions_cost
from mcpx.core.gateway.clients.known_clients import (
    KnownClient,
    chars_of,
    gets_structured_content_whole,
    known_client,
)
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.native.lists import NativeForm, clean_texts, definition
from mcpx.core.gateway.tools.definitions import tools
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.system.endpoint import Endpoint

MAX_TOOLS: Final = 1000  # that are shown of one client
MAX_TEXT_CHARS: Final = 8000  # of a server's description in the list; the definition of the tool has all
MAX_DEFINITION_CHARS: Final = 200_000
UNKNOWN: Final = KnownClient(prefix="", title="", source="")
"""A client of which nothing is known."""


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """The texts and tools that a client is given now; `native` are those of servers by the names there."""

    known: KnownClient | None
    instructions: str
    own: list[JSON]
    native: dict[str, ToolInfo]
    form: NativeForm = NativeForm()
    as_is: bool = False
    """Whether the tools have the form that their server gave them: at a transparent endpoint."""

    def definition(self, name: str) -> JSON | None:
        """A tool as it stands in the list that the client gets; None where it is not in it."""
        own = next((tool for tool in self.own if tool["name"] == name), None)
        if own is not None or name not in self.native:
            return own
        tool = self.native[name]
        if self.as_is:
            return clean_texts(tool.to_protocol())
        return definition(tool, self.form)

    def cost(self) -> int:
        """The estimated tokens of all of it."""
        own = definitions_cost((tool["name"], tool["description"], tool["inputSchema"]) for tool in self.own)
        native = definitions_cost(
            (name, tool.description, tool.input_schema) for name, tool in self.native.items()
        )
        return estimate_result(self.instructions) + own + native

    def measured(self) -> JSON:
        """The texts with their sizes: `{instructions, tools, left_out}`; for a thread."""
        client = self.known or UNKNOWN
        names = [*(tool["name"] for tool in self.own), *self.native]
        tools = [self._tool(name, client.description_chars) for name in names[:MAX_TOOLS]]
        said = measured(
            self.instructions, chars=client.instructions_chars, max_bytes=client.instructions_bytes
        )
        return {"instructions": said, "tools": tools, "left_out": len(names) - len(tools)}

    def _tool(self, name: str, limit: int | None) -> JSON:
        tool, native = self.definition(name) or {}, self.native.get(name)
        description, schema = tool.get("description"), tool["inputSchema"]
        described = {} if native else _described(schema)
        return {
            "name": _clean(tool["name"]),
            "title": _clean(tool.get("title") or ""),
            "server": None if native is None else native.server_name,
            "description": measured(description or "", chars=limit, room=MAX_TEXT_CHARS),
            "parameters": [{"name": each, "description": measured(text)} for each, text in described.items()],
            "tokens": definitions_cost([(tool["name"], description, schema)]),
        }


def look(clients: ClientSessions, endpoint: Endpoint, name: str | None) -> Sight:
    """Gather what a client of that name (None: it has none) is given at an endpoint."""
    if endpoint.alone is not None:
        return _as_is(clients, endpoint.alone, endpoint.profile, name)
    tool_list = clients.tool_list(endpoint)
    descriptions, native = tool_list.look(name)
    policy = tool_list.hub.config.include_structured_content
    return Sight(
        known=known_client(name),
        instructions=tool_list.instructions(name),
        own=[] if descriptions is None else tools(descriptions),
        native=native,
        form=NativeForm(
            with_output_schema=gets_structured_content_whole(policy, name),
            mends=tool_list.mends(name),
            chars=chars_of(name),
        ),
    )


def _as_is(clients: ClientSessions, server: str, profile: str | None, name: str | None) -> Sight:
    """Gather what is given at the endpoint of one server, as far as that is shown."""
    upstream = clients.tool_list(seen_through(Endpoint(server=server, profile=profile))).hub.upstreams.get(
        server
    )
    known = None if upstream is None else upstream.catalogue
    return Sight(
        known=known_client(name),
        instructions="" if known is None else known.instructions or "",
        own=[],
        native={} if known is None else known.tools,
        as_is=True,
    )


def seen_through(endpoint: Endpoint) -> Endpoint:
    """The endpoint whose list of servers holds what is shown at this one, which may be that of one server."""
    return endpoint if endpoint.alone is None else Endpoint(profile=endpoint.profile)


def measured(
    text: str, *, chars: int | None = None, max_bytes: int | None = None, room: int | None = None
) -> JSON:
    """A text as a model sees it, and its size.

    `text` is what is shown, and `cut` what its client cuts off after that many `chars` or `max_bytes` of
    UTF-8. Of a text longer than `room` the rest is in neither, and `left_out` counts it.
    """
    text = _clean(text)
    kept = text if room is None else text[:room]
    shown = kept if chars is None else kept[:chars]
    if max_bytes is not None:
        shown = shown.encode()[:max_bytes].decode(errors="ignore")
    return {
        "text": shown,
        "cut": kept[len(shown) :],
        "left_out": len(text) - len(kept),
        "chars": len(text),
        "bytes": len(text.encode()),
        "tokens": estimate_result(text),
    }


def limits(known: KnownClient | None) -> list[str]:
    """Say what is known of a client's cuts, a sentence each."""
    if known is None:
        return []
    said = []
    if known.description_chars is not None:
        said.append(f"It shows {known.description_chars:,} characters of a tool's description.")
    if known.instructions_chars is not None:
        said.append(f"It shows {known.instructions_chars:,} characters of the instructions.")
    if known.instructions_bytes is not None:
        said.append(f"It shows {known.instructions_bytes:,} bytes of the instructions.")
    if known.shows_structured_content:
        said.append("It shows structured content to its model, so MCPX leaves that out of results.")
    return said + ([known.note] if known.note else [])


def written(tool: JSON) -> JSON:
    """The definition of a tool as it is sent, for people: `{text, left_out, bytes}`; for a thread."""
    text = _clean(json.dumps(tool, ensure_ascii=False, indent=2))
    sent = _clean(json.dumps(tool, ensure_ascii=False, separators=(",", ":")))
    left_out = max(0, len(text) - MAX_DEFINITION_CHARS)
    return {"text": text[:MAX_DEFINITION_CHARS], "left_out": left_out, "bytes": len(sent.encode())}


def _described(schema: JSON) -> dict[str, str]:
    """The parameters of one of MCPX's own tools that have a description."""
    properties = schema["properties"].items()
    return {name: each["description"] for name, each in properties if each.get("description")}


def _clean(text: str) -> str:
    """A text that can be written as UTF-8: lone surrogates of a server are replaced."""
    return text.encode(errors="replace").decode()

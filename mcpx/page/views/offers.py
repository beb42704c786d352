"""The offers of a server, for the page: lists that are bounded, and one tool whole.

The person at the page sees more than clients do: tools that a rule denies or that wait for approval are
listed, too, with the reason. Names are exact, since they are sent back; `shown` stands beside a name in which
something cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

import anyio.to_thread
import msgspec

from mcpx.core.catalog.model import (
    JSON,
    PromptInfo,
    ResourceInfo,
    TemplateInfo,
    ToolInfo,
    is_read_only,
    present,
)
from mcpx.core.daemon.hub import Hub
from mcpx.core.rendering.inspection.listing import clean_plain
from mcpx.core.rendering.tokens import estimate
from mcpx.core.rendering.typescript import SchemaConverter, outweighs
from mcpx.core.servers.server import Server
from mcpx.core.text import cut, one_line, paragraphs, visible
from mcpx.core.text.nearest import nearest
from mcpx.core.validation.example import example_arguments
from mcpx.errors import MCPXError

MAX_LISTED: Final = 2_000  # of each kind
MAX_LINE_CHARS: Final = 300  # of a description in a list
MAX_URI_CHARS: Final = 8_192
MAX_ARGUMENTS: Final = 100  # of a prompt
MAX_LEFT_OUT: Final = 50
MAX_INSTRUCTIONS_CHARS: Final = 20_000
MAX_WEIGHED_CHARS: Final = 65_536  # of a definition whose tokens are estimated
_HEAVY_JSON_CHARS: Final = 8_192  # of a schema that is made a type in a thread
T = TypeVar("T")


def offers(upstream: Server) -> JSON:
    """`{title?, version_said?, protocol?, instructions?, tools, resources, templates, prompts, left_out?}`.

    `more`, where it is there, counts what is not listed. The lists are empty before the first listing.
    """
    info, whole = upstream.info(), upstream.listed
    known = info.catalogue
    tools = {} if whole is None else whole.tools | {each.own.name: each for each in info.tools.values()}
    changed = {each.tool: each.kind for each in upstream.policy.changes() if each.tool is not None}
    lists: dict[str, tuple[int, Iterator[JSON]]] = {
        "tools": (len(tools), (_tool(each, upstream, changed) for each in tools.values())),
        "resources": (len(info.resources), map(_resource, info.resources.values())),
        "templates": (len(known.templates), map(_template, known.templates)) if known else (0, iter(())),
        "prompts": (len(known.prompts), map(_prompt, known.prompts)) if known else (0, iter(())),
    }
    more = {name: count - MAX_LISTED for name, (count, _) in lists.items() if count > MAX_LISTED}
    left_out = [each.to_dict() for each in info.left_out[:MAX_LEFT_OUT]]
    return {
        **present(
            title=_line(known.server_title) if known else None,
            version_said=_line(known.server_version) if known else None,
            protocol=known.protocol_version if known else None,
            instructions=paragraphs(cut(info.instructions, MAX_INSTRUCTIONS_CHARS))
            if info.instructions
            else None,
            **info.from_last_time(),
        ),
        **{name: list(islice(entries, MAX_LISTED)) for name, (_, entries) in lists.items()},
        **({"left_out": left_out} if left_out else {}),
        **({"more": more} if more else {}),
    }


async def whole_tool(hub: Hub, upstream: Server, name: str) -> JSON:
    """One tool: its entry in the list, its whole description and its schemas.

    `typescript` and `output_typescript` are the types as inspect shows them, `example` arguments that fit,
    `tokens` what the definition costs a client that lists it as it is.

    Raises:
        MCPXError: The server has no such tool.
    """
    listed = upstream.listed
    shown = upstream.info().tools.get(name)
    tool = shown or (listed.tools.get(name) if listed else None)
    if tool is None:
        near = nearest(name, listed.tools, most=1) if listed else []
        hint = f"; did you mean {near[0]}?" if near else ""
        raise MCPXError(f"{upstream.name} has no tool {one_line(name, 100)!r}{hint}")
    make = partial(_whole, tool, hub.config.max_description_len)
    is_heavy = outweighs([tool.input_schema, tool.output_schema], _HEAVY_JSON_CHARS)
    made = await anyio.to_thread.run_sync(make) if is_heavy else make()
    own = tool.own.name
    changes = [each for each in upstream.policy.changes() if each.tool == own]
    changed = {own: changes[0].kind} if changes else {}
    return {
        **_tool(tool, upstream, changed),
        **made,
        **({"difference": list(changes[0].difference)} if changes else {}),
    }


def _whole(tool: ToolInfo, words: int) -> JSON:
    """Make what follows from the tool's definition alone."""
    plain = clean_plain(tool)
    encoded = msgspec.json.encode(tool.to_protocol())
    tokens = estimate(encoded.decode()) if len(encoded) <= MAX_WEIGHED_CHARS else len(encoded) // 4
    convert = partial(SchemaConverter.convert, max_description_len=words)
    output = plain.get("output_schema")
    return present(
        description=plain.get("description"),
        input_schema=plain["input_schema"],
        output_schema=output,
        typescript=convert(tool.input_schema),
        output_typescript=None if output is None else convert(tool.output_schema),
        example=example_arguments(tool.input_schema),
        tokens=tokens,
    )


def _tool(tool: ToolInfo, upstream: Server, changed: Mapping[str, str]) -> JSON:
    """`{name, shown?, title?, description?, annotations?, read_only, hidden?, change?, refused?, asks?}`.

    `hidden` is the rule by which clients have no such tool, `change` what waits for approval (changed, new),
    `refused` why it does not run until then, `asks` the rule by which a person is asked before it runs.
    """
    policy = upstream.policy
    refusal = policy.refusal(tool.own.name)
    hints = {name: value for name, value in (tool.annotations or {}).items() if isinstance(value, bool)}
    return {
        "name": tool.name,
        "read_only": is_read_only(tool),
        **present(
            shown=_shown(tool.name),
            title=_line(tool.display_title),
            description=_line(tool.description),
            annotations=hints or None,
            hidden=policy.rule_against_tool(tool.own.name),
            change=changed.get(tool.own.name),
            refused=None if refusal is None else str(refusal),
            asks=policy.asks(tool),
        ),
    }


def _resource(resource: ResourceInfo) -> JSON:
    return present(uri=resource.uri, size=resource.size, **_about(resource))


def _template(template: TemplateInfo) -> JSON:
    return {"uri_template": template.uri_template, **_about(template)}


def _about(item: ResourceInfo | TemplateInfo) -> JSON:
    """Describe a resource or a template, but for where it is."""
    return present(
        name=_line(item.name),
        title=_line(item.title),
        description=_line(item.description),
        mime_type=_line(item.mime_type),
    )


def _prompt(prompt: PromptInfo) -> JSON:
    return present(
        name=prompt.name,
        shown=_shown(prompt.name),
        title=_line(prompt.title),
        description=_line(prompt.description),
        arguments=list(_arguments(prompt.arguments or ())),
    )


def _arguments(given: Iterable[JSON]) -> Iterator[JSON]:
    for each in islice((each for each in given if isinstance(each.get("name"), str)), MAX_ARGUMENTS):
        yield present(
            name=each["name"],
            description=_line(each.get("description")),
            required=each.get("required") is True or None,
        )


def _shown(name: str) -> str | None:
    """The name with escapes, where something in it cannot be seen as it is."""
    return None if (shown := visible(name)) == name else shown


def _line(text: Any) -> str | None:
    """The beginning of a text on one clean line; None for none."""
    return (one_line(text, MAX_LINE_CHARS) or None) if isinstance(text, str) else None

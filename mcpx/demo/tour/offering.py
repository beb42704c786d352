"""The scenes about what the servers offer: the catalogue, an inspect, an exec, a resource, with their tokens.

Each is a function of the stage that does one thing with the real hub, checks that it worked, and tells it.
"""

from __future__ import annotations

from typing import Any, Final

from mcpx.catalog.model import JSON, ServerInfo, ToolInfo
from mcpx.demo.tour.scene import DemoFailed, Excerpt, Scene, Share, Tokens, excerpt
from mcpx.demo.tour.stage import Stage, as_json, json_tokens
from mcpx.gateway.tools import definitions as tools
from mcpx.rendering.descriptions import Descriptions, describe
from mcpx.rendering.descriptions.wording import counted
from mcpx.rendering.results import Shaped
from mcpx.rendering.tokens import estimate

START_S: Final = 25.0  # a slow machine imports for seconds; longer than that is a failure
LEAFLET: Final = "hypertension.txt"


async def start(stage: Stage) -> Scene:
    """All three servers are ready."""
    await stage.hub.settled(START_S)
    servers = stage.hub.registry.list_servers()
    for info in servers:
        if not info.ready:
            raise DemoFailed(f"the server {info.name} is not ready: {info.describe_state()}")
    leaflets = stage.hub.registry.list_resources
    await stage.until(lambda: all(item.description for item in leaflets("knowledge")))
    took = max(record.fields["took_s"] for record in stage.journal.of("upstream.ready"))
    return Scene(
        name="start",
        title="Three servers, one gateway",
        said=(
            "MCPX has started three servers that ship with it, each as a child process under supervision."
            f" The slowest was ready after {took:.1f} s. A client sees none of their tools: it is given"
            " inspect, exec and resources."
        ),
        excerpts=(Excerpt("The servers:", "\n".join(map(_row, servers))),),
        facts={"servers": [info.to_dict() for info in servers], "took_s": took},
    )


def _row(info: ServerInfo) -> str:
    offers = f"{counted(len(info.tools), 'tool')}, {counted(len(info.resources), 'resource')}"
    protocol = info.catalogue.protocol_version if info.catalogue else None
    return f"{info.name:<10} {info.describe_state()}  {offers}, protocol {protocol}"


async def catalogue(stage: Stage) -> Scene:
    """What the model is told at the start, and what it would be told by the servers themselves."""
    servers = stage.hub.registry.list_servers()
    described = describe(servers, budget=stage.hub.config.catalog_token_budget)
    listed = [_as_listed(tool) for info in servers for tool in info.tools.values()]
    before, after, whole = json_tokens(listed), estimate(described.inspect), _three_tools(described)
    return Scene(
        name="catalogue",
        title="The catalogue: what a model knows before its first question",
        said=(
            f"The description of inspect stands for the {len(listed)} tools of all servers. With exec,"
            " resources and the list of documents it makes about"
            f" {whole:,} tokens. However many servers there are, the descriptions stay within a budget"
            f" ({stage.hub.config.catalog_token_budget:,} by default)."
        ),
        excerpts=(Excerpt("The description of inspect:", described.inspect),),
        tokens=Tokens(
            before=before,
            after=after,
            before_is="as the servers' own tools/list",
            after_is="so described",
            before_text=as_json(listed),
            after_text=described.inspect,
        ),
        share=Share(what="all tools, before the first question", direct=before, through_mcpx=whole),
        facts={"tools": len(listed), "three_tools_tokens": whole},
    )


def _as_listed(tool: ToolInfo) -> JSON:
    """The tool as the server's own tools/list has it."""
    fields: JSON = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _three_tools(described: Descriptions) -> int:
    """Tokens of MCPX's own tools/list: the three descriptions, and the JSON around them."""
    frames = [
        tool.model_copy(update={"description": ""}).model_dump(by_alias=True, mode="json", exclude_none=True)
        for tool in tools.tools(described)
    ]
    texts = (described.inspect, described.exec, described.resources)
    return json_tokens(frames) + sum(map(estimate, texts))


async def inspect(stage: Stage) -> Scene:
    """One tool, with its parameters as a TypeScript type."""
    shaped = await stage.hub.calls.inspect("tools", "list_orders")
    plain, shown = shaped.structured_content, _text(shaped)
    if not plain or "status?: 'open'" not in shown:
        raise DemoFailed(f"inspect did not show the parameters of list_orders: {shown}")
    before, after = json_tokens(plain), estimate(shown)
    return Scene(
        name="inspect",
        title="inspect(tools, list_orders): one tool, whole",
        said="The answer comes from the cache. A model reads the schemas as TypeScript types, in TOON.",
        excerpts=(
            Excerpt("As JSON Schema, the input alone:", as_json(plain["input_schema"])),
            Excerpt("As the model is given it:", shown),
        ),
        tokens=Tokens(
            before=before,
            after=after,
            before_is="with JSON Schemas",
            after_is="as TypeScript in TOON",
            before_text=as_json(plain),
            after_text=shown,
        ),
        share=Share(what="one tool inspected", direct=0, through_mcpx=after),
    )


async def run_tool(stage: Stage) -> Scene:
    """A call, with its JSON answer as TOON."""
    result = await stage.hub.calls.exec("tools", "list_orders", {})
    sent, shown = str(result.raw["content"][0]["text"]), result.compressed_data
    if result.is_error or len(shown) >= len(sent) or not shown.startswith("orders["):
        raise DemoFailed(f"list_orders did not come back as TOON: {shown}")
    before, after = estimate(sent), estimate(shown)
    return Scene(
        name="exec",
        title="exec(tools, list_orders, {}): a call, and its answer in fewer tokens",
        said=(
            "The arguments are checked, the call goes over the server's open session, and JSON comes back as"
            " TOON, because that is smaller here. Programs get the same as plain JSON in structuredContent."
        ),
        excerpts=(
            excerpt("As the server sent it:", sent, 6),
            excerpt("As the model is given it:", shown, 6),
        ),
        tokens=Tokens(
            before=before,
            after=after,
            before_is="as sent",
            after_is="in TOON",
            before_text=sent,
            after_text=shown,
        ),
        share=Share(what="one answer of a tool", direct=before, through_mcpx=after),
        facts={"structured_content": result.shaped.structured_content},
    )


async def read(stage: Stage) -> Scene:
    """A document, as it is."""
    found = [item for item in stage.hub.registry.list_resources("knowledge") if item.name == LEAFLET]
    if not found:
        raise DemoFailed(f"the knowledge base does not offer {LEAFLET}")
    item = found[0]
    text = _text(await stage.hub.calls.read("knowledge", item.uri))
    size = len(text.encode())
    if size != item.size:
        raise DemoFailed(f"{item.uri} has {item.size} bytes, but {size} were read")
    cost = estimate(text)
    return Scene(
        name="resource",
        title=f"resources(knowledge, .../{LEAFLET}): a document",
        said=(
            "The server gave this leaflet (in Chinese) no description: MCPX has made one of its first 100"
            " characters. The text itself comes through untouched."
        ),
        excerpts=(
            excerpt("The description that was made:", item.description or "", 3),
            excerpt(f"The text, {size:,} bytes, about {cost:,} tokens:", text, 4),
        ),
        share=Share(what="one document read", direct=cost, through_mcpx=cost),
        facts={"resource": item.to_dict(), "text": text},
    )


def _text(shaped: Shaped) -> str:
    texts: list[Any] = [block["text"] for block in shaped.content if block.get("type") == "text"]
    return "\n".join(texts)

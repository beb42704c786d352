"""The steps of the demonstration. Each does one thing with the real hub and reports what came of it.

A step that did not do what it says raises `StepFailed`, or what the hub raises.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec
import structlog
from structlog.testing import LogCapture

from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.config import Config, parse
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.tools import definitions
from mcpx.core.rendering.descriptions import describe, describe_tools
from mcpx.core.rendering.descriptions.ladder import counted
from mcpx.core.rendering.results import ToolResult
from mcpx.core.rendering.tokens import estimate
from mcpx.core.telemetry.log import configure
from mcpx.demo.tour.report import Excerpt, Share, Step, StepFailed, Tokens
from supervisors import Signal

# --- what the steps work with: a hub over the bundled servers, and its log

SERVERS: Final = ("tools", "knowledge", "changing")

Record = MutableMapping[str, Any]
"""A log record: its fields, `event`, `at` (a reading of the monotonic clock) and `log_level`."""


def demo_config() -> Config:
    """The bundled servers, run by this very Python; all settings are the defaults.

    `-P` keeps modules in the current folder from standing in for the libraries of the servers.
    """
    servers = {
        name: {"command": sys.executable, "args": ["-P", "-m", f"mcpx.demo.{name}"]} for name in SERVERS
    }
    return parse(msgspec.json.encode({"mcpServers": servers}), where="the demonstration's configuration")


class Context:
    """The running hub, and what was logged since `capture_log`."""

    hub: Hub

    def __init__(self) -> None:
        self._log = LogCapture()

    def capture_log(self) -> None:
        """Keep MCPX's log in memory. Errors of other libraries go to standard error."""
        configure("error")
        structlog.configure(
            processors=[lambda _logger, _level, event: {**event, "at": time.monotonic()}, self._log],
            wrapper_class=structlog.make_filtering_bound_logger("info"),
            cache_logger_on_first_use=False,
        )

    def records(self, event: str) -> list[Record]:
        """The records of one event, the oldest first."""
        return [record for record in self._log.entries if record["event"] == event]

    def last_warnings(self, most: int) -> tuple[str, ...]:
        """The last warnings and errors."""
        found = [record for record in self._log.entries if record["log_level"] in {"warning", "error"}]
        return tuple(map(shown, found[-most:]))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a change of some catalogue that makes `is_so` true."""
        changed = Signal()
        unobserve = self.hub.observe(lambda _server, _diff: changed.pulse())
        try:
            while not is_so():
                await changed.wait()
        finally:
            unobserve()


def shown(record: Record) -> str:
    """A record on one line."""
    fields = (f"{key}={value!r}" for key, value in record.items() if key not in {"event", "at", "log_level"})
    return " ".join([record["event"], *fields])


START_TIMEOUT_S: Final = 25.0  # a slow machine imports for seconds
LEAFLET: Final = "hypertension.txt"
NEW_TOOL: Final = "greet_the_reader"
ORDER: Final = 1003
_JSON_OVERCHARGE: Final = 1.33
"""`estimate` is made for listings, and charges compact JSON a third more than o200k_base and cl100k_base
do. Here JSON stands on the side that MCPX is compared with, so the third is taken off."""


async def start(context: Context) -> Step:
    """All three servers are ready."""
    await context.hub.settled(START_TIMEOUT_S)
    registry = context.hub.registry
    servers = registry.list_servers()
    for info in servers:
        if not info.ready:
            raise StepFailed(f"the server {info.name} is not ready: {info.describe_state()}")
    await context.until(lambda: all(item.description for item in registry.list_resources("knowledge")))
    took = max(record["took_s"] for record in context.records("upstream.ready"))
    return Step(
        "start",
        "Three servers, one gateway",
        (
            "MCPX has started three servers that ship with it, each as a child process under supervision."
            f" The slowest was ready after {took:.1f} s. A client sees none of their tools: it is given"
            " inspect, exec and resources."
        ),
        (Excerpt("The servers:", "\n".join(map(_row, servers))),),
        facts={"servers": [info.to_dict() for info in servers], "took_s": took},
    )


async def catalogue(context: Context) -> Step:
    """The model's view at the start, beside the one that the servers would give it."""
    hub = context.hub
    servers, budget = hub.registry.list_servers(), hub.config.catalog_token_budget
    described = describe(servers, budget=budget)
    listed = [tool.to_protocol() for info in servers for tool in info.tools.values()]
    frames = [tool | {"description": ""} for tool in definitions.tools(described)]
    texts = (described.inspect, described.exec, described.resources)
    whole = _json_tokens(frames) + sum(map(estimate, texts))
    names = "as the servers' own tools/list", "so described"
    tokens = _tokens(_json_tokens(listed), (_json(listed), described.inspect), names)
    return Step(
        "catalogue",
        "The catalogue: what a model knows before its first question",
        (
            f"The description of inspect stands for the {len(listed)} tools of all servers. With exec,"
            f" resources and the list of documents it makes about {whole:,} tokens. However many servers"
            f" there are, the descriptions stay within a budget ({budget:,} by default)."
        ),
        (Excerpt("The description of inspect:", described.inspect),),
        tokens=tokens,
        share=Share("all tools, before the first question", tokens.before, whole),
        facts={"tools": len(listed), "three_tools_tokens": whole},
    )


async def inspect(context: Context) -> Step:
    """One tool, with its parameters as a TypeScript type."""
    result = await context.hub.calls.inspect("tools", "list_orders")
    plain, text = result.structured_content, _text(result)
    if not plain or "status?: 'open'" not in text:
        raise StepFailed(f"inspect did not show the parameters of list_orders: {text}")
    names = "with JSON Schemas", "as TypeScript in TOON"
    tokens = _tokens(_json_tokens(plain), (_json(plain), text), names)
    return Step(
        "inspect",
        "inspect(tools, list_orders): one tool, whole",
        "The answer comes from the cache. A model reads the schemas as TypeScript types, in TOON.",
        (
            Excerpt("As JSON Schema, the input alone:", _json(plain["input_schema"])),
            Excerpt("As the model is given it:", text),
        ),
        tokens=tokens,
        share=Share("one tool inspected", 0, tokens.after),
    )


async def run_tool(context: Context) -> Step:
    """A call, with its JSON answer as TOON."""
    result = await context.hub.calls.exec("tools", "list_orders", {})
    sent, text = str(result.raw["content"][0]["text"]), result.compressed_data
    if result.is_error or len(text) >= len(sent) or not text.startswith("orders["):
        raise StepFailed(f"list_orders did not come back as TOON: {text}")
    tokens = _tokens(estimate(sent), (sent, text), ("as sent", "in TOON"))
    return Step(
        "exec",
        "exec(tools, list_orders, {}): a call, and its answer in fewer tokens",
        (
            "The arguments are checked, the call goes over the server's open session, and JSON comes back as"
            " TOON, because that is smaller here. Programs get the same as plain JSON in structuredContent."
        ),
        (_beginning("As the server sent it:", sent, 6), _beginning("As the model is given it:", text, 6)),
        tokens=tokens,
        share=Share("one answer of a tool", tokens.before, tokens.after),
        facts={"structured_content": result.shaped.structured_content},
    )


async def read(context: Context) -> Step:
    """A document, as it is."""
    hub = context.hub
    item = next((item for item in hub.registry.list_resources("knowledge") if item.name == LEAFLET), None)
    if item is None:
        raise StepFailed(f"the knowledge base does not offer {LEAFLET}")
    text = _text(await hub.calls.read("knowledge", item.uri))
    size, cost = len(text.encode()), estimate(text)
    if size != item.size:
        raise StepFailed(f"{item.uri} has {item.size} bytes, but {size} were read")
    return Step(
        "resource",
        f"resources(knowledge, .../{LEAFLET}): a document",
        (
            "The server gave this leaflet (in Chinese) no description: MCPX has made one of its first 100"
            " characters. The text itself comes through untouched."
        ),
        (
            _beginning("The description that was made:", item.description or "", 3),
            _beginning(f"The text, {size:,} bytes, about {cost:,} tokens:", text, 4),
        ),
        share=Share("one document read", cost, cost),
        facts={"resource": item.to_dict(), "text": text},
    )


async def change(context: Context) -> Step:
    """A server adds a tool to itself; the catalogue follows, and the tool can be run."""
    router, registry = context.hub.calls, context.hub.registry
    started = time.monotonic()
    await router.exec("changing", "add_tool", {"name": NEW_TOOL})
    await context.until(lambda: registry.get_tool("changing", NEW_TOOL) is not None)
    seen_ms = _ms(time.monotonic() - started)
    answer = (await router.exec("changing", NEW_TOOL)).compressed_data
    if NEW_TOOL not in answer:
        raise StepFailed(f"the new tool answered {answer!r}")
    known = [info for info in registry.list_servers() if info.name == "changing"]
    return Step(
        "change",
        "A list that changes while it runs",
        (
            f"exec(changing, add_tool, ...) makes that server announce a new tool. It stood in the catalogue"
            f" {seen_ms} ms later (announcements are gathered for 200 ms), without a restart of anything. A"
            " connected client would be told that the list has changed."
        ),
        (
            Excerpt("The server in the catalogue now:", describe_tools(known, budget=1000)),
            Excerpt(f"exec(changing, {NEW_TOOL}):", answer),
        ),
        facts={"seen_ms": seen_ms, "answer": answer},
    )


async def recover(context: Context) -> Step:
    """A server is killed; the call made right after it succeeds."""
    upstream = context.hub.upstreams["tools"]
    old = upstream.pid
    if old is None:
        raise StepFailed("the server tools has no process to kill")
    killed = time.monotonic()
    os.kill(old, signal.SIGKILL)
    result = await context.hub.calls.exec("tools", "get_order", {"id": ORDER})
    answered_ms, text = _ms(time.monotonic() - killed), result.compressed_data
    if result.is_error or upstream.pid in {None, old}:
        raise StepFailed(f"the call after the kill was answered {text!r}")
    died, ready = (_logged(context, event, killed) for event in ("upstream.failed", "upstream.ready"))
    noticed_ms, starting_ms = _ms(died["at"] - killed), _ms(ready["at"] - died["at"])
    return Step(
        "recovery",
        "A server is killed, and the next call succeeds",
        (
            f"SIGKILL to process {old} (tools), and at once exec(tools, get_order). The death was noticed"
            f" after {noticed_ms} ms, the new process needed {starting_ms} ms to start, shake hands and list"
            f" its tools, and the call, which had waited for it, was answered {answered_ms} ms after the"
            " kill."
        ),
        (
            Excerpt("The log:", f"{shown(died)}\n{shown(ready)}"),
            Excerpt(f"exec(tools, get_order, id={ORDER}):", text),
        ),
        facts={"killed": old, "new": upstream.pid, "noticed_ms": noticed_ms, "answered_ms": answered_ms}
        | {"log": [shown(died), shown(ready)], "order": result.shaped.structured_content},
    )


STEPS: Final[dict[str, Callable[[Context], Awaitable[Step]]]] = {
    "start": start,
    "catalogue": catalogue,
    "inspect": inspect,
    "exec": run_tool,
    "resource": read,
    "change": change,
    "recovery": recover,
}


def _row(info: ServerInfo) -> str:
    offers = f"{counted(len(info.tools), 'tool')}, {counted(len(info.resources), 'resource')}"
    protocol = info.catalogue.protocol_version if info.catalogue else None
    return f"{info.name:<10} {info.describe_state()}  {offers}, protocol {protocol}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _json_tokens(value: Any) -> int:
    return round(estimate(_json(value)) / _JSON_OVERCHARGE)


def _tokens(before: int, texts: tuple[str, str], names: tuple[str, str]) -> Tokens:
    return Tokens(before, estimate(texts[1]), *names, *texts)


def _beginning(caption: str, text: str, lines: int) -> Excerpt:
    """The first `lines` lines of a text, and the number of the others."""
    all_lines = text.rstrip().splitlines()
    more = len(all_lines) - lines
    kept = all_lines[:lines] + ([f"... {more} more lines"] if more > 1 else all_lines[lines:])
    return Excerpt(caption, "\n".join(kept))


def _text(result: ToolResult) -> str:
    return "\n".join(block["text"] for block in result.content if block.get("type") == "text")


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


def _logged(context: Context, event: str, since: float) -> Record:
    for record in context.records(event):
        if record["server"] == "tools" and record["at"] >= since:
            return record
    raise StepFailed(f"the log has no {event} of the server that was killed")

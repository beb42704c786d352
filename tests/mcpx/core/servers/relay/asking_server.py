"""A server built on the SDK that asks its client things, in either era, over stdio or HTTP; for tests.

Run as `python asking_server.py ERA [PORT]`: ERA is `handshake`, anything else means both; with a port (0: any
free one) it serves HTTP at `/mcp`, and prints the port on standard output.

* `ask(questions)`: puts each `{method, params}` to the client, one after another, and answers with what it
  said, as JSON. At 2026-07-28 all of them stand in one result.
* `rounds(count)`: asks the same `roots/list` that often, one round after another.
* `say(level, data, logger?)`: a log message. `steps(count)`: so many progress notifications.
* `meet(name, size, questions)`: waits until `size` such calls with that name are here, then asks.
* `patient(question, seconds)`: asks (older revisions), and answers with the client's progress on it; after
  `seconds` it gives the question up.
* The prompt `ask(questions)`, JSON, and the resource `ask:///QUESTIONS`, percent-encoded JSON: as the tool,
  with a step of progress.
* `complete(name)`: says that the elicitation of that id is done.
* `seen()`: what the client's request said of itself, its capabilities and log level; the levels that were
  set; and what `roots/list` brought each time that the roots had changed, which is also logged.
"""

from __future__ import annotations

import json
import socket
import sys
import warnings
from typing import Any
from urllib.parse import unquote

import anyio
import uvicorn
from mcp import MCPError
from mcp.server import Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp_types import (
    LOG_LEVEL_META_KEY,
    CallToolResult,
    EmptyResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    NotificationParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    ResourceTemplate,
    SetLevelRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

warnings.simplefilter("ignore")
ANY = {"type": "object"}
NAMES = ("ask", "rounds", "say", "steps", "meet", "patient", "complete", "seen")
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Asking:
    def __init__(self) -> None:
        self.level: str | None = None
        self.levels: list[str] = []
        self.roots: list[Any] = []
        self.roots_listed = anyio.Event()
        self.meetings: dict[str, tuple[list[None], anyio.Event]] = {}

    def server(self, *, handshake: bool) -> Server[Any]:
        server: Server[Any] = Server(
            "asking",
            version="1",
            on_list_tools=self.tools,
            on_call_tool=self.call,
            on_list_prompts=self.prompts,
            on_get_prompt=self.prompt,
            on_list_resources=self.resources,
            on_list_resource_templates=self.templates,
            on_read_resource=self.read,
        )
        if handshake:
            server.add_request_handler("logging/setLevel", SetLevelRequestParams, self.set_level)
            server.add_notification_handler(
                "notifications/roots/list_changed", NotificationParams, self.roots_changed
            )
        return server

    async def set_level(self, _ctx: Any, params: SetLevelRequestParams) -> EmptyResult:
        self.level = params.level
        self.levels.append(params.level)
        return EmptyResult()

    async def roots_changed(self, ctx: Any, _params: NotificationParams) -> None:
        try:
            self.roots.append(await ctx.session._connection.outbound.send_raw_request("roots/list", None))
        except MCPError as error:
            self.roots.append({"code": error.code, "message": error.message})
        await ctx.session.send_log_message("notice", "roots have changed", "watch")
        self.roots_listed.set()

    async def tools(self, _ctx: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=name, input_schema=ANY) for name in NAMES])

    async def call(self, ctx: Any, params: Any) -> Any:
        return await getattr(self, "tool_" + params.name)(ctx, **(params.arguments or {}))

    # --- the same beside the tools

    async def prompts(self, _ctx: Any, _params: Any) -> ListPromptsResult:
        arguments = [PromptArgument(name="questions", required=True)]
        return ListPromptsResult(prompts=[Prompt(name="ask", arguments=arguments)])

    async def prompt(self, ctx: Any, params: Any) -> Any:
        await ctx.session.report_progress(1, 1, "asking")
        result = await self.tool_ask(ctx, json.loads(params.arguments["questions"]))
        if not isinstance(result, CallToolResult):
            return result
        return GetPromptResult(messages=[PromptMessage(role="user", content=result.content[0])])

    async def resources(self, _ctx: Any, _params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    async def templates(self, _ctx: Any, _params: Any) -> ListResourceTemplatesResult:
        template = ResourceTemplate(name="ask", uri_template="ask:///{questions}")
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, ctx: Any, params: Any) -> Any:
        await ctx.session.report_progress(1, 1, "asking")
        questions = json.loads(unquote(str(params.uri).removeprefix("ask:///")))
        result = await self.tool_ask(ctx, questions)
        if not isinstance(result, CallToolResult):
            return result
        return ReadResourceResult(
            contents=[TextResourceContents(uri=params.uri, text=result.content[0].text)]
        )

    # --- the tools

    async def tool_ask(self, ctx: Any, questions: list[dict[str, Any]]) -> Any:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return self.ask_modern(ctx, questions)
        return text([await self.ask_now(ctx, each) for each in questions])

    def ask_modern(self, ctx: Any, questions: list[dict[str, Any]]) -> Any:
        asked = {f"q{number}": question for number, question in enumerate(questions)}
        if (answers := ctx.params.get("inputResponses")) is None:
            return {"resultType": "input_required", "inputRequests": asked, "requestState": "s p\u00e4t"}
        if ctx.params.get("requestState") != "s p\u00e4t":
            return text({"state": ctx.params.get("requestState")})
        return text([answers[key] for key in asked])

    async def ask_now(self, ctx: Any, question: dict[str, Any]) -> Any:
        channel = ctx.session._request_outbound
        try:
            return await channel.send_raw_request(question["method"], question.get("params"))
        except MCPError as error:
            return {"code": error.code, "message": error.message}

    async def tool_rounds(self, ctx: Any, count: int) -> Any:
        question = {"method": "roots/list"}
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return text([await self.ask_now(ctx, question) for _ in range(count)])
        so_far = json.loads(ctx.params.get("requestState") or "[]")
        if (answers := ctx.params.get("inputResponses")) is not None:
            so_far.append(answers["q"])
        if len(so_far) < count:
            return InputRequiredResult(input_requests={"q": question}, request_state=json.dumps(so_far))
        return text(so_far)

    async def tool_say(self, ctx: Any, level: str, data: Any, logger: str | None = None) -> CallToolResult:
        if self.level is None or LEVELS.index(level) >= LEVELS.index(self.level):
            await ctx.session.send_log_message(level, data, logger, ctx.request_id)
        return text("said")

    async def tool_steps(self, ctx: Any, count: int) -> CallToolResult:
        for number in range(count):
            await ctx.session.report_progress(number + 1, count, f"step {number + 1}")
        return text("stepped")

    async def tool_meet(self, ctx: Any, name: str, size: int, **then: Any) -> Any:
        here, all_here = self.meetings.setdefault(name, ([], anyio.Event()))
        here.append(None)
        if len(here) >= size:
            all_here.set()
        await all_here.wait()
        if (data := then.get("data")) is not None:
            await ctx.session.report_progress(1, 1, data)
            await ctx.session.send_log_message("info", data, None, ctx.request_id)
        return await self.tool_ask(ctx, then.get("questions", []))

    async def tool_patient(self, ctx: Any, question: dict[str, Any], seconds: float) -> CallToolResult:
        steps: list[Any] = []

        async def step(*told: Any) -> None:
            steps.append(told)

        channel = ctx.session._request_outbound
        try:
            options = {"timeout": seconds, "on_progress": step}
            await channel.send_raw_request(question["method"], question.get("params"), options)
        except MCPError as error:
            return text([*steps, error.message])
        return text(steps)

    async def tool_complete(self, ctx: Any, name: str) -> CallToolResult:
        channel = ctx.session._request_outbound
        await channel.notify("notifications/elicitation/complete", {"elicitationId": name})
        return text("completed")

    async def tool_seen(self, ctx: Any, *, after_roots: bool = False) -> CallToolResult:
        if after_roots:
            await self.roots_listed.wait()
        capabilities = ctx.session.client_capabilities
        shown = (
            capabilities.model_dump(by_alias=True, mode="json", exclude_none=True) if capabilities else None
        )
        meta = ctx.params.get("_meta") or {}
        seen = {"capabilities": shown, "level": meta.get(LOG_LEVEL_META_KEY)}
        return text({**seen, "levels": self.levels, "roots": self.roots})


def text(value: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=json.dumps({"said": value}))])


async def over_stdio(server: Server[Any], *, handshake: bool) -> None:
    async with stdio_server() as (incoming, outgoing):
        if handshake:
            await serve_loop(server, incoming, outgoing, lifespan_state=None)
        else:
            await server.run(incoming, outgoing, server.create_initialization_options())


async def over_http(server: Server[Any], port: int, *, handshake: bool) -> None:
    app = server.streamable_http_app()

    async def older(scope: Any, receive: Any, send: Any) -> None:
        """A server that has never heard of 2026-07-28."""
        headers = dict(scope.get("headers") or [])
        if handshake and headers.get(b"mcp-protocol-version", b"").decode() in MODERN_PROTOCOL_VERSIONS:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Unsupported protocol version"})
            return
        await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", port))
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(older, log_config=None, lifespan="on")).serve([listener])


if __name__ == "__main__":
    is_handshake = sys.argv[1] == "handshake"
    built = Asking().server(handshake=is_handshake)
    if len(sys.argv) > 2:
        port_wanted = int(sys.argv[2])
        anyio.run(lambda: over_http(built, port_wanted, handshake=is_handshake))
    else:
        anyio.run(lambda: over_stdio(built, handshake=is_handshake))

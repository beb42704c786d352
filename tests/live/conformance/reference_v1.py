"""The reference server of the conformance suite on the Python SDK 1, which knows the handshake era only.

Run as `python reference_v1.py` over stdio, or as `python reference_v1.py PORT` over HTTP at `/mcp`, with the
Python of `.venv-servers`; says "listening" on standard error then. That SDK declares `subscribe: false`
whatever a server has.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import contents  # beside this file, and so is `events`
import uvicorn
from events import Events
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import McpError
from starlette.applications import Starlette
from starlette.routing import Mount

LOOPBACK: Final = ["127.0.0.1:*", "localhost:*"]
SERVER: Final[Server[Any, Any]] = Server("mcpx-conformance-reference", version="1")


def _words(words: str) -> dict[str, Any]:
    return {"content": [contents.text(words)]}


async def _log(context: Any) -> dict[str, Any]:
    for number, words in enumerate(("started", "processing", "completed")):
        if number:
            await anyio.sleep(contents.PAUSE_S)
        await context.session.send_log_message("info", f"Tool {words}", related_request_id=context.request_id)
    return _words("logged")


async def _progress(context: Any) -> dict[str, Any]:
    token = context.meta.progressToken if context.meta is not None else None
    for done in (0, 50, 100):
        if token is not None:
            related = str(context.request_id)
            await context.session.send_progress_notification(token, done, 100, related_request_id=related)
        await anyio.sleep(contents.PAUSE_S)
    return _words("done")


async def _reconnect(context: Any) -> dict[str, Any]:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await anyio.sleep(contents.RECONNECTION_S)
    return _words("Reconnection test completed")


async def _sample(context: Any, prompt: str) -> dict[str, Any]:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await context.session.create_message(
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return _words(f"LLM response: {answer.content.text}")


def _elicit(schema: dict[str, Any]) -> Callable[..., Any]:
    async def elicit(context: Any, message: str = "Please tell") -> dict[str, Any]:
        answer = await context.session.elicit(message, schema, related_request_id=context.request_id)
        return _words(f"action={answer.action}, content={answer.content}")

    return elicit


ACTIONS: Final[dict[str, Callable[..., Any]]] = {
    "test_tool_with_logging": _log,
    "test_tool_with_progress": _progress,
    "test_reconnection": _reconnect,
    "test_sampling": _sample,
    "test_elicitation": _elicit(contents.USER_SCHEMA),
    "test_elicitation_sep1034_defaults": _elicit(contents.DEFAULTS_SCHEMA),
    "test_elicitation_sep1330_enums": _elicit(contents.CHOICES_SCHEMA),
}


async def call(request: types.CallToolRequest) -> types.CallToolResult:
    name, arguments = request.params.name, request.params.arguments or {}
    if name in contents.RESULTS:
        return types.CallToolResult.model_validate(contents.RESULTS[name])
    if name not in ACTIONS:
        raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=f"Unknown tool: {name}"))
    return types.CallToolResult.model_validate(await ACTIONS[name](SERVER.request_context, **arguments))


async def read(request: types.ReadResourceRequest) -> types.ReadResourceResult:
    found = contents.read(str(request.params.uri))
    if found is None:
        raise McpError(types.ErrorData(code=-32002, message="Resource not found"))
    return types.ReadResourceResult.model_validate(found)


async def get_prompt(request: types.GetPromptRequest) -> types.GetPromptResult:
    found = contents.prompt(request.params.name, request.params.arguments or {})
    if found is None:
        raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message="Unknown prompt"))
    return types.GetPromptResult.model_validate(found)


def _handle(request: Any, model: Any, result: Callable[[Any], Any]) -> None:
    async def handler(asked: Any) -> types.ServerResult:
        found = result(asked)
        return types.ServerResult(model.model_validate(found) if isinstance(found, dict) else await found)

    SERVER.request_handlers[request] = handler


_handle(types.ListToolsRequest, types.ListToolsResult, lambda _: {"tools": contents.TOOLS})
_handle(types.CallToolRequest, None, call)
_handle(types.ListResourcesRequest, types.ListResourcesResult, lambda _: {"resources": contents.RESOURCES})
_handle(
    types.ListResourceTemplatesRequest,
    types.ListResourceTemplatesResult,
    lambda _: {"resourceTemplates": contents.TEMPLATES},
)
_handle(types.ReadResourceRequest, None, read)
_handle(types.SubscribeRequest, types.EmptyResult, lambda _: {})
_handle(types.UnsubscribeRequest, types.EmptyResult, lambda _: {})
_handle(types.ListPromptsRequest, types.ListPromptsResult, lambda _: {"prompts": contents.PROMPTS})
_handle(types.GetPromptRequest, None, get_prompt)
_handle(
    types.CompleteRequest, types.CompleteResult, lambda asked: contents.complete(asked.params.argument.value)
)
_handle(types.SetLevelRequest, types.EmptyResult, lambda _: {})


async def over_stdio() -> None:
    """Serve one client on standard input and output."""
    async with stdio_server() as streams:
        await SERVER.run(*streams, SERVER.create_initialization_options())


def over_http(port: int) -> None:
    """Serve HTTP at this port of the loopback; 0 takes a free one."""
    origins = [f"http://{host}" for host in LOOPBACK]
    manager = StreamableHTTPSessionManager(
        SERVER,
        event_store=Events(),
        retry_interval=100,
        security_settings=TransportSecuritySettings(allowed_hosts=LOOPBACK, allowed_origins=origins),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", port))
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}/mcp/", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", http="h11")).run(sockets=[listener])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        over_http(int(sys.argv[1]))
    else:
        anyio.run(over_stdio)

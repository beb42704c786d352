"""The reference server of the conformance suite on the Python SDK 2, which speaks both eras.

Run as `python reference.py` over stdio, or as `python reference.py PORT` over HTTP at `/mcp`; says
"listening" on standard error then. It has what the suite's scenarios ask of a server, and nothing of MCPX.
"""

from __future__ import annotations

import json
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import contents  # beside this file, and so is `events`
import mcp_types as types
import uvicorn
from events import Events
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

JSON = dict[str, Any]
Context = ServerRequestContext[Any, Any]

NAME: Final = "mcpx-conformance-reference"
RETRY_MS: Final = 100
MISSING_CAPABILITY: Final = -32021
_ASK_NAME: Final = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_CONFIRM: Final = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
_BUS: Final = InMemorySubscriptionBus()


def _elicitation(message: str, schema: JSON = _ASK_NAME) -> JSON:
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sampling(words: str, max_tokens: int) -> JSON:
    message = {"role": "user", "content": contents.text(words)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}}


_ROOTS: Final[JSON] = {"method": "roots/list", "params": {}}
ROUNDS: Final[dict[str, list[JSON]]] = {
    "test_input_required_result_elicitation": [{"user_name": _elicitation("What is your name?")}],
    "test_input_required_result_sampling": [
        {"capital_question": _sampling("What is the capital of France?", 100)}
    ],
    "test_input_required_result_list_roots": [{"client_roots": _ROOTS}],
    "test_input_required_result_request_state": [{"confirm": _elicitation("Please confirm", _CONFIRM)}],
    "test_input_required_result_multiple_inputs": [
        {
            "user_name": _elicitation("What is your name?"),
            "greeting": _sampling("Generate a greeting", 50),
            "client_roots": _ROOTS,
        }
    ],
    "test_input_required_result_multi_round": [
        {"step1": _elicitation("Step 1: What is your name?")},
        {"step2": _elicitation("Step 2: What is your favorite color?")},
    ],
    "test_input_required_result_tampered_state": [{"confirm": _elicitation("Please confirm", _CONFIRM)}],
    "test_streaming_elicitation": [{"user_name": _elicitation("What is your name?")}],
}
"""What each tool of 2026-07-28 wants to know, round by round."""
_WITHOUT_STATE: Final = {
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
}
_MODERN: Final = [
    *ROUNDS,
    "test_input_required_result_capabilities",
    "test_missing_capability",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
]
_HEADER_TOOL: Final[JSON] = {
    "name": "test_custom_header",
    "description": "Take an argument that a header repeats",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
}
TOOLS: Final[list[JSON]] = [
    *contents.TOOLS,
    _HEADER_TOOL,
    *({"name": name, "description": name, "inputSchema": {"type": "object"}} for name in _MODERN),
]
PROMPTS: Final[list[JSON]] = [
    *contents.PROMPTS,
    {"name": "test_input_required_result_prompt", "description": "Asks for a context first"},
]


def _input_required(requests: JSON, state: str | None) -> types.InputRequiredResult:
    given = {"inputRequests": requests} | ({} if state is None else {"requestState": state})
    return types.InputRequiredResult.model_validate({"resultType": "input_required", **given})


def _words(result: str) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": [contents.text(result)]})


def _ask(name: str, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    """The next round of questions, or the result when all of them are answered."""
    rounds, answers = ROUNDS[name], params.input_responses or {}
    number = int(json.loads(params.request_state)["round"]) if params.request_state else 0
    if answers.keys() >= rounds[number].keys() and all(map(_usable, answers.values())):
        number += 1
        if number == len(rounds):
            return _words(f"state-ok: {', '.join(sorted(answers))}")
    state = None if name in _WITHOUT_STATE else json.dumps({"round": number})
    return _input_required(rounds[number], state)


def _usable(answer: Any) -> bool:
    return not isinstance(answer, types.ElicitResult) or answer.action in {"accept", "decline", "cancel"}


async def _log(context: Context) -> types.CallToolResult:
    for number, words in enumerate(
        ("Tool execution started", "Tool processing data", "Tool execution completed")
    ):
        if number:
            await anyio.sleep(contents.PAUSE_S)
        await _say(context, words)
    return _words("logged")


async def _say(context: Context, words: str) -> None:
    await context.session.send_log_message("info", words, related_request_id=context.request_id)


async def _progress(context: Context) -> types.CallToolResult:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(contents.PAUSE_S)
    return _words("done")


async def _reconnect(context: Context) -> types.CallToolResult:
    await _say(context, "before")
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await anyio.sleep(contents.RECONNECTION_S)
    await _say(context, "after")
    return _words("Reconnection test completed")


def _elicit(schema: JSON) -> Callable[..., Awaitable[types.CallToolResult]]:
    async def elicit(context: Context, message: str = "Please tell") -> types.CallToolResult:
        answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
        return _words(f"action={answer.action}, content={json.dumps(answer.content)}")

    return elicit


async def _sample(context: Context, prompt: str) -> types.CallToolResult:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    answer = await context.session.create_message(
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return _words(f"LLM response: {getattr(answer.content, 'text', '')}")


async def _capabilities(context: Context) -> types.InputRequiredResult:
    has = context.session.client_capabilities
    requests: JSON = {}
    if has is not None and has.sampling is not None:
        requests["sample"] = _sampling("Say hello", 50)
    if has is not None and has.elicitation is not None:
        requests["ask"] = _elicitation("What is your name?")
    return _input_required(requests, "capabilities")


async def _missing_capability(context: Context) -> types.CallToolResult:
    has = context.session.client_capabilities
    if has is None or has.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_CAPABILITY, "Missing required client capability", data=needed)
    return _words("sampling is there")


async def _change_tools(_: Context) -> types.CallToolResult:
    await _BUS.publish(ToolsListChanged())
    return _words("changed")


async def _change_prompts(_: Context) -> types.CallToolResult:
    await _BUS.publish(PromptsListChanged())
    return _words("changed")


ACTIONS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "test_tool_with_logging": _log,
    "test_logging_tool": _log,
    "test_tool_with_progress": _progress,
    "test_reconnection": _reconnect,
    "test_sampling": _sample,
    "test_elicitation": _elicit(contents.USER_SCHEMA),
    "test_elicitation_sep1034_defaults": _elicit(contents.DEFAULTS_SCHEMA),
    "test_elicitation_sep1330_enums": _elicit(contents.CHOICES_SCHEMA),
    "test_input_required_result_capabilities": _capabilities,
    "test_missing_capability": _missing_capability,
    "test_trigger_tool_change": _change_tools,
    "test_trigger_prompt_change": _change_prompts,
}


async def call(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    if params.name in contents.RESULTS:
        return types.CallToolResult.model_validate(contents.RESULTS[params.name])
    if params.name in ROUNDS:
        return _ask(params.name, params)
    if params.name not in ACTIONS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    answered: types.CallToolResult = await ACTIONS[params.name](context, **(params.arguments or {}))
    return answered


async def get_prompt(
    _: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name == "test_input_required_result_prompt":
        answers = params.input_responses or {}
        if "user_context" not in answers:
            schema = {"type": "object", "properties": {"context": {"type": "string"}}}
            return _input_required({"user_context": _elicitation("Which context?", schema)}, None)
        said = {"role": "user", "content": contents.text("Use the context.")}
        return types.GetPromptResult.model_validate({"messages": [said]})
    found = contents.prompt(params.name, params.arguments or {})
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    return types.GetPromptResult.model_validate(found)


async def read(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    found = contents.read(str(params.uri))
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", data={"uri": str(params.uri)})
    return types.ReadResourceResult.model_validate(found)


def server() -> Server[Any]:
    """The server, ready to run on any transport."""
    listings: dict[str, tuple[Any, JSON]] = {
        "on_list_tools": (types.ListToolsResult, {"tools": TOOLS}),
        "on_list_resources": (types.ListResourcesResult, {"resources": contents.RESOURCES}),
        "on_list_resource_templates": (
            types.ListResourceTemplatesResult,
            {"resourceTemplates": contents.TEMPLATES},
        ),
        "on_list_prompts": (types.ListPromptsResult, {"prompts": PROMPTS}),
    }
    schemas = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
    methods = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "resources/read")
    made: Server[Any] = Server(
        NAME,
        version="1",
        cache_hints=dict.fromkeys((*methods, "server/discover"), CacheHint(ttl_ms=1000, scope="private")),
        get_tool_input_schema=schemas.get,
        on_call_tool=call,
        on_get_prompt=get_prompt,
        on_read_resource=read,
        on_completion=_answer(lambda p: contents.complete(p.argument.value), types.CompleteResult),
        on_subscribe_resource=_answer(lambda _: {}, types.EmptyResult),
        on_unsubscribe_resource=_answer(lambda _: {}, types.EmptyResult),
        on_set_logging_level=_answer(lambda _: {}, types.EmptyResult),
        on_subscriptions_listen=ListenHandler(_BUS),
        **{name: _answer(lambda _, r=result: r, model) for name, (model, result) in listings.items()},
    )
    made.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    return made


def _answer(result: Callable[[Any], JSON], model: Any) -> Callable[[Context, Any], Awaitable[Any]]:
    async def handler(_: Context, params: Any) -> Any:
        return model.model_validate(result(params))

    return handler


async def over_stdio() -> None:
    """Serve one client on standard input and output."""
    made = server()
    async with stdio_server() as streams:
        await made.run(*streams, made.create_initialization_options())


def over_http(port: int) -> None:
    """Serve HTTP at this port of the loopback; 0 takes a free one."""
    app = server().streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
    listener = socket.create_server(("127.0.0.1", port))
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", http="h11")).run(sockets=[listener])


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the SDK warns of what 2026-07-28 deprecates
    if len(sys.argv) > 1:
        over_http(int(sys.argv[1]))
    else:
        anyio.run(over_stdio)

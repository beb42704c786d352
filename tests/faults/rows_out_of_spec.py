"""Rows of the hostile table: servers beside the letter of the protocol, which work directly."""

from __future__ import annotations

from typing import Any

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
PLAIN = {"type": "object"}


@faults.row("a server that exits when the first message is not initialize")
async def older_only(on: Hostile) -> None:
    code = """
        first = sys.stdin.buffer.readline()
        if b'"initialize"' not in first:
            os.write(2, b"expect initialized request\\n")
            sys.exit(1)
        server.take(json.loads(first))
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    starts = on.starts()
    on.check(starts <= 2, f"{starts} starts until it was ready")
    await on.control("restart", server="s")
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    on.check(on.starts() == starts + 1, f"it is not remembered: {on.starts() - starts} starts for a restart")


async def odd_list(on: Hostile, method: str, answer: str) -> None:
    """One list that is refused or odd: the tools are there."""
    code = f"""
        def on_{method.replace("/", "_")}(request_id, params):
            {answer}
    """
    capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
    answers = {
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []},
        "prompts/list": {"prompts": []},
    }
    name = f"{method.replace('/', '-')}-{abs(hash(answer))}"
    await on.add(s=on.stdio(name, code=code, answers=answers, capabilities=capabilities))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")


LISTS = ("resources/list", "resources/templates/list", "prompts/list")


@faults.row("lists of resources and prompts that are refused")
async def refused_lists(on: Hostile) -> None:
    for method in LISTS:
        await odd_list(on, method, 'fail(request_id, -32601, "Method not found")')
    await odd_list(on, LISTS[0], 'fail(request_id, -32603, "cannot")')


@faults.row("lists of resources and prompts that are no lists")
async def odd_lists(on: Hostile) -> None:
    for method in LISTS:
        await odd_list(on, method, "reply(request_id, {})")
    await odd_list(on, LISTS[0], 'reply(request_id, {"resources": None})')
    await odd_list(on, LISTS[2], 'reply(request_id, {"prompts": [5, None, {"name": 5}, {"name": "p"}]})')
    await odd_list(on, LISTS[0], "raw(request_id, b'[1]')")


@faults.row("half a surrogate pair in a listing and in an answer")
async def half_a_pair(on: Hostile) -> None:
    code = r"""
        def on_tools_list(request_id, params):
            tool = b'{"name":"echo","description":"cut \\ud83d","inputSchema":{"type":"object"}}'
            raw(request_id, b'{"tools":[%s]}' % tool)
        def on_tools_call(request_id, params):
            raw(request_id, b'{"content":[{"type":"text","text":"cut \\ud83d here"}]}')
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "cut ", " here")
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "cut ", " here")


ODD_TOOLS: list[dict[str, Any]] = [
    {"name": "no_type", "inputSchema": {}},
    {"name": "ref_at_the_top", "inputSchema": {"$ref": "#/$defs/a", "$defs": {"a": PLAIN}}},
    {"name": "any_of_at_the_top", "inputSchema": {"anyOf": [PLAIN]}},
    {"name": "array_out", "inputSchema": PLAIN, "outputSchema": {"type": "array"}},
    {"name": "odd_icon", "inputSchema": PLAIN, "icons": [{"src": "x", "sizes": "48x48"}]},
    {"name": "odd_task", "inputSchema": PLAIN, "execution": {"taskSupport": "sometimes"}},
    {"name": "null_schema", "inputSchema": None},
    {"name": "no_schema"},
    {"inputSchema": PLAIN},
    {"name": 5, "inputSchema": PLAIN},
    {"name": "odd_hints", "inputSchema": PLAIN, "annotations": {"readOnlyHint": "yes"}},
    {"name": "odd_words", "inputSchema": PLAIN, "description": 5, "title": []},
]


@faults.row("odd tools beside a good one")
async def odd_tools(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[*ODD_TOOLS, {"name": "good", "inputSchema": PLAIN}, 5, None]))
    async with on.client() as client:
        on.answered(await client.exec("s", "good"), "good by")
        told = await client.tool("inspect", server_name="s")
        for tool in ODD_TOOLS[:8]:
            answer = await client.exec("s", tool["name"])
            on.check(
                answer.in_words == "the answer"
                or (answer.code == "unknown_tool" and tool["name"] in told.text),
                f"{tool['name']}: {answer.in_words}, and inspect does not name it",
            )


@faults.row("an error of null beside the result")
async def null_error(on: Hostile) -> None:
    code = """
        def send(**message):
            error = {"error": None} if "result" in message else {"result": None}
            write(json.dumps({"jsonrpc": "2.0", **error, **message}).encode() + b"\\n")
        server.send = send
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")


@faults.row("capabilities of {} and tools all the same")
async def no_capabilities(on: Hostile) -> None:
    await on.add(s=on.stdio(capabilities={}))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")

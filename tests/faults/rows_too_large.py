"""Rows of the hostile table: what fills the memory or stalls everybody."""

from __future__ import annotations

import subprocess
import sys

import anyio
import anyio.to_thread

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
SHORT = {"call_timeout": 3.0, "connect_timeout": 3.0, "queue_timeout": 4.0}
LIMIT = 4 << 20  # max_message_bytes where the whole of it is to be reached soon

ENDLESS = """
    async def endless(server, writer, status, **headers):
        await server.head(writer, status, connection="close", **headers)
        while not writer.is_closing():
            await server.write(writer, b"x" * 65536)
        return True
"""


# --- D4


async def endless_body(on: Hostile, at: str, status: int, *, era: str = "legacy", **headers: str) -> None:
    code = f"""{ENDLESS}
    async def take(server, request, writer):
        return request.asks == {at!r} and await endless(server, writer, {status}, **{headers!r})
    """
    await on.add(s=await on.http(code, era=era, entry=SHORT))
    async with on.client() as client:
        answer = await client.exec("s", "act")
        on.saw(answer.in_words)
        on.check(answer.code is not None, f"answered all the same: {answer.text[:200]}")


@faults.row("307 with an endless body in answer to a call", memory_mb=16)
async def redirected_call(on: Hostile) -> None:
    await endless_body(on, "tools/call", 307, location="/mcp")


@faults.row("307 with an endless body in answer to initialize", in_suite=False, memory_mb=16)
async def redirected_start(on: Hostile) -> None:
    await endless_body(on, "initialize", 307, location="/mcp")


@faults.row("202 with an endless body in answer to a call", memory_mb=16)
async def accepted_call(on: Hostile) -> None:
    await endless_body(on, "tools/call", 202)


@faults.row("old SSE: 202 with an endless body", in_suite=False, memory_mb=16)
async def accepted_old_call(on: Hostile) -> None:
    await endless_body(on, "tools/call", 202, era="sse")


@faults.row("404 with an endless body in answer to a call", memory_mb=16)
async def endless_refusal(on: Hostile) -> None:
    await endless_body(on, "tools/call", 404, content_type="application/json")


@faults.row("307 with an endless body in answer to a notification", memory_mb=16)
async def redirected_notification(on: Hostile) -> None:
    code = f"""{ENDLESS}
    async def take(server, request, writer):
        if request.asks != "notifications/initialized":
            return False
        return await endless(server, writer, 307, location="/mcp")
    """
    await on.add(s=await on.http(code, entry=SHORT))
    async with on.client() as client:
        on.saw((await client.exec("s", "act")).in_words)
        # the notification goes on by itself: what it costs meanwhile is judged
        await anyio.sleep(0.3 if on.brief else 1.0)


# --- D5


@faults.row("endless pages of tools, 5 MB each", memory_mb=160)
async def large_pages(on: Hostile) -> None:
    code = """
        page = [0]
        text = "x" * 5_000_000
        def on_tools_list(request_id, params):
            page[0] += 1
            tools = [{"name": f"t{page[0]}", "description": text, "inputSchema": {"type": "object"}}]
            reply(request_id, {"tools": tools, "nextCursor": str(page[0])})
    """
    await on.add(s=on.stdio(code=code, entry={"connect_timeout": 15.0}), settled=False)
    async with on.client() as client:
        on.saw((await client.exec("s", "t1", within_s=20.0)).in_words)
        await client.request("tools/list")


@faults.row(
    "endless pages of resources, 2 MB each, with a limit of 4 MB",
    in_suite=False,
    memory_mb=64,
    max_message_bytes=LIMIT,
)
async def large_resource_pages(on: Hostile) -> None:
    code = """
        page = [0]
        text = "x" * 2_000_000
        def on_resources_list(request_id, params):
            page[0] += 1
            each = {"name": f"r{page[0]}", "uri": f"x:{page[0]}", "description": text}
            reply(request_id, {"resources": [each], "nextCursor": str(page[0])})
    """
    capabilities = {"tools": {}, "resources": {}}
    entry = {"connect_timeout": 15.0}
    await on.add(s=on.stdio(code=code, capabilities=capabilities, entry=entry), settled=False)
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=20.0), "echo by")


@faults.row("one description of 21 MB", in_suite=False, memory_mb=160)
async def large_description(on: Hostile) -> None:
    code = """
        server.tools = [
            {"name": "t", "description": "a b " * 5_250_000, "inputSchema": {"type": "object"}},
            {"name": "echo", "inputSchema": {"type": "object"}},
        ]
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        for _ in range(4):
            listed = await client.request("tools/list")
            on.check(len(str(listed.message)) < 100_000, "tools/list carries the whole description")
        on.answered(await client.exec("s", "echo"), "echo by")


@faults.row("100,000 tools", in_suite=False, memory_mb=160)
async def many_tools(on: Hostile) -> None:
    code = """
        server.tools = [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(100_000)]
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        told = await client.tool("inspect", server_name="s")
        on.saw(told.in_words)
        on.check(len(told.text) < 1_000_000, f"inspect shows {len(told.text)} characters")
        await client.request("tools/list")


# --- D8

CROWD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
many, port, head = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
crowd = []
for _ in range(many):
    joined = socket.socket()
    joined.settimeout(5)
    try:
        joined.connect(("127.0.0.1", port))
        joined.sendall(head)
    except OSError:
        pass
    crowd.append(joined)
print(len(crowd), flush=True)
sys.stdin.read()
"""


@faults.row("1,100 silent connections to the HTTP endpoint", in_suite=False, log_lines=50)
async def silent_connections(on: Hostile) -> None:
    await crowd(on, 1100, "")


@faults.row("2,000 connections with half a request", in_suite=False)
async def half_heads(on: Hostile) -> None:
    await crowd(on, 2000, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")


async def crowd(on: Hostile, size: int, head: str) -> None:
    """While they stand, a server can be restarted, `status` answers, and the socket takes clients."""
    await on.add(s=on.stdio())
    port, _token = on.mcpx.http()
    command = [sys.executable, "-S", "-E", "-c", CROWD, str(size), str(port), head]
    process = await anyio.open_process(command, stdin=subprocess.PIPE, stderr=None)
    assert process.stdout is not None
    try:
        with anyio.fail_after(30.0):
            await process.stdout.receive()
        on.check("servers" in await on.control("status"), "status is not answered")
        told = await on.control("restart", server="s")
        on.check(told.get("restarted") == "s", f"the server is not restarted: {told}")
        async with on.client() as client:
            on.answered(await client.exec("s", "echo"), "echo by")
    finally:
        process.kill()
        await process.aclose()
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "echo by")


# --- D12


async def large_answer(on: Hostile, text: str) -> None:
    """`text` is an expression: the text of the answer."""
    code = f"""
        def on_tools_call(request_id, params):
            say(request_id, {text})
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        answer = await client.exec("s", "echo", within_s=30.0)
        on.saw(answer.in_words)
        on.check(answer.in_words == "the answer", f"{answer.in_words}: {answer.text[:200]}")


@faults.row("20 MB of nested lists", memory_mb=160)
async def large_lists(on: Hostile) -> None:
    await large_answer(on, '"[" + ",".join(["[[[[[[[1]]]]]]]"] * 1_250_000) + "]"')


@faults.row("20 MB of objects with numbers as names", in_suite=False, memory_mb=160)
async def large_objects(on: Hostile) -> None:
    await large_answer(on, '"{" + ",".join(f\'"{n}":{{}}\' for n in range(1_800_000)) + "}"')


@faults.row("20 MB of plain rows", in_suite=False, memory_mb=160)
async def large_rows(on: Hostile) -> None:
    await large_answer(on, 'json.dumps([{"id": n, "name": f"name {n}", "ok": True} for n in range(400_000)])')


# --- large answers

FLOOD = """
    def fill(head, unit, tail):
        return head + unit * (({mb} * 1_000_000 - len(head) - len(tail)) // len(unit)) + tail
    result = {result}
"""
BLOCKS = """fill(b'{"content":[', b'{"type":"text","text":"x"},', b"{}]}")"""
TEXT = """fill(b'{"content":[{"type":"text","text":"', b"some words of a log, ", b'"}]}')"""
EIGHT = 8


async def large_answers_at_once(on: Hostile, result: str, saw: str) -> None:
    """Eight servers answer at once with `result`, an expression."""
    flood = FLOOD.format(mb=24 if on.brief else 60, result=result)
    code = f"""{flood}
    def on_tools_call(request_id, params):
        raw(request_id, result)
    """
    entry = {"call_timeout": 30.0, "queue_timeout": 30.0}
    servers = {f"s{n}": on.stdio(f"s{n}", code=code, entry=entry) for n in range(EIGHT)}
    await on.add(**servers)
    async with on.client() as client:
        asked = []
        for name in servers:
            given = {"server_name": name, "tool_name": "echo", "arguments": {}}
            asked.append(await client.ask("tools/call", {"name": "exec", "arguments": given}))
        for request_id in asked:
            answer = await client.answer(request_id, within_s=35.0)
            on.saw(answer.in_words)
            on.check(answer.in_words == saw, f"{answer.in_words}: {answer.text[:200]}")


@faults.row("eight answers of 60 MB at once: 2,000,000 blocks of text each", memory_mb=160)
async def many_blocks_at_once(on: Hostile) -> None:
    await large_answers_at_once(on, BLOCKS, "response_too_large, unknown")


@faults.row("eight answers of 60 MB at once: one text each", in_suite=False, memory_mb=190)
async def large_texts_at_once(on: Hostile) -> None:
    await large_answers_at_once(on, TEXT, "the answer")


@faults.row("an answer of 60 MB that stops in the middle, and seven others", memory_mb=160)
async def stops_in_the_middle(on: Hostile) -> None:
    size = 40 if on.brief else 60
    flood = FLOOD.format(mb=size, result=BLOCKS)
    code = f"""{flood}
    import time
    def on_tools_call(request_id, params):
        if params["arguments"].get("stops"):
            write(b'{{"jsonrpc":"2.0","id":%d,"result":' % request_id + result[:-100])
            note("stopped")
        else:
            raw(request_id, result)
    """
    entry = {"call_timeout": 30.0, "queue_timeout": 30.0}
    await on.add(s=on.stdio(code=code, entry=entry), other=on.stdio("other", code=code, entry=entry))
    async with on.client() as client:
        given = {"server_name": "s", "tool_name": "echo", "arguments": {"stops": True}}
        await client.ask("tools/call", {"name": "exec", "arguments": given})
        on.check(await on.noted("stopped"), "it was not read up to there")
        answer = await client.exec("other", "echo", within_s=30.0)
        on.saw(answer.in_words)
        on.check(answer.in_words == "response_too_large, unknown", f"the other one: {answer.in_words}")


@faults.row("1,200 calls of 256 kB of a client that never reads", memory_mb=104)  # 64 are kept results
async def never_reads(on: Hostile) -> None:
    code = """
    text = "some words of a log, \\n" * 11_700
    calls = [0]
    def on_tools_call(request_id, params):
        calls[0] += 1
        say(request_id, text)
        if calls[0] == params["arguments"]["last"]:
            note("answered")
    """
    entry = {"call_timeout": 30.0, "queue_timeout": 30.0}
    await on.add(s=on.stdio(code=code, entry=entry))
    async with on.client() as client:
        for _ in range(600 if on.brief else 1200):
            given = {"server_name": "s", "tool_name": "echo", "arguments": {"last": 250}}
            await client.ask("tools/call", {"name": "exec", "arguments": given})
        on.check(await on.noted("answered", within_s=30.0), "the calls are not carried out")
        on.saw("nothing: it does not read")


@faults.row("an error with 60 MB of data", memory_mb=130)
async def large_error(on: Hostile) -> None:
    size = 20 if on.brief else 60
    code = f"""
    data = b"[" + b"[[[[1]]]]," * ({size}00_000) + b"1]"
    def on_tools_call(request_id, params):
        head = b'{{"jsonrpc":"2.0","id":%d,"error":{{"code":-32000,"message":"no","data":' % request_id
        write(head + data + b"}}}}\\n")
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 30.0}))
    async with on.client() as client:
        answer = await client.exec("s", "echo", within_s=30.0)
        on.failed(answer, "upstream_error", "failed", "no")


@faults.row("a name of 300 letters that is nearly each of 1,000 tools", in_suite=False, memory_mb=64)
async def nearly_all_names(on: Hostile) -> None:
    tools = [{"name": f"a1Ba1B{n:04}" * 12, "inputSchema": {"type": "object"}} for n in range(1000)]
    await on.add(s=on.stdio(tools=tools))
    async with on.client() as client:
        for _ in range(4):
            answer = await client.exec("s", "a1Ba1B" * 50)
            on.failed(answer, "unknown_tool", "not_sent")

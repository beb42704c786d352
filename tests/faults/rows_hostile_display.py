"""Rows of the hostile table: what servers write and people or models read, and very large answers."""

from __future__ import annotations

import os
import pty
import re
import sys

import anyio.to_thread

from tests.faults.hostile import Hostile, HostileFaults
from tests.forking.client import Python, run

faults = HostileFaults()
PLAIN = {"type": "object"}
INSPECTED = 80_000  # characters of an inspect: its 16,000 tokens
COMMAND_S = 30.0  # for a command of MCPX to its end
HARMFUL = "a\x1b[2J\x1b]0;owned\x07b\u202ec\u200bd\x9be"


async def large(on: Hostile, result: str, *, within_s: float = 30.0) -> None:
    """`result` is an expression: the JSON of a result, as bytes."""
    code = f"""
        def on_tools_call(request_id, params):
            raw(request_id, {result})
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=within_s))


@faults.row("60 MB of structured content in small lists", in_suite=False, memory_mb=500)
async def large_structure(on: Hostile) -> None:
    await large(
        on,
        'b\'{"content":[{"type":"text","text":"see there"}],"structuredContent":{"a":[\''
        " + b'[[1]],' * 9_000_000 + b'1]}}'",
    )


@faults.row("20 MB of structured content and no text", memory_mb=500)
async def structure_alone(on: Hostile) -> None:
    await large(on, "b'{\"structuredContent\":{\"a\":[' + b'{\"b\":1},' * 2_500_000 + b'1]}}'")


@faults.row("60 MB of text", memory_mb=500)
async def large_text(on: Hostile) -> None:
    await large(on, 'b\'{"content":[{"type":"text","text":"\' + b"words, " * 8_500_000 + b\'"}]}\'')


@faults.row("a result of four million empty blocks", memory_mb=300)
async def empty_blocks(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            raw(request_id, b'{"content":[' + b'{},' * %d + b'{}]}')
    """
    code %= 1_000_000 if on.brief else 4_000_000
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        answer = await client.exec("s", "echo", within_s=30.0)
        on.saw(answer.in_words)


@faults.row("a 30 MB blob, and 20 MB of text in a million items", memory_mb=500)
async def large_reads(on: Hostile) -> None:
    resources = {"resources": [{"uri": "x:blob", "name": "b"}, {"uri": "x:many", "name": "m"}]}
    code = """
        def on_resources_read(request_id, params):
            if params["uri"] == "x:blob":
                raw(request_id, b'{"contents":[{"uri":"x:blob","blob":"' + b"YWFh" * 7_500_000 + b'"}]}')
            else:
                raw(request_id, b'{"contents":[' + b'{"uri":"x:many","text":""},' * 800_000 + b'{}]}')
    """
    await on.add(s=on.stdio(code=code, answers={"resources/list": resources}))
    async with on.client() as client:
        blob = await client.tool("resources", server_name="s", uri="x:blob", within_s=30.0)
        on.saw(blob.in_words)
        on.check(blob.in_words == "the answer", f"the blob is not read: {blob.text[:200]}")
        many = await client.tool("resources", server_name="s", uri="x:many", within_s=30.0)
        on.failed(many, "response_too_large", "unknown")


@faults.row("a question of 30 MB in place of a result", memory_mb=100)
async def large_question(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            asked = b'{"method":"roots/list","params":{"a":[' + b'[],' * 10_000_000 + b'[]]}}'
            raw(request_id, b'{"resultType":"input_required","inputRequests":{"q":' + asked + b'}}')
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        on.failed(await client.exec("s", "echo", within_s=30.0), "response_too_large", "unknown")


@faults.row("inspect of 10,000 tools", memory_mb=200)
async def crowded_inspect(on: Hostile) -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5)}}
    tools = [
        {"name": f"a_tool_{n}", "description": "words " * 40, "inputSchema": schema} for n in range(10_000)
    ]
    await on.add(s=on.stdio(tools=tools))
    async with on.client() as client:
        told = await client.tool("inspect", server_name="s")
        on.saw(told.in_words)
        on.check(len(told.text) < INSPECTED, f"inspect shows {len(told.text)} characters")
        on.check("tools_total: 10000" in told.text, f"the number of tools is not told: {told.text[:300]}")
        on.check("shows one tool whole" in told.text, "it is not told how to see the rest")
        one = await client.tool("inspect", server_name="s", tool_name="a_tool_9999")
        on.check("p4?: string" in one.text, f"one tool is not shown whole: {one.text[:300]}")


@faults.row("inspect of schemas that take long to be shown", memory_mb=200)
async def slow_schemas(on: Hostile) -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"enum": [n, "x"]} for n in range(2000)}}
    values = {"type": "object", "properties": {"p": {"enum": [f"v{n}" for n in range(5_000)]}}}
    tools = [{"name": f"t{n}", "inputSchema": schema} for n, schema in enumerate([wide, values] * 10)]
    await on.add(s=on.stdio(tools=tools))
    async with on.client() as client:
        told = await client.tool("inspect", server_name="s")
        on.saw(told.in_words)
        on.check(len(told.text) < INSPECTED, f"inspect shows {len(told.text)} characters")
        on.check("t19" in told.text, "the last tool is not shown")


@faults.row("300, 700 and 900 tools on one server beside small ones")
async def many_tools(on: Hostile) -> None:
    for count in (300, 700, 900):
        small = [f"small_{n}" for n in range(3)]  # servers that are alike are grouped
        servers = {
            name: on.stdio(f"{name}-{count}", tools=[{"name": name, "inputSchema": PLAIN}]) for name in small
        }
        tools = [{"name": f"one_of_many_tools_{n}", "inputSchema": PLAIN} for n in range(count)]
        await on.add(s=on.stdio(f"s-{count}", tools=tools), **servers)
        async with on.client() as client:
            listed = (await client.request("tools/list")).result["tools"]
            shown = "\n".join(each["description"] for each in listed)
            on.check(
                len(re.findall(r"small_\d\(\)|echo\(\)", shown)) >= 4,
                f"beside {count} tools the others are cut: {shown[:600]}",
            )
            reading = next(each for each in listed if each["name"] == "resources")["annotations"]
            on.check(reading["openWorldHint"], "resources says that it cannot reach the open world")
            on.answered(await client.exec("s", "one_of_many_tools_1"), "one_of_many_tools_1 by")


@faults.row("terminal escapes in what exec, resources, inspect and logs print")
async def terminal(on: Hostile) -> None:
    resources = {"resources": [{"uri": "x:1", "name": HARMFUL, "mimeType": HARMFUL}]}
    read = {"contents": [{"uri": "x:1", "text": HARMFUL}]}
    tools = [{"name": "echo", "title": HARMFUL, "description": HARMFUL, "inputSchema": PLAIN}]
    code = f"""
        def start():
            os.write(2, {HARMFUL!r}.encode() + b"\\n")
        def on_tools_call(request_id, params):
            say(request_id, {HARMFUL!r})
    """
    answers = {"resources/list": resources, "resources/read": read}
    await on.add(s=on.stdio(tools=tools, code=code, answers=answers))
    for words in (
        ["exec", "s", "echo"],
        ["resources", "s", "x:1"],
        ["resources"],
        ["inspect", "s"],
        ["logs", "s"],
    ):
        shown = await anyio.to_thread.run_sync(_on_terminal, on, words)
        on.check("a" in shown, f"mcpx {words[0]} prints nothing: {shown[:300]!r}")
        for harm in ("\x1b[2J", "\x1b]0", "\x07", "\u202e", "\u200b", "\x9b"):
            on.check(harm not in shown, f"mcpx {' '.join(words)} prints {harm!r}: {shown[:300]!r}")
        piped = await anyio.to_thread.run_sync(_in_pipe, on, words)
        if words[0] in {"exec", "logs"}:
            on.check(HARMFUL in piped, f"mcpx {words[0]} changes what goes into a pipe: {piped[:300]!r}")
    on.saw("escapes on a terminal, the text itself in a pipe")


def _command(on: Hostile, words: list[str]) -> tuple[list[str], dict[str, str]]:
    command = [sys.executable, "-P", "-m", "mcpx", *words, "--config", str(on.mcpx.place.config)]
    return command, {**os.environ, "MCPX_STATE_DIR": str(on.mcpx.state)}


def _on_terminal(on: Hostile, words: list[str]) -> str:
    """What a command of MCPX writes to a terminal."""
    command, environment = _command(on, words)
    ours, theirs = pty.openpty()
    with Python(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # how Linux says that the other side is closed
            pass
        running.wait(COMMAND_S)
    os.close(ours)
    return b"".join(parts).decode(errors="replace")


def _in_pipe(on: Hostile, words: list[str]) -> str:
    command, environment = _command(on, words)
    done = run(command, env=environment, capture_output=True, timeout=COMMAND_S)
    return done.stdout.decode(errors="replace")


@faults.row("20 MB of JSON and 10,000 tools at the HTTP endpoint", memory_mb=700)
async def http_endpoint(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            say(request_id, "[" + ",".join(["[[[[1]]]]"] * 500_000) + "]")
    """
    tools = [{"name": f"a_tool_{n}", "inputSchema": PLAIN} for n in range(10_000)]
    await on.add(s=on.stdio(code=code, tools=tools))
    http = await on.http_client()
    on.answered(await http.exec("s", "a_tool_1", within_s=30.0))

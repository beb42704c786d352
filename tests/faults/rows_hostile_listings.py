"""Rows of the hostile table: what servers list, how they greet, and how often they die."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
PLAIN = {"type": "object"}
ECHO = {"name": "echo", "inputSchema": PLAIN}


async def named(on: Hostile, *words: str, server: str = "s") -> None:
    """Inspect names what is left out."""
    async with on.client() as client:
        told = (await client.tool("inspect", server_name=server)).text
        for word in words:
            on.check(word in told, f"inspect does not say {word!r}: {told[-300:]}")


@faults.row("twenty kills with an answered call between each")
async def answered_and_killed(on: Hostile) -> None:
    safe = {**ECHO, "annotations": {"readOnlyHint": True}}  # a call that meets with the kill is sent again
    await on.add(s=on.stdio(tools=[safe], entry={"restart": {}}))
    async with on.client() as client:
        for _ in range(20):
            answer = await client.exec("s", "echo")
            on.answered(answer, "echo by")
            if answer.code:
                return
            os.kill(int(answer.text.rpartition("by ")[2].split()[0].strip('"}')), signal.SIGKILL)
        on.answered(await client.exec("s", "echo"), "echo by")
    on.check(on.starts() == 21, f"{on.starts()} starts")


@faults.row("a tool that kills its server at each call")
async def deadly_tool(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            os._exit(1)
    """
    restart = {"initial": 5.0, "cap": 60.0}
    await on.add(s=on.stdio(code=code, entry={"restart": restart, "queue_timeout": 0.2}))
    async with on.client() as client:
        deaths = 0
        while deaths < 2:  # the first restart is at once
            answer = await client.exec("s", "echo")
            on.saw(answer.in_words)
            deaths += answer.code == "server_died"
        on.saw((await client.exec("s", "echo")).in_words)
    on.check(on.starts() <= 4, f"it was started {on.starts()} times")
    on.check(await on.state() in {"waiting", "starting"}, f"it is {await on.state()}")


MONSTERS = {
    "a schema of 2,500,000 numbers": '"[" + "1," * 2_500_000 + "1]"',
    "a schema of a million lists": '"[" + "[]," * 1_000_000 + "1]"',
    "a schema of 5,000 levels": '"[" * 5000 + "1" + "]" * 5000',
    "a schema of 30 MB of text": """'"' + "x" * 30_000_000 + '"'""",
}


@faults.row("tools that nobody can hold, each beside a good one", memory_mb=260, log_lines=200)
async def monstrous_tools(on: Hostile) -> None:
    for number, monster in enumerate(MONSTERS.values()):
        code = f"""
            def on_tools_list(request_id, params):
                big = '{{"name":"monster","inputSchema":{{"enum":%s}}}}' % ({monster})
                good = '{{"name":"good","inputSchema":{{}}}}'
                raw(request_id, ('{{"tools":[%s,%s]}}' % (big, good)).encode())
        """
        name = f"s{number}"
        await on.add(**{name: on.stdio(name, code=code)})
        async with on.client() as client:
            on.answered(await client.exec(name, "good"), "good by")
        await named(on, "monster", server=name)


@faults.row("40,000 entries over all four lists", memory_mb=96)
async def four_lists(on: Hostile) -> None:
    code = """
        def many(kind, **entry):
            return {kind: [{key: value % n for key, value in entry.items()} for n in range(10_000)]}
        templates = many("resourceTemplates", uriTemplate="a%d:{x}", name="t%d")
        server.answers["resources/templates/list"] = templates
        server.answers["resources/list"] = many("resources", uri="a:%d", name="r%d")
        server.answers["prompts/list"] = many("prompts", name="p%d")
        server.tools = [{"name": f"t{n}", "inputSchema": {}} for n in range(9_999)]
        server.tools.append({"name": "echo", "inputSchema": {}})
    """
    capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
    await on.add(s=on.stdio(code=code, capabilities=capabilities))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    await named(on, "MCPX takes 10,000 entries of a server")


@faults.row("lists of resources and prompts that are never answered")
async def silent_lists(on: Hostile) -> None:
    code = """
        def on_resources_list(request_id, params): pass
        def on_prompts_list(request_id, params): pass
    """
    capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
    entry = {"connect_timeout": 4.0}
    await on.add(s=on.stdio(code=code, capabilities=capabilities, entry=entry))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    await named(on, "resources/list", "prompts/list", "no answer within 1 s")


@faults.row("names of 129 characters, doubled names and unusable entries beside good ones")
async def unusable_entries(on: Hostile) -> None:
    tools = [{**ECHO, "name": "n" * 129}, {**ECHO, "title": "the first"}, ECHO, {"name": "bare"}, 5]
    await on.add(s=on.stdio(tools=tools))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    await named(on, "129 characters", "listed more than once", "bare", "it has no inputSchema", "entry 5")


@faults.row("a server that dies at the probe, and at initialize too")
async def dies_both_ways(on: Hostile) -> None:
    code = """
        def on_server_discover(request_id, params): sys.exit(3)
        def on_initialize(request_id, params): sys.exit(4)
    """
    restart = {"park_after": 1, "park_probe": 60.0}
    await on.add(s=on.stdio(code=code, entry={"restart": restart, "queue_timeout": 0.5}))
    async with on.client() as client:
        answer = await client.exec("s", "echo")
        on.failed(answer, "server_unavailable", "not_sent", "exited with code 4")

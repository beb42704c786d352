"""Rows of the hostile table: odd lists, resources and prompts."""

from __future__ import annotations

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import Client
from tests.faults.rows_odd_servers import EVERYTHING, PLAIN, literal

faults = HostileFaults()


@faults.row("cursors of odd types, and a page that names itself", log_lines=300)
async def odd_cursors(on: Hostile) -> None:
    await cursors(on, '"same"', "5", "{}", '""', "[]", '"x" * 1_000_000')


@faults.row("endless pages with cursors of 1 MB", memory_mb=96)
async def large_cursors(on: Hostile) -> None:
    await cursors(on, '"x" * 1_000_000 + os.urandom(8).hex()')


@faults.row("endless pages with cursors that double", memory_mb=160)
async def doubling_cursors(on: Hostile) -> None:
    await cursors(on, "str(params) * 2")


async def cursors(on: Hostile, *expressions: str) -> None:
    for n, cursor in enumerate(expressions):
        code = f"""
            def on_tools_list(request_id, params):
                reply(request_id, {{"tools": [{{"name": "echo", "inputSchema": {{"type": "object"}}}}], "nextCursor": {cursor}}})
        """  # fmt: skip
        await on.add(s=on.stdio(f"s{n}", code=code, entry={"restart": {"park_after": 2}}))
        async with on.client() as client:
            on.saw((await client.exec("s", "echo")).in_words)
            on.saw((await client.tool("inspect", server_name="s")).in_words)


@faults.row("monstrous URIs, templates of 10,000 expressions, and reads of them", memory_mb=200)
async def monstrous_uris(on: Hostile) -> None:
    code = """
        def on_resources_list(request_id, params):
            reply(request_id, {"resources": [
                {"uri": "x:" + "a" * 1_000_000, "name": "n" * 1_000_000, "description": "d" * 1_000_000},
                {"uri": "", "name": ""}, {"uri": "\\x1b[31m\\n\\n## neighbour", "name": "\\x1b"}, {"uri": "x:1", "name": "x"},
                {"uri": "x:1", "name": "twice", "mimeType": "m" * 1_000_000, "size": 10**400}, {"uri": "x:2", "name": "y", "size": -1},
                *({"uri": f"x:{n}", "name": f"n{n}"} for n in range(3, 5000)),
            ]})
        def on_resources_templates_list(request_id, params):
            wild = "".join("{v%d}" % n for n in range(10_000))
            uris = [wild, "x:" + "/".join("{v%d}" % n for n in range(10_000)), "{" * 10_000, "}" * 10_000, "{+a*}{?b*}{&c}{#d}{/e}{;f}{.g}",
                    "{a:99999}", "{}", "{ }", "{a,b,c}" * 1000, "x:{a}" + "a{b}" * 1000 + "z", "{&a}" * 3000, "", "{a}" * 40 + "z"]
            reply(request_id, {"resourceTemplates": [{"uriTemplate": uri, "name": f"t{n}"} for n, uri in enumerate(uris)]})
        def on_resources_read(request_id, params):
            reply(request_id, {"contents": [{"uri": params["uri"], "text": "read"}]})
    """  # fmt: skip
    await on.add(s=on.stdio(code=code, capabilities=EVERYTHING))
    async with on.client() as client:
        for uri in (
            "x:4999",
            "x:" + "a" * 100_000,
            "x:" + "a/" * 9_999 + "b",
            "",
            "a" * 1000,
            "{a}",
            "x:" + "aa" * 3000,
        ):
            on.saw((await client.tool("resources", server_name="s", uri=uri)).in_words)
            on.saw((await client.request("resources/read", {"uri": uri})).in_words)
            ref = {
                "ref": {"type": "ref/resource", "uri": uri},
                "argument": {"name": "a", "value": "x" * 1000},
            }
            await client.request("completion/complete", ref)
        for method in ("resources/list", "resources/templates/list", "tools/list"):
            await client.request(method)
        told = await client.tool("inspect", server_name="s")
        on.check(len(told.text) < 1_000_000, f"inspect shows {len(told.text)} characters")


@faults.row("reads, prompts, completions and subscriptions answered oddly", log_lines=200)
async def odd_natives(on: Hostile) -> None:
    odd = [None, 5, "x", [], {}, {"contents": 5}, {"contents": [5]}, {"contents": [{"uri": 5}]},
           {"contents": [{"uri": "x:1", "blob": "no base64 !"}]}, {"contents": [{"uri": "x:1", "text": 5, "mimeType": 5}]},
           {"messages": 5}, {"messages": [5]}, {"messages": [{"role": 5, "content": 5}]}, {"messages": [], "description": 5},
           {"completion": 5}, {"completion": {"values": 5}}, {"completion": {"values": [5], "total": "x", "hasMore": 5}},
           {"completion": {"values": ["x"] * 100_000}}]  # fmt: skip
    code = f"""
        odd = {literal(odd)}
        turn = [0]
        def answer_oddly(request_id, params):
            turn[0] += 1
            reply(request_id, odd[turn[0] % len(odd)])
        on_resources_read = on_prompts_get = on_completion_complete = on_resources_subscribe = answer_oddly
        on_resources_unsubscribe = on_logging_setLevel = answer_oddly
    """
    answers = {
        "resources/list": {"resources": [{"uri": "x:1", "name": "x"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x:{a}", "name": "t"}]},
        "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]},
    }
    await on.add(s=on.stdio(code=code, answers=answers, capabilities=EVERYTHING))
    async with on.client() as client:
        listed = await client.request("prompts/list")
        prompts = [each["name"] for each in listed.result.get("prompts", [])]
        resources = [
            each["uri"] for each in (await client.request("resources/list")).result.get("resources", [])
        ]
        on.check(prompts, "no prompt is listed")
        for _ in range(len(odd)):
            await every_native(client, resources[0] if resources else "x:1", prompts[0] if prompts else "p")
        on.saw((await client.tool("resources", server_name="s", uri="x:1")).in_words)
        on.answered(await client.exec("s", "echo"), "echo by")


async def every_native(client: Client, uri: str, prompt: str) -> None:
    """Each of the protocol's own requests, for one resource and one prompt."""
    argument = {"argument": {"name": "a", "value": "x"}}
    for method, params in (
        ("resources/read", {"uri": uri}),
        ("prompts/get", {"name": prompt, "arguments": {"a": "x"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": prompt}, **argument}),
        ("resources/subscribe", {"uri": uri}),
        ("resources/unsubscribe", {"uri": uri}),
        ("logging/setLevel", {"level": "debug"}),
    ):
        await client.request(method, params)


@faults.row("tool names that are empty, doubled, and full of escapes")
async def odd_names(on: Hostile) -> None:
    names = ["", " ", "\n\n## neighbour\nevil(a)", "\x00", "\x1b]0;title\x07", "__proto__", "x" * 129, "echo", "echo", "ECHO",
             "\u202eoche", "a/b", "../..", "%s%n", "{0.__class__}", "echo ", "\ufeff", "🙂" * 100, "neighbour"]  # fmt: skip
    tools = [{"name": name, "inputSchema": PLAIN, "description": name} for name in names]
    await on.add(s=on.stdio(tools=tools))
    async with on.client() as client:
        for name in names:
            on.saw((await client.exec("s", name)).in_words)
            await client.tool("inspect", server_name="s", tool_name=name)
        listed = await client.request("tools/list")
        shown = "\n".join(each["description"] for each in listed.result["tools"])
        on.check("\n## neighbour\nevil" not in shown, "a tool's name makes a heading of its own")
        on.check("\x1b" not in shown, "an escape is shown")

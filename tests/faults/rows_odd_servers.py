"""Rows of the hostile table: odd servers of kinds that no review has listed."""

from __future__ import annotations

import json
from typing import Any

import anyio

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.hostile_client import Client, exec_line

faults = HostileFaults()
PLAIN = {"type": "object"}
EVERYTHING = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}}


def literal(value: Any) -> str:
    """An expression for a value inside a script."""
    return f"json.loads({json.dumps(json.dumps(value))})"


# --- the handshake

ABOUT: list[dict[str, Any]] = [
    {"serverInfo": 5}, {"serverInfo": None}, {"serverInfo": {"name": 5, "version": []}}, {"serverInfo": {}},
    {"serverInfo": {"name": "x" * 1_000_000, "version": "\x1b[31m" * 1000}}, {"instructions": 5},
    {"instructions": ["x"]}, {"instructions": None}, {"capabilities": []}, {"capabilities": 5}, {"capabilities": None},
    {"capabilities": {"tools": True}}, {"capabilities": {"tools": []}}, {"capabilities": {"tools": {}, "resources": "yes"}},
    {"capabilities": {"tools": {}, "logging": 5, "completions": [], "experimental": 5}}, {"protocolVersion": 5},
    {"protocolVersion": None}, {"protocolVersion": "9999-99-99"}, {"protocolVersion": "x" * 1_000_000}, {"_meta": 5},
    {"serverInfo": {"name": "x", "version": "1", "icons": 5, "title": 5, "websiteUrl": 5}},
]  # fmt: skip


@faults.row("handshakes with members of odd types", log_lines=400)
async def odd_handshakes(on: Hostile) -> None:
    """They are served or parked, and what stands in the message of the one is not in the other's."""
    for modern in (False, True):
        servers = {}
        for n, about in enumerate(ABOUT):
            method = "server_discover" if modern else "initialize"
            good: dict[str, Any] = {
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            }
            good |= {"supportedVersions": ["2026-07-28"]} if modern else {"protocolVersion": "2025-11-25"}
            code = f"""
                def on_{method}(request_id, params):
                    reply(request_id, {literal({**good, **about})})
            """
            name = f"s{n}-{modern}"
            servers[name] = on.stdio(name, code=code, modern=modern, entry={"restart": {"park_after": 1}})
        await on.add(**servers)
        async with on.client() as client:
            for name in servers:
                on.saw((await client.exec(name, "echo", within_s=20.0)).in_words)
                told = await client.tool("inspect", server_name=name)
                on.check(len(told.text) < 20_000, f"{name}: inspect shows {len(told.text)} characters")
            shown = json.dumps((await client.request("tools/list")).message)
            on.check(len(shown) < 100_000, f"tools/list has {len(shown)} characters")


@faults.row("instructions of 20 MB", memory_mb=160)
async def long_instructions(on: Hostile) -> None:
    code = """
        def on_initialize(request_id, params):
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "x", "version": "1"}, "instructions": "a b " * 5_000_000}
            reply(request_id, about)
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        for _ in range(4):
            told = await client.tool("inspect", server_name="s")
            on.check(len(told.text) < 200_000, f"inspect shows {len(told.text)} characters")
            shown = json.dumps((await client.request("tools/list")).message)
            on.check(len(shown) < 100_000, f"tools/list has {len(shown)} characters")
        on.answered(await client.exec("s", "echo"), "echo by")


# --- what it says unasked

NOTES: list[tuple[str, Any]] = [
    ("notifications/progress", {"progressToken": token, "progress": progress, "total": total, "message": message})
    for token in (1, "x", None, {}, [1], 1.5, True)
    for progress, total, message in ((1, 2, "x"), ("1", "2", 5), (None, None, None), ([], {}, []))
] + [
    ("notifications/message", {"level": 5, "data": 1}), ("notifications/message", {"level": [], "data": 1}),
    ("notifications/message", {"level": "loud", "data": 1}), ("notifications/message", 5),
    ("notifications/message", {"level": "error"}), ("notifications/message", {"level": "error", "data": "x" * 5_000_000}),
    ("notifications/message", {"level": "error", "data": 1, "logger": 5, "_meta": 5}),
    ("notifications/resources/updated", {"uri": 5}), ("notifications/resources/updated", {}),
    ("notifications/resources/updated", {"uri": "x" * 5_000_000}), ("notifications/resources/updated", [1]),
    ("notifications/cancelled", {"requestId": {}}), ("notifications/cancelled", {"requestId": "q1"}),
    ("notifications/cancelled", {"requestId": 1, "reason": 5}), ("notifications/cancelled", None),
    ("notifications/tools/list_changed", 5), ("notifications/tools/list_changed", {"_meta": []}),
    ("notifications/roots/list_changed", {}), ("notifications/initialized", {}), ("notifications/unknown", "x" * 5_000_000),
    ("notifications/elicitation/complete", {"elicitationId": 5}), ("notifications/tasks/status", {"taskId": 5}),
    ("notifications/subscriptions/acknowledged", {"notifications": 5}), ("", {}), ("x" * 5_000_000, {}),
]  # fmt: skip


@faults.row("notifications with params of odd types and sizes", memory_mb=160, log_lines=200)
async def odd_notifications(on: Hostile) -> None:
    code = f"""
        notes = {literal(NOTES)}
        def on_logging_setLevel(request_id, params):
            reply(request_id, {{}})
        def on_tools_call(request_id, params):
            for method, more in notes:
                token = (params.get("_meta") or {{}}).get("progressToken")
                if method.endswith("progress") and more["progressToken"] == 1:
                    more = {{**more, "progressToken": token}}
                notify(method, more)
            for raw_line in (b'{{"jsonrpc":"2.0","method":5}}', b'{{"jsonrpc":"2.0","method":null,"id":null}}',
                             b'{{"method":"notifications/progress","params":{{"progressToken":1,"progress":1e400}}}}',
                             b'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"\\\\ud800"}}}}',
                             b'{{"jsonrpc":"2.0","method":"x","method":"y"}}'):
                write(raw_line + b"\\n")
            say(request_id, "echo by")
    """
    await on.add(s=on.stdio(code=code, capabilities=EVERYTHING))
    async with on.client() as client:
        await client.request("logging/setLevel", {"level": "debug"})
        for token in (7, "token"):
            asked = {"server_name": "s", "tool_name": "echo", "arguments": {}}
            params = {"name": "exec", "arguments": asked, "_meta": {"progressToken": token}}
            on.answered(await client.request("tools/call", params), "echo by")
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "echo by")


FLOODS = {
    "pings that nobody's answers are read of": '{"jsonrpc":"2.0","id":"p%d","method":"ping"}',
    "requests of unknown methods": '{"jsonrpc":"2.0","id":"p%d","method":"who/knows","params":{}}',
    "roots/list": '{"jsonrpc":"2.0","id":"p%d","method":"roots/list"}',
    "progress": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}',
    "updates": '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:%d"}}',
    "cancellations": '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"p%d"}}',
    "answers that nobody waits for": '{"jsonrpc":"2.0","id":"p%d","result":{}}',
    "rubbish": "rubbish %d",
    "elicitations": '{"jsonrpc":"2.0","id":"p%d","method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}',
}  # fmt: skip


async def flood(on: Hostile, what: str) -> None:
    """300,000 of them, by a server that does not read meanwhile."""
    code = f"""
        line = {FLOODS[what]!r} + "\\n"
        def on_tools_call(request_id, params):
            if params["name"] == "flood":
                for first in range(0, 300_000, 1000):
                    numbered = [line % n if "%d" in line else line for n in range(first, first + 1000)]
                    write("".join(numbered).encode())
                note("flooded")
            say(request_id, params["name"] + " by")
        server.tools = [{{"name": n, "inputSchema": {{"type": "object"}}}} for n in ("flood", "echo")]
    """
    await on.add(s=on.stdio(code=code, capabilities=EVERYTHING, entry={"call_timeout": 25.0}))
    async with on.client(capabilities={"elicitation": {}, "roots": {}, "sampling": {}}) as client:
        on.saw((await client.exec("s", "flood", within_s=30.0)).in_words)
        on.check(len(client.questions) <= 64, f"the client got {len(client.questions)} questions at once")
        on.saw((await client.exec("s", "echo")).in_words)


def _flood_row(what: str) -> None:
    @faults.row(f"300,000 at once: {what}", memory_mb=64, log_lines=200)
    async def flooded(on: Hostile) -> None:
        await flood(on, what)


for _what in FLOODS:
    _flood_row(_what)


@faults.row("a server that never reads, and 300 calls with 1 MB of arguments", memory_mb=400)
async def server_never_reads(on: Hostile) -> None:
    code = """
        import time
        def on_tools_call(request_id, params):
            time.sleep(60)
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 1.0, "queue_timeout": 1.0}))
    async with on.client() as client:
        arguments = b'{"a":"' + b"x" * 1_000_000 + b'"}'
        for n in range(300):
            await client.send_bytes(exec_line(1000 + n, "s", "echo", arguments))
        for n in range(300):
            on.saw((await client.answer(1000 + n)).in_words)


@faults.row("200 MB on standard error in one line", memory_mb=32)
async def long_error_line(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            for _ in range(200):
                rest = b"x" * 1_000_000
                while rest:
                    rest = rest[os.write(2, rest):]
            say(request_id, "echo by")
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 20.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=20.0), "echo by")


@faults.row("a list of 5,000 tools that changes all the time", memory_mb=160, log_lines=300)
async def changing_list(on: Hostile) -> None:
    code = """
        import threading, time
        turn = [0]
        def on_tools_list(request_id, params):
            turn[0] += 1
            schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5)}}
            reply(request_id, {"tools": [{"name": f"t{turn[0]}_{n}", "inputSchema": schema} for n in range(5000)]
                                        + [{"name": "echo", "inputSchema": {"type": "object"}}]})
            notify("notifications/tools/list_changed")
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        for _ in range(5):
            on.saw((await client.exec("s", "echo")).in_words)
            await client.request("tools/list")
            await anyio.sleep(0.4)  # it changes


# --- what it answers

RESULTS: list[bytes] = [
    b"null", b"5", b'"text"', b"[]", b"true", b"{}", b'{"content":5}', b'{"content":null}', b'{"content":[5]}',
    b'{"content":[null]}', b'{"content":[[]]}', b'{"content":{}}', b'{"content":[{}]}', b'{"content":[{"type":5}]}',
    b'{"content":[{"type":"text"}]}', b'{"content":[{"type":"text","text":5}]}', b'{"content":[{"type":"image"}]}',
    b'{"content":[{"type":"image","data":5,"mimeType":[]}]}', b'{"content":[{"type":"resource","resource":5}]}',
    b'{"content":[{"type":"resource","resource":{"uri":5,"blob":5}}]}', b'{"content":[{"type":"resource_link","uri":[]}]}',
    b'{"content":[],"isError":"yes"}', b'{"content":[],"isError":5}', b'{"content":[],"_meta":5}',
    b'{"content":[],"structuredContent":5}', b'{"content":[],"structuredContent":[1]}', b'{"content":[],"_meta":[]}',
    b'{"content":[{"type":"text","text":"x","_meta":5,"annotations":5}]}', b'{"content":[],"structuredContent":"x"}',
    b'{"content":[],"structuredContent":{"a":1e400}}', b'{"content":[{"type":"text","text":"1e400"}]}',
    b'{"content":[{"type":"text","text":"[1e400]"}]}', b'{"content":[{"type":"text","text":"{\\"a\\":NaN}"}]}',
    b'{"content":[{"type":"text","text":"[' + b"9" * 5000 + b']"}]}', b'{"content":[],"resultType":[]}',
    b'{"content":[{"type":"text","text":"' + b"[" * 3000 + b"]" * 3000 + b'"}]}',
    b'{"content":[{"type":"text","text":"' + b"[" * 100_000 + b"]" * 100_000 + b'"}]}',
    b'{"content":[],"structuredContent":{"a":' + b"[" * 600 + b"]" * 600 + b"}}",
    b'{"content":[],"structuredContent":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    b'{"content":[],"' + b"x" * 1_000_000 + b'":1}', b'{"content":[' + b'{"type":"text","text":""},' * 5000 + b"{}]}",
    b'{"content":[{"type":"text","text":"\\u0000\\u001b[31m"}],"content":5}', b'{"resultType":"input_required","inputRequests":[]}',
    b'{"task":{"taskId":"x"}}', b'{"resultType":"task","taskId":5}', b'{"content":[],"ttlMs":"x","cacheScope":5}',
]  # fmt: skip
ERRORS: list[bytes] = [
    b"5", b'"text"', b"[]", b"{}", b"true", b"false", b'{"code":"x","message":5}', b'{"code":1e400,"message":"x"}',
    b'{"code":-32000}', b'{"message":"x"}', b'{"code":1.5,"message":"x"}', b'{"code":null,"message":null}',
    b'{"code":-32042,"message":"x","data":5}', b'{"code":-32042,"message":"x","data":{"elicitations":5}}',
    b'{"code":-32042,"message":"x","data":{"elicitations":[5]}}', b'{"code":-32021,"message":"x","data":[]}',
    b'{"code":-32022,"message":"x","data":{"supported":5}}', b'{"code":-32020,"message":"x"}',
    b'{"code":-32601,"message":"\\u001b[31m\\u202e"}', b'{"code":-32000,"message":"x","data":{"a":1e400}}',
    b'{"code":99999999999999999999999,"message":"x"}', b'{"code":-32000,"message":"\\ud800"}',
]  # fmt: skip


async def odd_answers(on: Hostile, member: str, values: list[bytes]) -> None:
    told = json.dumps([value.decode() for value in values])
    code = f"""
        values = json.loads({told!r})
        def on_tools_call(request_id, params):
            value = values[params["arguments"]["n"]].encode()
            write(b'{{"jsonrpc":"2.0","id":%s,"{member}":%s}}\\n' % (json.dumps(request_id).encode(), value))
    """
    for modern in (False, True):
        entry = {"call_timeout": 2.0, "restart": {"initial": 0.02, "cap": 0.05, "park_after": 1000}}
        await on.add(s=on.stdio(f"modern-{modern}", code=code, modern=modern, entry=entry))
        async with on.client() as client:
            for n, value in enumerate(values):
                for _ in range(2):
                    answer = await client.exec("s", "echo", {"n": n})
                    on.saw(answer.in_words)
                    on.check(answer.error is None, f"{value[:80]!r}: {answer.in_words}: {answer.text[:200]}")
                    on.check(answer.outcome != "not_sent", f"{value[:80]!r}: was sent: {answer.text[:200]}")
        http = await on.http_client()
        for n, value in enumerate(values):
            answer = await http.exec("s", "echo", {"n": n})
            on.check(answer.message, f"{value[:80]!r}: no answer over HTTP")


@faults.row("results of odd types", memory_mb=96, log_lines=400)
async def odd_results(on: Hostile) -> None:
    await odd_answers(on, "result", RESULTS)


@faults.row("errors of odd types", log_lines=200)
async def odd_errors(on: Hostile) -> None:
    await odd_answers(on, "error", ERRORS)


@faults.row("an error with 20 MB of message and data", memory_mb=200)
async def large_error(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            error = {"code": -32000, "message": "m" * 10_000_000, "data": {"d": "d" * 10_000_000}}
            send(id=request_id, error=error)
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        answer = await client.exec("s", "echo")
        on.saw(answer.in_words)
        await client.tool("inspect", server_name="s")


@faults.row("a million blocks of content", memory_mb=900)
async def million_blocks(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            raw(request_id, b'{"content":[' + b'{"type":"text","text":"x"},' * 999_999 + b'{"type":"text","text":"x"}]}')
    """  # fmt: skip
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 30.0}))
    async with on.client() as client:
        on.saw((await client.exec("s", "echo", within_s=30.0)).in_words)


ODD_IDS = [
    b"[]",
    b"{}",
    b"1e400",
    b"true",
    b"null",
    b"1.5",
    b'"\\ud800"',
    b'"' + b"x" * 1_000_000 + b'"',
    b"9" * 5000,
]


@faults.row("answers with odd, foreign and doubled ids")
async def odd_ids(on: Hostile) -> None:
    code = f"""
        ids = {ODD_IDS!r}
        def on_tools_call(request_id, params):
            for each in ids:
                write(b'{{"jsonrpc":"2.0","id":%s,"result":{{"content":[]}}}}\\n' % each)
                write(b'{{"jsonrpc":"2.0","id":%s,"method":"ping"}}\\n' % each)
                write(b'{{"jsonrpc":"2.0","id":%s,"method":"sampling/createMessage","params":5}}\\n' % each)
            for _ in range(3):
                write(b'{{"jsonrpc":"2.0","id":"%s","result":{{"content":[]}}}}\\n' % str(request_id).encode())
                say(request_id, "echo by")
    """
    await on.add(s=on.stdio(code=code))
    async with on.client(capabilities={"sampling": {}}) as client:
        for _ in range(4):
            on.saw((await client.exec("s", "echo")).in_words)


# --- lists, resources, prompts


@faults.row("cursors of odd types, and a page that names itself", log_lines=300)
async def odd_cursors(on: Hostile) -> None:
    for n, cursor in enumerate(['"same"', "5", "{}", '""', "[]", '"x" * 1_000_000', "str(params)"]):
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

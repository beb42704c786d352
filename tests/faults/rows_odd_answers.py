"""Rows of the hostile table: odd answers."""

from __future__ import annotations

import json

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()


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


@faults.row("errors of odd types", in_suite=False, log_lines=200)
async def odd_errors(on: Hostile) -> None:
    await odd_answers(on, "error", ERRORS)


@faults.row("an error with 20 MB of message and data", in_suite=False, memory_mb=200)
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


@faults.row("a million blocks of content", in_suite=False, memory_mb=200)
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

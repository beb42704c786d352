"""Rows of the hostile table: servers that talk without a pause while the neighbour is called."""

from __future__ import annotations

import json

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
OPEN = 32  # questions of one server
ASKED = 500


async def flood(on: Hostile, line: str, *, stderr: bool = False) -> None:
    """Two seconds (in brief 0.3) of one line, as fast as MCPX takes it, and then the answer to the call."""
    code = f"""
        import time
        many = {line!r}.encode() + b"\\n"
        many *= max(1, 65536 // len(many))
        def on_tools_call(request_id, params):
            until = time.monotonic() + {0.3 if on.brief else 2.0}
            while time.monotonic() < until:
                os.write(2, many) if {stderr} else write(many)
            say(request_id, "done")
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 30.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=35.0), "done")


def message(method: str, params: object = None, **more: object) -> str:
    return json.dumps({"jsonrpc": "2.0", **more, "method": method, **({"params": params} if params else {})})


LINES = {
    "log messages": message("notifications/message", {"level": "info", "data": "x"}),
    "progress of nothing": message("notifications/progress", {"progressToken": 99, "progress": 1}),
    "changed lists": message("notifications/tools/list_changed"),
    "changed resources": message("notifications/resources/updated", {"uri": "x:1"}),
    "unknown notifications": message("notifications/unknown"),
    "unknown requests": message("unknown/method", id=1),
    "pings": message("ping", id="p"),
    "answers to nobody": '{"jsonrpc":"2.0","id":999999,"result":{}}',
    "short rubbish": "x",
    "rubbish that begins like JSON": '{"a":',
    "empty lines": "",
    "questions about roots": message("roots/list", id="r"),
}


def _register(what: str, line: str) -> None:
    @faults.row(f"two seconds of {what}")
    async def play(on: Hostile) -> None:
        await flood(on, line)


for _what, _line in LINES.items():
    _register(_what, _line)


@faults.row("150,000 pings before their answers are read")
async def unread_answers(on: Hostile) -> None:
    """More than 4 MB of them are not kept; what is asked once they have been read is answered again."""
    code = """
        import sys
        def on_tools_call(request_id, params):
            ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\\n'
            write(b"".join(ping % number for number in range(150_000)))
            answered = 0
            while b'"last"' not in sys.stdin.buffer.readline():
                answered += 1
                if not answered % 1000:
                    write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}\\n')
            say(request_id, "some" if answered < 140_000 else f"{answered} were answered")
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 30.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=35.0), "some")


@faults.row("two seconds of short lines on standard error")
async def last_words(on: Hostile) -> None:
    await flood(on, "x", stderr=True)


@faults.row("a log message of 30 MB in small pieces", memory_mb=160)
async def large_log_message(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            params = b'{"level":"info","data":[' + b"[],{}," * 5_000_000 + b"1]}"
            write(b'{"jsonrpc":"2.0","method":"notifications/message","params":' + params + b"}\\n")
            say(request_id, "done")
    """
    await on.add(s=on.stdio(code=code, entry={"call_timeout": 20.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "echo", within_s=25.0), "done")


@faults.row("a question of 5 MB", memory_mb=64)
async def large_question(on: Hostile) -> None:
    code = """
        waiting = []
        def on_tools_call(request_id, params):
            waiting.append(request_id)
            ask("sampling/createMessage", {"messages": [], "maxTokens": 1, "systemPrompt": "x" * 5_000_000})
        def on_response(message):
            say(waiting[0], message["error"]["message"])
    """
    await on.add(s=on.stdio(code=code))
    async with on.client(capabilities={"sampling": {}}) as client:
        on.answered(await client.exec("s", "echo"), "too large")


@faults.row("200 questions in one result")
async def questions_in_a_result(on: Hostile) -> None:
    code = """
        def on_tools_call(request_id, params):
            question = {"method": "roots/list"}
            asked = {str(n): question for n in range(200)}
            reply(request_id, {"resultType": "input_required", "inputRequests": asked, "requestState": "s"})
    """
    await on.add(s=on.stdio(code=code, modern=True))
    async with on.client(capabilities={"roots": {}}) as client:
        on.failed(await client.exec("s", "echo"), "protocol_error", "unknown", "200 questions")
        on.check(not client.questions, f"the client was asked {len(client.questions)} times")


@faults.row(f"{ASKED} questions to a client that answers none")
async def open_questions(on: Hostile) -> None:
    code = f"""
        waiting, refused, told = [], [], []
        def on_tools_call(request_id, params):
            waiting.append(request_id)
            for _ in range({ASKED}):
                ask("sampling/createMessage", {{"messages": [], "maxTokens": 1}})
        def on_response(message):
            refused.append(message["error"]["message"])
            if len(refused) == {ASKED - OPEN}:
                say(waiting[0], refused[-1])
    """
    await on.add(s=on.stdio(code=code))
    async with on.client(capabilities={"sampling": {}}) as client:
        on.answered(await client.exec("s", "echo"), f"{OPEN} questions of this server are open")
        on.check(len(client.questions) == OPEN, f"the client was asked {len(client.questions)} times")


@faults.row("300 answers at once, and the end", memory_mb=48)
async def answers_and_the_end(on: Hostile) -> None:
    """What was answered before the end is answered, though it is dealt with a few at a time."""
    code = """
        waiting = []
        def on_tools_call(request_id, params):
            waiting.append(request_id)
            if len(waiting) == 60:
                answers = [{"jsonrpc": "2.0", "id": each, "result": {"content": []}} for each in waiting]
                noise = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\\n' * 3000
                write(noise + b"".join(json.dumps(each).encode() + b"\\n" for each in answers))
                os._exit(0)
    """
    await on.add(s=on.stdio(code=code))
    async with on.client() as client:
        asked = {"server_name": "s", "tool_name": "echo", "arguments": {}}
        ids = [await client.ask("tools/call", {"name": "exec", "arguments": asked}) for _ in range(60)]
        for each in ids:
            on.answered(await client.answer(each))


@faults.row("1,000 templates that nearly fit a URI of 60,000 characters", memory_mb=64)
async def many_templates(on: Hostile) -> None:
    templates = [{"name": f"t{n}", "uriTemplate": f"x://{{a}}{{b}}b{n}{{+c}}"} for n in range(1000)]
    answers = {
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": templates},
    }
    await on.add(s=on.stdio(answers=answers), t=on.stdio("t", answers=answers))
    async with on.client() as client:
        for uri in ("x://" + "a" * 60_000, "x://" + "b" * 60_000, "y://" + "a" * 60_000, "a" * 60_000):
            await client.request("resources/read", {"uri": uri})
            on.saw((await client.tool("resources", server_name="s", uri=uri)).in_words)
        params = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "a", "value": ""}}
        await client.request("completion/complete", params)
        on.answered(await client.exec("s", "echo"), "echo by")

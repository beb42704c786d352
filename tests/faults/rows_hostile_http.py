"""Rows of the hostile table: HTTP servers whose answers have no end, or that ask without one."""

from __future__ import annotations

import anyio

from tests.faults.hostile import Hostile, HostileFaults
from tests.faults.rows_too_large import ENDLESS, SHORT

faults = HostileFaults()
MOST_CONNECTIONS = 300  # of MCPX to one server: 256, and some that are just being closed


async def endless_where(
    on: Hostile,
    condition: str,
    status: int,
    *,
    era: str = "legacy",
    seconds: float = 0.0,
    entry: dict[str, float] = SHORT,
    **headers: str,
) -> str:
    """Play a server that answers what fits `condition` with a body without an end; what the caller saw."""
    code = f"""{ENDLESS}
    async def take(server, request, writer):
        return ({condition}) and await endless(server, writer, {status}, **{headers!r})
    """
    await on.add(s=await on.http(code, era=era, entry=entry))
    async with on.client() as client:
        answer = await client.exec("s", "act")
        on.saw(answer.in_words)
    await anyio.sleep(0.3 * seconds if on.brief else seconds)
    return answer.in_words


@faults.row("GET: a page without an end in place of the stream", memory_mb=16)
async def endless_page(on: Hostile) -> None:
    saw = await endless_where(on, 'request.method == "GET"', 200, seconds=1.0, content_type="text/html")
    on.check(saw == "the answer", f"a call beside it was not answered: {saw}")


@faults.row("GET: 307 with an endless body in place of the stream", memory_mb=16)
async def redirected_stream(on: Hostile) -> None:
    saw = await endless_where(on, 'request.method == "GET"', 307, seconds=1.0, location="/mcp")
    on.check(saw == "the answer", f"a call beside it was not answered: {saw}")


@faults.row("GET: 500 with an endless body in place of the stream", memory_mb=16)
async def refused_stream(on: Hostile) -> None:
    saw = await endless_where(on, 'request.method == "GET"', 500, seconds=1.0, content_type="text/plain")
    on.check(saw == "the answer", f"a call beside it was not answered: {saw}")


@faults.row("old SSE: a page without an end in place of the stream", memory_mb=16)
async def endless_first_page(on: Hostile) -> None:
    await endless_where(on, 'request.method == "GET"', 200, era="sse", content_type="text/html")


@faults.row("old SSE: 307 with an endless body in place of the stream", memory_mb=16)
async def redirected_first_stream(on: Hostile) -> None:
    hasty = SHORT | ({"connect_timeout": 1.0, "queue_timeout": 1.5} if on.brief else {})
    await endless_where(on, 'request.method == "GET"', 307, era="sse", entry=hasty, location="/sse")


@faults.row("DELETE: an endless body at the end of the session", memory_mb=16)
async def endless_goodbye(on: Hostile) -> None:
    await endless_where(on, 'request.method == "DELETE"', 200)
    await on.add()


@faults.row("202 with an endless body for each notification", memory_mb=16)
async def endless_acceptance(on: Hostile) -> None:
    saw = await endless_where(on, 'request.method == "POST" and "id" not in request.message', 202)
    on.check(saw == "the answer", f"a call beside it was not answered: {saw}")


@faults.row("a redirect within the origin is followed", memory_mb=16)
async def redirect(on: Hostile) -> None:
    code = """
    seen = []
    async def take(server, request, writer):
        seen.append(request.asks)
        if seen.count(request.asks) > 1:
            return False
        await server.respond(writer, 307, b"elsewhere", location="/mcp?b")
        return True
    """
    await on.add(s=await on.http(code, entry=SHORT))
    async with on.client() as client:
        on.answered(await client.exec("s", "act"), "act is done")


@faults.row("a redirect to itself without an end", memory_mb=16)
async def redirect_loop(on: Hostile) -> None:
    code = """
    seen = []
    async def take(server, request, writer):
        if request.asks != "tools/call":
            return False
        seen.append(1)
        if len(seen) > 1:
            await server.respond(writer, 200, b'"followed too often"', content_type="application/json")
        else:
            await server.respond(writer, 307, b"again", location="/mcp")
        return True
    """
    await on.add(s=await on.http(code, entry=SHORT))
    async with on.client() as client:
        answer = await client.exec("s", "act")
        on.saw(answer.in_words)
        on.check("not followed" in answer.text, f"not said that it is not followed: {answer.text[:200]}")


@faults.row("an answer of 400 kB in chunks of two bytes", memory_mb=24)
async def tiny_chunks(on: Hostile) -> None:
    await chunked_answer(on, "application/json", b"%s")


@faults.row("an event of 400 kB in chunks of two bytes", memory_mb=24)
async def tiny_chunks_of_an_event(on: Hostile) -> None:
    await chunked_answer(on, "text/event-stream", b"data: %s\n\n")


async def chunked_answer(on: Hostile, kind: str, around: bytes) -> None:
    code = f"""
    async def take(server, request, writer):
        if request.asks != "tools/call":
            return False
        content = [{{"type": "text", "text": "x" * {100_000 if on.brief else 400_000}}}]
        answer = {{"jsonrpc": "2.0", "id": request.message["id"], "result": {{"content": content}}}}
        body = {around!r} % json.dumps(answer).encode()
        body += b" " * (len(body) % 2)
        await server.head(writer, 200, content_type={kind!r}, transfer_encoding="chunked")
        for at in range(0, len(body), 20_000):
            few = body[at : at + 20_000]
            pairs = (few[n : n + 2] for n in range(0, len(few), 2))
            await server.write(writer, b"".join(b"2\\r\\n%s\\r\\n" % pair for pair in pairs))
        await server.write(writer, b"0\\r\\n\\r\\n")
        return True
    """
    await on.add(s=await on.http(code, entry={"call_timeout": 20.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "act", within_s=25.0), "xxx")


@faults.row("1,000 cookies with each of 50 answers", memory_mb=24)
async def cookies(on: Hostile) -> None:
    code = """
    count = [0]
    async def take(server, request, writer):
        if request.asks != "tools/call":
            return False
        count[0] += 1
        many = [f"Set-Cookie: c{count[0]}-{n}={'x' * 60}" for n in range(1000)]
        body = json.dumps(server.answer(request)).encode()
        head = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}", *many]
        await server.write(writer, ("\\r\\n".join(head) + "\\r\\n\\r\\n").encode() + body)
        return True
    """
    await on.add(s=await on.http(code))
    async with on.client() as client:
        for _ in range(50):
            on.answered(await client.exec("s", "act"), "act is done")


@faults.row("5,000 questions on the stream of a server that takes no answers", memory_mb=32)
async def questions_over_http(on: Hostile) -> None:
    code = """
    most = [0]
    async def take(server, request, writer):
        most[0] = max(most[0], len(server.connections))
        if "method" not in request.message and request.method == "POST":
            await request.client_gone()
            return True
        if request.asks != "tools/call":
            return False
        for listener, _ in list(server.listeners):
            for n in range(5000):
                params = {"messages": [], "maxTokens": 1}
                question = {"jsonrpc": "2.0", "id": f"q{n}", "method": "sampling/createMessage"}
                await server.event(listener, {**question, "params": params})
        await asyncio.sleep(0.5)
        text = json.dumps({"connections": max(most[0], len(server.connections))})
        result = {"content": [{"type": "text", "text": text}]}
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        await server.respond(writer, 200, json.dumps(answer).encode(), content_type="application/json")
        return True
    """
    await on.add(s=await on.http(code, entry={"call_timeout": 20.0}))
    async with on.client(capabilities={"sampling": {}}) as client:
        answer = await client.exec("s", "act", within_s=25.0)
        on.answered(answer, "connections")
        connections = int("".join(filter(str.isdigit, answer.text)))
        on.check(connections < MOST_CONNECTIONS, f"{connections} connections to one server")


@faults.row("20,000 log messages on the stream of an HTTP server")
async def logs_over_http(on: Hostile) -> None:
    code = """
    async def take(server, request, writer):
        if request.asks != "tools/call":
            return False
        await server.stream(writer)
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        for _ in range(%d):
            await server.event(writer, note)
        await server.event(writer, server.answer(request))
        writer.close()
        return True
    """
    code %= 5_000 if on.brief else 20_000
    await on.add(s=await on.http(code, entry={"call_timeout": 30.0}))
    async with on.client() as client:
        on.answered(await client.exec("s", "act", within_s=35.0), "act is done")

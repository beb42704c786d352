"""Rows of the hostile table: the reproductions of the security review, played as they were found."""

from __future__ import annotations

from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
ONE_NUMBER = {"type": "object", "properties": {"a": {"type": "number"}}}


@faults.row("hostile: nothing out of the ordinary")
async def ordinary(on: Hostile) -> None:
    await on.add(s=on.stdio())
    async with on.client() as client:
        on.answered(await client.exec("s", "echo"), "echo by")
    http = await on.http_client()
    on.answered(await http.exec("s", "echo"), "echo by")


@faults.row("arguments that no number can hold, four times")
async def huge_number(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[{"name": "echo", "inputSchema": ONE_NUMBER}]))
    async with on.client() as client:
        for _ in range(4):
            answer = await client.exec_raw("s", "echo", b'{"a": 1e400}')
            on.failed(answer, "invalid_arguments", "not_sent")


@faults.row("a schema that refers to itself, four calls")
async def own_reference(on: Hostile) -> None:
    await on.add(s=on.stdio(tools=[{"name": "t", "inputSchema": {"type": "object", "$ref": "#"}}]))
    async with on.client() as client:
        for _ in range(4):
            on.answered(await client.exec("s", "t", {"a": 1}), "t by")


@faults.row("307 to itself with an endless body, in answer to a call", memory_mb=16)
async def endless_redirect(on: Hostile) -> None:
    code = """
        async def take(server, request, writer):
            if request.asks != "tools/call":
                return False
            await server.head(writer, 307, location="/mcp", connection="close")
            while not writer.is_closing():
                await server.write(writer, b"x" * 65536)
            return True
    """
    await on.add(s=await on.http(code))
    async with on.client() as client:
        answer = await client.exec("s", "act")
        on.saw(answer.in_words)
        on.check(answer.code is not None, f"a redirect without an end was answered: {answer.text[:200]}")

"""The wicked HTTP server: MCP over Streamable HTTP, or the older SSE, that does its worst on demand.

Run as `python -S -E wicked_http.py OPTIONS`, a JSON object with any of these keys:

* `port`: where to listen on loopback; any free one without it. `era`: `legacy` (2025-11-25 with sessions, the
  default), `modern` (2026-07-28), or `sse` (2024-11-05, at /sse).
* `rule`: what is wicked. `at` says for which requests: a JSON-RPC method, `GET`, or `*` for every POST (and
  `tool` for which tool); `do` is the name of a method `do_...` below; `times` for how many of them (for ever
  without it). With `counted` the effect of a call happens first. All else are the rule's own options.

It says `{"port": ...}` on standard output once it listens. Then it takes orders on standard input, a JSON
object a line, and answers each with its state once it is carried out: `rule` (null for none), `forget` (all
sessions), `hang_up` (on everybody), `deaden` (the connections that there are: nothing passes any more),
`listen` (false closes the port), `vanish`, `leave`, `release`, and `add_tool` (which tells all who listen).

Standard library only, and its neighbour `wicked_sockets`; imports nothing of MCPX.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import uuid
from typing import Any

from wicked_sockets import HttpServer, Request

LEGACY, MODERN, OLD = "2025-11-25", "2026-07-28", "2024-11-05"
EMPTY = {"type": "object"}
HINTS = {"act_read_only": {"readOnlyHint": True}, "act_idempotent": {"idempotentHint": True}}
TOOLS = ["act", "echo", *HINTS]
NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "unrelated"}}
TICK_S = 0.02  # between two pieces of what never ends
CACHED = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


class WickedHttp(HttpServer):
    """One server, and everybody connected to it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.era = options.get("era", "legacy")
        self.rule: dict[str, Any] | None = options.get("rule")
        super().__init__(options.get("port", 0))
        self.sessions: set[str] = set()
        self.listeners: set[tuple[asyncio.StreamWriter, Any]] = set()
        self.tools = list(TOOLS)
        self.counted: list[str] = []
        self.seen: dict[str, int] = {}
        self.released = asyncio.Event()

    # --- its life

    async def run(self) -> None:
        await self.listen_on_port()
        print(json.dumps({"port": self.port}), flush=True)
        loop = asyncio.get_running_loop()
        orders = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
        while line := await orders.readline():
            for name, value in json.loads(line).items():
                await getattr(self, f"order_{name}")(value)
            print(json.dumps(self.state()), flush=True)

    def state(self) -> dict[str, Any]:
        people = {"connections": len(self.connections), "listeners": len(self.listeners)}
        return {"counted": self.counted, "seen": self.seen, **people}

    async def order_state(self, _value: Any) -> None:
        pass

    async def order_rule(self, rule: dict[str, Any] | None) -> None:
        self.rule = rule

    async def order_forget(self, _value: Any) -> None:
        self.sessions.clear()

    async def order_hang_up(self, _value: Any) -> None:
        await self.hang_up(set(self.connections))

    async def order_deaden(self, _value: Any) -> None:
        """As after a long sleep of the client's machine: what was between has forgotten the connections."""
        self.dead |= self.connections
        self.listeners.clear()

    async def order_vanish(self, _value: Any) -> None:
        """As if the way to it were gone: nothing passes, nobody is told, and nobody gets through any more."""
        self.dead |= self.connections
        await self.close_port(hang_up=None)

    async def order_leave(self, _value: Any) -> None:
        """As a server does that is asked to stop: take nothing new, and finish what there is."""
        await self.close_port(hang_up=False)
        for writer, _ in list(self.listeners):
            writer.close()

    async def order_release(self, _value: Any) -> None:
        self.released.set()

    async def order_listen(self, wanted: bool) -> None:
        if wanted:
            await self.listen_on_port()
        else:
            await self.close_port()

    async def order_add_tool(self, name: str) -> None:
        self.tools.append(name)
        note: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        for writer, listen_id in list(self.listeners):
            if listen_id is not None:
                note["params"] = {"_meta": {"io.modelcontextprotocol/subscriptionId": listen_id}}
            await self.event(writer, note)

    def closed(self, writer: asyncio.StreamWriter) -> None:
        self.listeners = {each for each in self.listeners if each[0] is not writer}

    # --- requests

    async def take(self, request: Request, writer: asyncio.StreamWriter) -> None:
        what = request.asks or request.method
        self.seen[what] = self.seen.get(what, 0) + 1
        rule = self.applies(request)
        if rule is None:
            await self.behave(request, writer)
            return
        if rule.get("counted"):
            self.count(request)
        await getattr(self, f"do_{rule['do']}")(request, writer, rule)

    def count(self, request: Request) -> None:
        """Note the effect of a call: its key, or the tool."""
        if request.asks == "tools/call":
            arguments = request.message["params"].get("arguments") or {}
            self.counted.append(str(arguments.get("key", request.tool)))

    def applies(self, request: Request) -> dict[str, Any] | None:
        rule = self.rule
        if rule is None or rule.get("times") == 0:
            return None
        at, tool = rule["at"], rule.get("tool", request.tool)
        if (
            at not in {request.asks, request.method if request.method == "GET" else "*"}
            or tool != request.tool
        ):
            return None
        if request.method == "DELETE":
            return None
        if "times" in rule:
            rule["times"] -= 1
        return rule

    # --- behaving

    async def behave(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            await self.listen(request, writer)
        elif request.method == "DELETE":
            await self.respond(writer, 200)
        elif not self.knows(request):
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}
            await self.respond(writer, 404, json.dumps(error).encode(), content_type="application/json")
        elif "id" not in request.message:
            await self.respond(writer, 202)
        elif request.asks == "subscriptions/listen" and self.era == "modern":
            await self.subscribe(request, writer)
        else:
            await self.reply(writer, request)

    def knows(self, request: Request) -> bool:
        if self.era != "legacy" or request.asks in {"initialize", "server/discover"}:
            return True
        return request.headers.get("mcp-session-id") in self.sessions

    async def reply(self, writer: asyncio.StreamWriter, request: Request) -> None:
        """The right answer: as JSON, or on the one stream of the older transport."""
        self.count(request)
        headers = {"content_type": "application/json"}
        if request.asks == "initialize" and self.era == "legacy":
            headers["mcp_session_id"] = session = uuid.uuid4().hex
            self.sessions.add(session)
        if self.era == "sse":
            await self.respond(writer, 202)
            for listener, _ in list(self.listeners):
                await self.event(listener, self.answer(request))
        else:
            await self.respond(writer, 200, json.dumps(self.answer(request)).encode(), **headers)

    def answer(self, request: Request) -> dict[str, Any]:
        head = {"jsonrpc": "2.0", "id": request.message["id"]}
        result = self.result(request)
        if result is None:
            return {**head, "error": {"code": -32601, "message": f"Method not found: {request.asks}"}}
        return {**head, "result": {**result, **(CACHED if self.era == "modern" else {})}}

    def result(self, request: Request) -> dict[str, Any] | None:
        about = {
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "w", "version": "1"},
        }
        match request.asks:
            case "initialize" if self.era != "modern":
                return {"protocolVersion": OLD if self.era == "sse" else LEGACY, **about}
            case "server/discover" if self.era == "modern":
                return {"supportedVersions": [MODERN], **about}
            case "ping":
                return {}
            case "tools/list":
                known = [{"name": name, "inputSchema": EMPTY} for name in self.tools]
                return {"tools": [{**tool, "annotations": HINTS.get(tool["name"], {})} for tool in known]}
            case "tools/call":
                return {"content": [{"type": "text", "text": f"{request.tool} is done"}]}
        return None

    async def listen(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """The stream of the server's own messages, until the client goes. It keeps none of them."""
        if "last-event-id" in request.headers:
            await self.respond(writer, 405)
            return
        await self.stream(writer)
        if self.era == "sse":
            await self.write(writer, b"event: endpoint\ndata: /messages?session_id=1\n\n")
        await self.stay(request, writer, None)

    async def subscribe(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self.stream(writer)
        listen_id = request.message["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": listen_id}
        params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
        await self.event(writer, note)
        await self.stay(request, writer, listen_id)

    async def stay(self, request: Request, writer: asyncio.StreamWriter, listen_id: Any) -> None:
        self.listeners.add((writer, listen_id))
        await request.client_gone()

    # --- doing its worst

    async def do_status(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        body = rule.get("body", "").encode()
        await self.respond(writer, rule["status"], body, **rule.get("headers", {}))

    async def do_hang(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        await request.client_gone()

    async def do_wait(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        """The right answer, when the order `release` comes."""
        await self.released.wait()
        await self.behave(request, writer)

    async def do_drop(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        writer.transport.abort()

    async def do_drop_body(
        self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]
    ) -> None:
        await self.head(writer, 200, content_type="application/json", content_length="1000")
        await self.write(writer, b'{"jsonrpc": "2.0", "id":')
        writer.close()

    async def do_drop_stream(
        self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]
    ) -> None:
        await self.stream(writer)
        await self.event(writer, NOTE, rule.get("id"))
        writer.close()

    async def do_endless(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        """A stream of comments, or of messages that are not the answer."""
        await self.stream(writer)
        while not writer.is_closing():
            if rule.get("notes"):
                await self.event(writer, NOTE)
            else:
                await self.write(writer, b": still here\n\n")
            await asyncio.sleep(TICK_S)

    async def do_flood(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        """A body without an end or a line break, as fast as it goes."""
        await self.head(writer, 200, content_type=rule["content_type"], connection="close")
        await self.write(writer, b"data: {" if "event" in rule["content_type"] else b"{")
        while not writer.is_closing():
            await self.write(writer, b"x" * 65536)

    async def do_large(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        """The right answer, but for its size."""
        content = [{"type": "text", "text": "x" * rule["bytes"]}]
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": content}}
        if self.era == "sse":
            await self.respond(writer, 202)
            for listener, _ in list(self.listeners):
                await self.event(listener, answer)
            return
        if rule.get("stream"):
            await self.stream(writer)
            await self.event(writer, answer)
            writer.close()
            return
        body = json.dumps(answer).encode()
        headers = {"content_type": "application/json"}
        if rule.get("packed"):
            body, headers["content_encoding"] = gzip.compress(body), "gzip"
        await self.respond(writer, 200, body, **headers)

    async def do_stream(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        """The right answer, on an event stream; or `data` in its place."""
        await self.stream(writer)
        await self.write(writer, f"data: {rule.get('data') or json.dumps(self.answer(request))}\n\n".encode())
        writer.close()

    async def do_other_id(self, request: Request, writer: asyncio.StreamWriter, rule: dict[str, Any]) -> None:
        answer = {**self.answer(request), "id": 987654}
        await self.respond(writer, 200, json.dumps(answer).encode(), content_type="application/json")


if __name__ == "__main__":
    asyncio.run(WickedHttp(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}).run())

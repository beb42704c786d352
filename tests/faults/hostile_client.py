"""Raw clients of MCPX, good and hostile: over its socket, over standard streams, over HTTP. No SDK.

A `Client` reads only when it waits for an answer: one that is never asked for anything never reads. What it
sends is bounded in time, because an MCPX that does not read is one that holds back, which is its right.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import anyio
import anyio.abc
import msgspec

ANSWER_S = 15.0
SEND_S = 10.0
CHUNK = 1 << 20
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "hostile", "version": "1"},
}


class Answer(msgspec.Struct, frozen=True):
    """How one request ended, told by its whole `message`."""

    message: dict[str, Any]

    @property
    def result(self) -> dict[str, Any]:
        """Empty for an error, and for a result that is no object."""
        result = self.message.get("result")
        return result if isinstance(result, dict) else {}

    @property
    def error(self) -> int | None:
        """The code of a JSON-RPC error."""
        return (self.message.get("error") or {}).get("code")

    @property
    def code(self) -> str | None:
        """MCPX's word for what went wrong with a call."""
        return self._failure().get("code")

    @property
    def outcome(self) -> str | None:
        """Whether that call was sent."""
        return self._failure().get("outcome")

    def _failure(self) -> dict[str, Any]:
        told = self.result.get("structuredContent") if self.result.get("isError") else None
        return told if isinstance(told, dict) else {}

    @property
    def text(self) -> str:
        """The text of a result, or the message of an error."""
        if "error" in self.message:
            return str(self.message["error"].get("message"))
        blocks = self.result.get("content") or []
        return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))

    @property
    def in_words(self) -> str:
        """What the caller saw, as the table says it."""
        if self.error is not None:
            return f"JSON-RPC error {self.error}"
        if self.code is not None:
            return f"{self.code}, {self.outcome}"
        return "isError" if self.result.get("isError") else "the answer"


class Client:
    """One connection, a JSON-RPC message a line."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.notified: Counter[str] = Counter()
        self.questions: list[dict[str, Any]] = []
        """Requests of MCPX that came while it waited for something."""
        self.others: dict[Any, dict[str, Any]] = {}
        self._rest = bytearray()
        self._last_id = 0

    async def send_bytes(self, data: bytes, *, within_s: float = SEND_S) -> bool:
        """Whether all of it could be sent in time. A connection that MCPX has ended raises OSError."""
        try:
            with anyio.move_on_after(within_s) as scope:
                await self.stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ConnectionResetError("MCPX has closed the connection") from None
        return not scope.cancelled_caught

    async def send(self, method: str, params: Any = None, **more: Any) -> None:
        """A notification, or with an `id` a request that nobody waits for."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, **more}
        await self.send_bytes(
            json.dumps(message if params is None else {**message, "params": params}).encode() + b"\n"
        )

    async def ask(self, method: str, params: Any = None) -> int:
        """Send a request and go on; the id that its answer has."""
        self._last_id += 1
        await self.send(method, params, id=self._last_id)
        return self._last_id

    async def answer(self, request_id: Any, *, within_s: float = ANSWER_S) -> Answer:
        """The answer to that id. Raises TimeoutError, or ConnectionError where MCPX hangs up."""
        with anyio.move_on_after(within_s):
            while request_id not in self.others:
                self._take(await self.line())
            return Answer(self.others.pop(request_id))
        raise TimeoutError(f"no answer to request {request_id!r} within {within_s:g} s")

    async def line(self) -> bytes:
        """The next line. Raises ConnectionError where there is none."""
        looked = 0
        while (end := self._rest.find(b"\n", looked)) < 0:
            looked = len(self._rest)
            try:
                self._rest += await self.stream.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                raise ConnectionResetError("MCPX has closed the connection") from None
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        if "method" not in message:
            self.others[message.get("id")] = message
        elif "id" in message:
            self.questions.append(message)
        else:
            self.notified[message["method"]] += 1

    async def request(self, method: str, params: Any = None, *, within_s: float = ANSWER_S) -> Answer:
        """Send a request and wait for its answer."""
        return await self.answer(await self.ask(method, params), within_s=within_s)

    async def hello(self, **more: Any) -> Answer:
        """Shake hands; `more` goes into the params."""
        told = await self.request("initialize", {**HELLO, **more})
        await self.send("notifications/initialized")
        return told

    async def tool(self, name: str, *, within_s: float = ANSWER_S, **arguments: Any) -> Answer:
        """Call one of MCPX's three tools."""
        return await self.request("tools/call", {"name": name, "arguments": arguments}, within_s=within_s)

    async def exec(self, server: str, tool: str, arguments: Any = None, **more: Any) -> Answer:
        """Call a server's tool."""
        return await self.tool(
            "exec",
            server_name=server,
            tool_name=tool,
            arguments={} if arguments is None else arguments,
            **more,
        )

    async def exec_raw(self, server: str, tool: str, arguments: bytes, **more: Any) -> Answer:
        """The same, with arguments that no encoder writes."""
        self._last_id += 1
        await self.send_bytes(exec_line(self._last_id, server, tool, arguments))
        return await self.answer(self._last_id, **more)

    async def aclose(self) -> None:
        await self.stream.aclose()


def exec_line(request_id: int, server: str, tool: str, arguments: bytes = b"{}") -> bytes:
    """One line that calls a server's tool."""
    asked = b'{"server_name":%s,"tool_name":%s,"arguments":%s}' % (
        json.dumps(server).encode(),
        json.dumps(tool).encode(),
        arguments,
    )
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec",' % request_id
    return head + b'"arguments":%s}}\n' % asked


class HttpClient:
    """One session at the HTTP endpoint; each request has a connection of its own."""

    def __init__(self, port: int, token: str, path: str = "/mcp") -> None:
        self.port = port
        self._path = path
        self._headers = {
            "Host": f"127.0.0.1:{port}",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self._last_id = 0

    async def open(self, message: Any, *, method: str = "POST", **headers: str) -> anyio.abc.SocketStream:
        """Send a request, and read nothing of its answer."""
        if message is None:
            body = b""
        else:
            body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.open_raw(body, method=method, **headers)

    async def open_raw(self, body: bytes, *, method: str = "POST", **headers: str) -> anyio.abc.SocketStream:
        """The same with any bytes as the body."""
        lines = [f"{name}: {value}" for name, value in {**self._headers, **headers}.items()]
        head = "\r\n".join(
            [f"{method} {self._path} HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""]
        )
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        await stream.send(head.encode() + body)
        return stream

    async def post(self, message: Any, *, within_s: float = ANSWER_S) -> tuple[int, dict[str, Any]]:
        """The status, and the first message of the answer that has an id."""
        with anyio.fail_after(within_s):
            async with await self.open(message, Connection="close") as stream:
                data = b""
                while True:
                    try:
                        data += await stream.receive(CHUNK)
                    except anyio.EndOfStream:
                        break
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        for name, _, value in (line.partition(": ") for line in lines):
            if name.lower() == "mcp-session-id":
                self._headers["Mcp-Session-Id"] = value
        if "transfer-encoding: chunked" in head.decode("latin-1").lower():
            body = _unchunked(body)
        return int(first.split()[1]), _message(body)

    async def request(self, method: str, params: Any = None, **more: Any) -> Answer:
        """A request, and its answer."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}}
        return Answer((await self.post(message, **more))[1])

    async def hello(self, **more: Any) -> Answer:
        """Shake hands; `more` goes into the params."""
        told = await self.request("initialize", {**HELLO, **more})
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return told

    async def exec(self, server: str, tool: str, arguments: Any = None, **more: Any) -> Answer:
        """Call a server's tool."""
        asked = {"server_name": server, "tool_name": tool, "arguments": arguments or {}}
        return await self.request("tools/call", {"name": "exec", "arguments": asked}, **more)

    async def exec_raw(self, server: str, tool: str, arguments: bytes, **more: Any) -> Answer:
        """The same, with arguments that no encoder writes."""
        self._last_id += 1
        return Answer((await self.post(exec_line(self._last_id, server, tool, arguments), **more))[1])


def _unchunked(body: bytes) -> bytes:
    whole = bytearray()
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        whole += body[:length]
        body = body[length + 2 :]
    return bytes(whole)


def _message(body: bytes) -> dict[str, Any]:
    """The first answer in a body: JSON, or events."""
    for line in body.splitlines():
        text = line.removeprefix(b"data:").strip()
        if text.startswith(b"{"):
            try:
                message = json.loads(text)
            except ValueError:
                continue
            if "method" not in message:
                return dict(message)
    return {}

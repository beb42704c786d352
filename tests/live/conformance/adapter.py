"""A proxy that shows one server behind MCPX's three tools as if it were there itself, for the suite.

Run as `python adapter.py URL SERVER`; says "listening" on standard error then. It turns `tools/call` into a
call of `exec` and `tools/list` into calls of `inspect`, takes MCPX's prefixes off URIs and names of prompts,
and gives a JSON-RPC error of the server, which `exec` puts into its result, as one again. Everything else
passes as it is.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

JSON = dict[str, Any]

METHODS: Final = ["GET", "POST", "DELETE", "OPTIONS"]
NOT_PASSED: Final = {
    "connection",
    "content-length",
    "transfer-encoding",
    "content-encoding",
    "date",
    "server",
}
UPSTREAM: Final = b'"upstream":{"code"'
"""In a result of exec: the server's own JSON-RPC error."""
MISSING_CAPABILITY: Final = -32021  # is HTTP 400
SPELT: Final = {"input_schema": "inputSchema", "output_schema": "outputSchema"}
"""Members that inspect spells in another way than the protocol does."""
PATIENCE: Final = httpx2.Timeout(60.0, read=600.0)


class Adapter:
    """Translates the requests and responses of one server."""

    def __init__(self, url: str, server: str, client: httpx2.AsyncClient) -> None:
        self._url = url
        self._port = httpx2.URL(url).port
        self._server = server
        self._client = client
        self._uri_prefix = f"mcpx://{server}/"
        self._prompt_prefix = f"{server}."

    async def endpoint(self, request: Request) -> Response:
        """Answer one HTTP request."""
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in NOT_PASSED}
        for name in ("host", "origin"):  # MCPX wants to be called by its own port
            if name in headers:
                headers[name] = headers[name].replace(f":{request.url.port}", f":{self._port}")
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            return await self._passed(request.method, body, headers)
        if message.get("method") == "tools/list" and "id" in message:
            return await self._listed(message, headers)
        sent = self._translated(message)
        if headers.get("mcp-name", "").strip() == _name(message):
            headers["mcp-name"] = _name(sent)
        body = body if sent is message else json.dumps(sent).encode()
        return await self._passed(request.method, body, headers)

    def _translated(self, message: JSON) -> JSON:
        """The request that MCPX is sent."""
        params = dict(message.get("params") or {})
        match message.get("method"):
            case "tools/call":
                call = {"server_name": self._server, "tool_name": params.get("name")}
                given = {"arguments": params["arguments"]} if "arguments" in params else {}
                params |= {"name": "exec", "arguments": call | given}
            case "resources/read" | "resources/subscribe" | "resources/unsubscribe" if "uri" in params:
                params["uri"] = self._uri_prefix + params["uri"]
            case "prompts/get" if "name" in params:
                params["name"] = self._prompt_prefix + params["name"]
            case "completion/complete" if "ref" in params:
                prefixes = {"name": self._prompt_prefix, "uri": self._uri_prefix}
                params["ref"] = {key: prefixes.get(key, "") + value for key, value in params["ref"].items()}
            case _:
                return message
        return message | {"params": params}

    async def _passed(self, method: str, body: bytes, headers: dict[str, str]) -> Response:
        sent = self._client.build_request(method, self._url, content=body, headers=headers)
        got = await self._client.send(sent, stream=True)
        kept = {name: value for name, value in got.headers.items() if name.lower() not in NOT_PASSED}
        if _is_stream(got):
            return StreamingResponse(self._lines(got), got.status_code, kept)
        content = self._plain(await got.aread())
        refused = f'"code": {MISSING_CAPABILITY}'.encode() in content
        return Response(content, 400 if refused else got.status_code, kept)

    async def _lines(self, got: httpx2.Response) -> AsyncIterator[bytes]:
        rest = b""
        try:
            async for chunk in got.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield self._plain(line) + b"\n"
            yield self._plain(rest)
        finally:
            await got.aclose()

    def _plain(self, text: bytes) -> bytes:
        """JSON or a line of events without MCPX's prefixes, and with the server's error as an error."""
        text = text.replace(self._uri_prefix.encode(), b"")
        text = text.replace(b'"' + self._prompt_prefix.encode(), b'"')
        if UPSTREAM not in text:
            return text
        field, body = (b"data: ", text[6:]) if text.startswith(b"data: ") else (b"", text)
        message = json.loads(body)
        error = message.pop("result")["structuredContent"]["upstream"]
        return field + json.dumps(message | {"error": error}).encode()

    async def _listed(self, message: JSON, headers: dict[str, str]) -> Response:
        """MCPX's own list, with the tools that inspect shows in it."""
        own = await self._client.post(self._url, content=json.dumps(message), headers=headers)
        answer = _answer(own)
        if "result" not in answer:
            return Response(own.content, own.status_code, {"content-type": own.headers["content-type"]})
        names = [tool["name"] for tool in (await self._inspected(message, headers)).get("tools", [])]
        shown = [await self._inspected(message, headers, tool_name=name) for name in names]
        tools = [{SPELT.get(key, key): tool[key] for key in tool.keys() - {"server"}} for tool in shown]
        body = json.dumps(answer | {"result": answer["result"] | {"tools": tools}})
        if _is_stream(own):
            body = f"event: message\ndata: {body}\n\n"
        return Response(body, 200, {"content-type": own.headers["content-type"]})

    async def _inspected(self, message: JSON, headers: dict[str, str], **arguments: Any) -> JSON:
        meta = {key: value for key, value in (message.get("params") or {}).items() if key == "_meta"}
        call = {"name": "inspect", "arguments": {"server_name": self._server, **arguments}, **meta}
        asked = json.dumps(message | {"method": "tools/call", "params": call})
        named = headers | ({"mcp-method": "tools/call", "mcp-name": "inspect"} if meta else {})
        answer = _answer(await self._client.post(self._url, content=asked, headers=named))
        found: JSON = answer.get("result", {}).get("structuredContent") or {}
        return found


def _name(message: JSON) -> str:
    """What the header Mcp-Name repeats of a request."""
    params = message.get("params") or {}
    return str(params.get("name") or params.get("uri"))


def _is_stream(response: httpx2.Response) -> bool:
    return "event-stream" in response.headers.get("content-type", "")


def _answer(response: httpx2.Response) -> JSON:
    """The JSON-RPC response in an answer, be it JSON or a stream of events."""
    text = response.text
    if _is_stream(response):
        text = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
    found: JSON = json.loads(text)
    return found


def app(url: str, server: str) -> Starlette:
    """The proxy as an ASGI application."""
    client = httpx2.AsyncClient(timeout=PATIENCE)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    endpoint = Adapter(url, server, client).endpoint
    return Starlette(routes=[Route("/mcp", endpoint, methods=METHODS)], lifespan=lifespan)


def main() -> None:
    """Serve on a free port until ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app(*sys.argv[1:]), log_level="warning", http="h11")).run(
        sockets=[listener]
    )


if __name__ == "__main__":
    main()

"""One hub, and a client at every way in by which a tool can be called, which sends what a test wrote.

A question is agreed to; what the client saw of it, and how the call ended, is what a call gives.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from mcpx.core.config import HttpGateway
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.core.gateway.endpoints import Endpoints
from mcpx.core.gateway.frontends.http.frontend import HttpFrontend, listen
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint
from supervisors import ChildSpec
from tests.mcpx.core.gateway.endpoints import LineEndpoint
from tests.mcpx.core.gateway.peer.peers import PeerLine
from tests.mcpx.core.gateway.transparent.talking import Fds, Talk, on_stream, over_http
from tests.mcpx.core.policy.agreeing import KEY, said
from tests.mcpx.scripted import PATIENCE_S, Ears, config_of, entry, open_watched

ERAS = ("handshake", "modern")
PLACES = ("exec", "native", "transparent", "peer")
WAYS = [(place, path, era) for place in PLACES for path in ("fast", "slow", "http") for era in ERAS]
CAN = {"elicitation": {}}
ABOUT = {"name": "t", "version": "1"}
META = json.dumps(
    {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": ABOUT,
        "io.modelcontextprotocol/clientCapabilities": CAN,
    }
)
HELLO = json.dumps({"protocolVersion": "2025-11-25", "capabilities": CAN, "clientInfo": ABOUT})
HTTP_PATHS = {"exec": "", "native": "", "transparent": "/servers/s", "peer": "/peers/s"}


class Outcome(NamedTuple):
    """What became of a call: the messages of the questions, and the text of the whole answer."""

    questions: list[str]
    answer: str

    @property
    def refused(self) -> bool:
        """Whether nothing was asked and nothing was sent, because of the arguments."""
        return not self.questions and "invalid_arguments" in self.answer and "not_sent" in self.answer


class Caller:
    """A client at one way in."""

    def __init__(self, talk: Talk, place: str, era: str) -> None:
        self.talk = talk
        self.place = place
        self.era = era
        self.decision = "once"
        self._last = 0

    async def call(self, arguments: str, tool: str = "count") -> Outcome:
        """Call a tool with arguments in JSON, and agree to it."""
        self.talk.heard.clear()
        self.talk.reply = f'"result":{json.dumps(said(self.decision))}'
        name = json.dumps("s__" + tool if self.place == "native" else tool)
        members = f'"name":{name},"arguments":{arguments}'
        if self.place == "exec":
            inner = f'"server_name":"s","tool_name":{name},"arguments":{arguments}'
            members = f'"name":"exec","arguments":{{{inner}}}'
        answer = await self._ask(members)
        found = [dict(dict(each)["params"])["message"] for each in self.talk.heard if ("method", ASK) in each]
        while (result := answer.get("result", {})).get("resultType") == "input_required":
            found.append(result["inputRequests"][KEY]["params"]["message"])
            state = f'"requestState":{json.dumps(result["requestState"])}'
            agreed = json.dumps({KEY: said(self.decision)})
            answer = await self._ask(f'{members},"inputResponses":{agreed},{state}')
        return Outcome(found, json.dumps(answer))

    async def _ask(self, members: str) -> dict[str, Any]:
        self._last += 1
        meta = f',"_meta":{META}' if self.era == "modern" else ""
        await self.talk.send("tools/call", f"{{{members}{meta}}}", self._last)
        while True:
            message = await self.talk.take()
            if "method" not in message and message["id"] in {self._last, None}:  # None: it was no message
                return message


ASK = "elicitation/create"


class EveryWay(NamedTuple):
    """The callers by place, path and era; and what the server heard."""

    callers: dict[tuple[str, str, str], Caller]
    ears: Ears

    def received(self) -> list[Any]:
        """The arguments of all calls so far."""
        return [each["arguments"] for each in self.ears.of("call")]


@asynccontextmanager
async def every_way(folder: Path, **settings: Any) -> AsyncIterator[EveryWay]:
    """A hub over one scripted server, every tool of which is asked about."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        ears = stack.enter_context(Ears(folder / "ears"))
        servers = {"s": entry(ears, settings={"tools": {"ask": ["*"]}, **settings})}
        watch = await enter(open_watched(config_of(servers, expose="both"), state=folder / "state"))
        sessions = ClientSessions(watch.hub)
        endpoints = Endpoints(watch.hub, sessions)
        listener = stack.enter_context(listen("127.0.0.1", 0))
        http = HttpFrontend(endpoints, listener, HttpGateway(), token=None, limit=1 << 24)
        watch.hub.root.add(ChildSpec(name="http", run=http.run))
        client = await enter(httpx2.AsyncClient(timeout=PATIENCE_S))
        callers = {}
        for place, path, era in WAYS:
            talk: Talk
            if path == "http":
                talk = await enter(over_http(f"{http.url}{HTTP_PATHS[place]}", client))
                if era == "modern":
                    talk.headers |= {"mcp-protocol-version": "2026-07-28"}
            elif place == "transparent":
                talk = await enter(on_stream(watch.hub, "s"))
            else:
                kind = PeerLine if place == "peer" else LineEndpoint
                at = (
                    endpoints.peer(Endpoint(peer="s"))
                    if place == "peer"
                    else endpoints.gateway(DEFAULT_ENDPOINT)
                )
                line = kind(watch.hub, modern=era == "modern", slow=path == "slow")
                await enter(line.connected(at))
                talk = Fds(line._in, line._out)
            if era == "handshake":
                await talk.ask("initialize", HELLO, "hello")
                if "mcp-session-id" in getattr(talk, "headers", {}):
                    talk.headers["mcp-protocol-version"] = "2025-11-25"
                await talk.send("notifications/initialized")
            callers[place, path, era] = Caller(talk, place, era)
        yield EveryWay(callers, ears)

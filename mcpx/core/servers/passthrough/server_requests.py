"""The requests of a server that its client has not answered, on one connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND

from mcpx.core.protocol.requests import Cancel, OnAnswer, Peer
from mcpx.core.servers.passthrough.messages import error_answer, members_of, value_of
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import RequestId

MAX_OPEN_REQUESTS: Final = 256
_TOO_MANY: Final = MCPError(INTERNAL_ERROR, f"{MAX_OPEN_REQUESTS} requests of this server are open")
_NO_CLIENT: Final = MCPError(METHOD_NOT_FOUND, "Method not found")


class ServerRequests:
    """The open ones, by the server's ids."""

    def __init__(self) -> None:
        self._open: dict[RequestId, Cancel] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(
        self, peers: Sequence[Peer], server_id: RequestId, method: str, params: msgspec.Raw, answer: OnAnswer
    ) -> None:
        """Pass a request on to the one peer that there is, and its answer back."""
        if len(peers) != 1 or len(self._open) >= MAX_OPEN_REQUESTS:
            answer(error_answer(_TOO_MANY if peers else _NO_CLIENT))
            return
        key = coerce_request_id(server_id)

        def answered(said: msgspec.Raw) -> None:
            if self._open.pop(key, None) is not None:
                answer(said)

        self._open[key] = lambda _params: None
        cancel = peers[0].ask(method, params, answered)
        if key in self._open:
            self._open[key] = cancel

    def cancel(self, params: msgspec.Raw) -> None:
        """The server has cancelled a request; `params` are those of its notification."""
        server_id = value_of(members_of(params).get("requestId"))
        if isinstance(server_id, int | str) and (
            cancel := self._open.pop(coerce_request_id(server_id), None)
        ):
            cancel(params)

    def close(self) -> None:
        """Cancel all: the connection has ended."""
        opened, self._open = self._open, {}
        for server_id, cancel in opened.items():
            cancel(msgspec.Raw(envelope.encode({"requestId": server_id, "reason": "the server has ended"})))

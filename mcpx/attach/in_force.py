"""What a client has put in force for its session, to be put in force at the next daemon too. Pure."""

from __future__ import annotations

import msgspec

from mcpx.attach.refusals import PendingRequest, decode_object
from mcpx.core.wire.batch import BATCH_REVISION


class InForce:
    """The opening of a session, its log level and its subscriptions."""

    def __init__(self) -> None:
        self.initialize: PendingRequest | None = None
        """None before the handshake, and since 2026-07-28, which has none."""
        self.initialized: bytes | None = None
        """The notification that ends the handshake, as the client sent it."""
        self.takes_batches = False
        self._log_level: PendingRequest | None = None
        self._subscriptions: dict[str, PendingRequest] = {}

    def take(self, request: PendingRequest, result: msgspec.Raw) -> None:
        """Note what a request that succeeded has put in force."""
        match request.method:
            case "initialize":
                self.initialize = request.copied()
                self.takes_batches = decode_object(result).get("protocolVersion") == BATCH_REVISION
            case "logging/setLevel":
                self._log_level = request.copied()
            case "resources/subscribe":
                self._subscriptions[_uri(request)] = request.copied()
            case "resources/unsubscribe":
                self._subscriptions.pop(_uri(request), None)

    def requests(self) -> list[PendingRequest]:
        """What puts it in force again, after the handshake."""
        return [request for request in (self._log_level, *self._subscriptions.values()) if request]


def _uri(request: PendingRequest) -> str:
    return str(decode_object(request.params).get("uri"))

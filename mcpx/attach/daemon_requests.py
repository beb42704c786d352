"""The daemon's requests to the client, under ids of the shim's own, as all daemons count alike. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from mcpx.attach.refusals import PendingRequest, decode_object
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import RequestId, RPCMessage


class DaemonRequests:
    """Those that await the client's response. Lines end in newlines."""

    def __init__(self) -> None:
        self._daemon_ids: dict[int, RequestId] = {}  # by the ids that the client sees
        self._last_id = 0

    def renamed(self, message: RPCMessage, daemon_id: RequestId) -> bytes:
        """The request for the client that a request of the daemon becomes."""
        self._last_id += 1
        self._daemon_ids[self._last_id] = daemon_id
        return PendingRequest(str(message.method), message.params).encoded(self._last_id)

    def response(self, message: RPCMessage) -> bytes | None:
        """The response for the daemon that the client's becomes; None if that daemon is gone."""
        daemon_id = self._daemon_ids.pop(message.id, None) if isinstance(message.id, int) else None
        if daemon_id is None:
            return None
        if message.error:
            return b"".join(envelope.failure(daemon_id, message.error))
        return b"".join(envelope.answer(daemon_id, [message.result]))

    def cancellation(self, params: msgspec.Raw) -> bytes | None:
        """The cancellation for the client that the daemon's becomes; None if no such request is open."""
        cancelled = cancelled_id(params)
        for own_id, daemon_id in self._daemon_ids.items():
            if daemon_id == cancelled:
                del self._daemon_ids[own_id]
                return notification("notifications/cancelled", {**decode_object(params), "requestId": own_id})
        return None

    def daemon_lost(self) -> list[bytes]:
        """The cancellations of all, whose daemon is gone."""
        lost, self._daemon_ids = self._daemon_ids, {}
        reason = "the daemon went away"
        return [
            notification("notifications/cancelled", {"requestId": own_id, "reason": reason})
            for own_id in lost
        ]


def cancelled_id(params: msgspec.Raw) -> RequestId | None:
    """The id of the request that is cancelled; None if it is missing."""
    try:
        return envelope.decode_cancelled(params).request_id
    except (msgspec.DecodeError, RecursionError):
        return None


def notification(method: str, params: dict[str, Any] | None) -> bytes:
    """A notification, as a line."""
    return b"".join(envelope.notification(method, None if params is None else envelope.encode(params)))

"""The client's requests that await a response, and what answers them when their daemon is gone. Pure.

Requests that came in one batch are answered in one array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from mcpx.attach import refusals
from mcpx.attach.refusals import PendingRequest
from mcpx.attach.remembered import REMEMBERED
from mcpx.core.wire import batch
from mcpx.core.wire.envelope import RequestId, RPCMessage

LISTEN: Final = "subscriptions/listen"
REPEATABLE: Final = REMEMBERED | {"ping"}
"""Harmless: sent again to the next daemon, under the client's id, if the one before did not respond."""


class PendingRequests:
    """The requests of one client, by their ids."""

    def __init__(self, *, transparent: bool = False) -> None:
        self._transparent = transparent
        self._requests: dict[RequestId, PendingRequest] = {}
        self._last_batch = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request_id: RequestId | None) -> bool:
        return request_id in self._requests

    def __iter__(self) -> Iterator[tuple[RequestId, PendingRequest]]:
        return iter(list(self._requests.items()))

    def new_batch(self) -> int:
        """The number of a batch whose requests will be added."""
        self._last_batch += 1
        return self._last_batch

    def add(self, message: RPCMessage, batch_number: int = 0) -> None:
        """Add a request, unless the message is none."""
        if message.id is not None and message.method is not None:
            request = PendingRequest(message.method, message.params, batch_number, self._transparent)
            self._requests[message.id] = refusals.lightened(request)

    def get(self, request_id: RequestId | None) -> PendingRequest | None:
        """The request of that id; None if there is none."""
        return None if request_id is None else self._requests.get(request_id)

    def pop(self, request_id: RequestId | None) -> PendingRequest | None:
        """Take out a request that is settled; None for an id that no request has."""
        return None if request_id is None else self._requests.pop(request_id, None)

    def streams(self) -> dict[RequestId, PendingRequest]:
        """The 2026-07-28 streams that are open."""
        return {key: each for key, each in self._requests.items() if each.method == LISTEN}

    def streams_for(self, wanted: str) -> list[RequestId]:
        """Those of which the client's filter has that member."""
        filters = {
            key: refusals.decode_object(each.params).get("notifications")
            for key, each in self.streams().items()
        }
        return [key for key, each in filters.items() if isinstance(each, dict) and each.get(wanted)]

    def lose(self, unsent: Collection[RequestId | None]) -> list[bytes]:
        """Take out what was sent to a daemon that is gone and cannot be repeated; the responses for it."""
        lost = {
            key: each
            for key, each in self._requests.items()
            if key not in unsent and (each.batch or (each.method not in REPEATABLE and each.method != LISTEN))
        }
        for key in lost:
            del self._requests[key]
        return _responses(lost, refusals.lost_response)

    def refuse(self, respond: Callable[[RequestId, PendingRequest], bytes]) -> list[bytes]:
        """Take out all but streams, because there is no daemon; the responses for them."""
        streams = self.streams()
        refused = {key: each for key, each in self._requests.items() if key not in streams}
        self._requests = streams
        return _responses(refused, respond)


def _responses(
    requests: Mapping[RequestId, PendingRequest], respond: Callable[[RequestId, PendingRequest], bytes]
) -> list[bytes]:
    """The responses to these requests, as lines; those to one batch are one array."""
    batches: dict[int, list[bytes]] = {}
    for key, each in requests.items():
        batches.setdefault(each.batch, []).append(respond(key, each))
    singles = batches.pop(0, [])
    return singles + [batch.join(each) + b"\n" for each in batches.values()]

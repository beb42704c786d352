"""Requests that stay open for good (`subscriptions/listen`): sent to each connection until answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.messages import members_of, subscription_of, value_of, with_subscription
from mcpx.core.wire import envelope

METHODS: Final = frozenset({"subscriptions/listen"})
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CHANGED: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}


class Standing:
    """One such request of a client."""

    def __init__(self, request: Passed, reply: RawReply) -> None:
        self.request = request
        self._reply = reply
        self._cancel: Callable[[], None] = lambda: None
        self._id = msgspec.Raw(envelope.encode(request.id))
        self._acknowledged = False

    @property
    def over(self) -> bool:
        """Whether it was answered or cancelled."""
        return self._reply.settled

    def sent(self, cancel: Callable[[], None]) -> None:
        """Note that it was sent; `cancel` cancels it at the server."""
        self._cancel = cancel
        self._reply.on_abandon = self._withdraw

    def _withdraw(self) -> bool:
        self._cancel()
        return True

    def lost(self) -> None:
        """Note that the connection has ended; there is nothing to cancel."""
        self._reply.on_abandon = None

    def answer(self, answer: msgspec.Raw) -> None:
        """Pass the server's answer on."""
        self._reply.resolve(answer)

    def refuse(self, error: Exception) -> None:
        """Fail it: there will be no answer."""
        self._reply.reject(error)

    def notify(self, method: str, params: msgspec.Raw) -> None:
        """Pass on a notification of its stream, under the client's own id."""
        if method == ACKNOWLEDGED and self._acknowledged:
            self.announce_lists()
            self._announce_resources()
            return
        self._acknowledged = self._acknowledged or method == ACKNOWLEDGED
        is_own = subscription_of(params) == self.request.id
        self.request.origin.notify(method, params if is_own else with_subscription(params, self._id))

    def announce_lists(self) -> None:
        """Notify the client of the lists that it has subscribed to: they may have changed."""
        for kind, method in _CHANGED.items():
            if self._wanted().get(kind) is True:
                self._announce(method, {})

    def _announce_resources(self) -> None:
        """Notify the client of the resources that it has subscribed to: they may have changed meanwhile."""
        uris = self._wanted().get("resourceSubscriptions")
        for uri in uris if isinstance(uris, list) else []:
            self._announce("notifications/resources/updated", {"uri": uri})

    def _announce(self, method: str, params: dict[str, Any]) -> None:
        meta = {SUBSCRIPTION_ID_META_KEY: self.request.id}
        self.request.origin.notify(method, msgspec.Raw(envelope.encode({"_meta": meta, **params})))

    def _wanted(self) -> dict[str, Any]:
        wanted = value_of(members_of(self.request.raw).get("notifications"))
        return wanted if isinstance(wanted, dict) else {}

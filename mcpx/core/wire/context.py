"""The SDK's `DispatchContext` over a wire dispatcher: what a handler gets with each message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from mcp.shared.transport_context import TransportContext

from mcpx.core.wire.batch import Batch
from mcpx.core.wire.envelope import NoBackChannelError, RequestId, Step, progress_token_from_params

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions, Outbound

BOTH_WAYS: Final = TransportContext(kind="stdio", can_send_request=True)
NOTHING: Final = msgspec.Raw()
ONE_WAY: Final = TransportContext(kind="stdio", can_send_request=False)


class WireContext:
    """The context of one request, or of one notification (`request_id` is None)."""

    message_metadata: None = None

    def __init__(
        self,
        dispatcher: Outbound,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None = None,
        raw: msgspec.Raw = NOTHING,
    ) -> None:
        self._dispatcher = dispatcher
        self.is_local = True
        """Whether the request came from this machine."""
        self.headers: Mapping[bytes, bytes] = {}
        """The headers of the request, where it came over HTTP, by their names in lower case."""
        self._request_id = request_id
        self.raw = raw
        """The params of a request, as they came."""
        self._progress_token = progress_token_from_params(params)
        self._closed = False
        self._transport = BOTH_WAYS
        self._cancel_requested = anyio.Event()
        self.batch: Batch | None = None
        """The batch that the request came in, and is answered with."""
        self.standing = False
        """Whether the request stays open for good, and shutdown need not wait for its answer."""

    @property
    def transport(self) -> TransportContext:
        return self._transport

    @property
    def request_id(self) -> RequestId | None:
        return self._request_id

    @property
    def cancel_requested(self) -> anyio.Event:
        return self._cancel_requested

    @property
    def can_send_request(self) -> bool:
        return self._transport.can_send_request and not self._closed

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if not self.can_send_request:
            raise NoBackChannelError(method)
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        if not self._closed:
            await self._dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._progress_token is None:
            return
        step: dict[str, Any] = msgspec.to_builtins(Step(progress, total, message))
        await self.notify("notifications/progress", {"progressToken": self._progress_token, **step})

    def forbid_requests(self) -> None:
        """Refuse requests to the peer on this context, as protocol revisions without them want it."""
        self._transport = ONE_WAY

    def close(self) -> None:
        """Drop what is sent on this context from now on: its request has been answered."""
        self._closed = True

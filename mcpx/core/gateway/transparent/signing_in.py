"""Links to sign in by, for the clients of a transparent endpoint: requests that fail for want of a sign-in.

The client of such a request is asked before it gets the error, where it opens links
(`mcpx.core.calls.sign_in_links`); once its person has signed in, the request is sent for the first time. A
client that has not shaken hands yet cannot be asked: its `initialize` fails with the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.transparent.asking import answer_in, answers_in, with_answers
from mcpx.core.gateway.transparent.errors import as_call_error
from mcpx.core.protocol.context import Capabilities, OnStep
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.call_errors import LINK_KEY, SignInNeeded, without_link
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.client import DirectClient
from mcpx.core.servers.passthrough.messages import members_of, result_answer
from mcpx.core.wire import envelope
from mcpx.errors import Outcome

METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose requests may be answered with a question (2026-07-28), or ask one before their answer."""
_NAME: Final = LINK_KEY.rpartition("/")[2].encode()
_CANCELLED: Final = msgspec.Raw(b'{"reason":"no answer is needed any more"}')

Send = Callable[[Passed, RawReply], None]
"""Sends or queues a request; never raises."""


class SigningIn:
    """The links at the endpoint of a server."""

    def __init__(self, hub: Hub, server: str) -> None:
        self._hub = hub
        self._server = server

    def concerns(self, request: Passed) -> bool:
        """Whether a request is one that may have to wait for a sign-in."""
        upstream = self._hub.upstreams.get(self._server)
        return upstream is not None and upstream.account is not None and request.method in METHODS

    def submit(self, request: Passed, reply: RawReply, *, send: Send, caller: Callable[[], Caller]) -> None:
        """Send a request, and again when the person behind `caller` has signed in, where that is needed."""

        def settled(inner: RawReply) -> None:
            need = inner.error
            if not isinstance(need, SignInNeeded):
                _pass_on(inner, reply)
            elif not self._hub.links.spawn(partial(self._sign_in, need, request, reply, caller(), send)):
                reply.reject(need)

        inner = RawReply(settled)
        reply.on_abandon = partial(_abandon, inner)
        send(_without_link(request), inner)

    async def _sign_in(
        self, need: SignInNeeded, request: Passed, reply: RawReply, caller: Caller, send: Send
    ) -> None:
        """Ask the person, and send the request when they have signed in."""
        with anyio.CancelScope() as scope:
            reply.on_abandon = scope.cancel
            try:
                upstream = self._hub.registry.upstream(self._server)
                answers = answers_in(members_of(request.raw))
                asked = await self._hub.links.obtain(
                    need, upstream, caller, client=caller.client, answers=answers
                )
            except Exception as error:  # noqa: BLE001 - the boundary: it is the answer to the request
                reply.reject(as_call_error(error, self._server, request.method, Outcome.NOT_SENT))
                return
        if reply.settled:
            return
        reply.on_abandon = None
        if asked is not None:
            reply.resolve(result_answer(envelope.encode(asked)))
        else:
            send(_without_link(request), reply)


def _without_link(request: Passed) -> Passed:
    """A request without the answer to a link, which is not for its server."""
    if request.method not in METHODS or _NAME not in bytes(request.raw):
        return request
    members = members_of(request.raw)
    answers = answers_in(members)
    rest = without_link(answers)
    return request if rest is answers else replace(request, raw=with_answers(members, rest))


class Caller:
    """The client behind a request of an endpoint."""

    log_level: Final = None

    def __init__(
        self, request: Passed, client: DirectClient, capabilities: Capabilities, *, modern: bool
    ) -> None:
        self.client = client
        self.modern = modern
        self.capabilities = capabilities
        self.is_local = request.origin.is_local
        self.is_peer = False
        self._origin = request.origin

    def log(self, params: JSON) -> None:
        """Nothing is logged with a request of an endpoint."""

    async def ask(self, method: str, params: JSON, _on_progress: OnStep | None) -> JSON:
        """Send the client a request and wait for the result; an error of it is a `cancel`."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(answer: msgspec.Raw) -> None:
            if not answered.done():
                answered.set_result(answer_in(answer))

        cancel = self._origin.ask(method, msgspec.Raw(envelope.encode(params)), take)
        try:
            answer = await answered
        except asyncio.CancelledError:
            cancel(_CANCELLED)
            raise
        return answer if isinstance(answer, dict) else {}


def _pass_on(inner: RawReply, reply: RawReply) -> None:
    if inner.error is not None:
        reply.reject(inner.error)
    else:
        reply.resolve(inner.value or msgspec.Raw())


def _abandon(inner: RawReply) -> bool:
    """Withdraw a request whose client has gone; whether it may have been begun."""
    inner.abandon()
    return bool(getattr(inner.error, "begun", False))

"""The calls of one incarnation: requests out of the queue, to the server, and their answers to the askers.

Made by the upstream actor for each session. Every request that was accepted is settled, exactly once,
whatever happens: answered, refused by the server, timed out, or lost with the connection. A lost request
that is safe to repeat goes back to the head of the queue, once; nothing else is ever sent twice. A caller
that goes away, and a call past its deadline, are cancelled upstream by the SDK, and their slot is free.
"""

from __future__ import annotations

import anyio
from msgspec.structs import replace

from mcpx.catalog.model import JSON
from mcpx.config import ServerConfig
from mcpx.errors import CallError, Code
from mcpx.observe.metrics import Counters
from mcpx.upstream.faults import ConnectionLost, call_error, died
from mcpx.upstream.requests import CallTool, OnProgress, ReadResource, Request, tool_of
from mcpx.upstream.session import UpstreamSession
from supervisors import ActorRef, Incarnation, Reply


class Calls:
    """Serves one session; at most `max_concurrency` requests are in flight."""

    def __init__(
        self,
        session: UpstreamSession,
        ref: ActorRef[Request],
        config: ServerConfig,
        counters: Counters,
    ) -> None:
        self._session = session
        self._ref = ref
        self._server = config.name
        self._timeout = config.limits.call_timeout
        self._queue_timeout = config.limits.queue_timeout
        self._slots = anyio.Semaphore(config.limits.max_concurrency)
        self._counters = counters

    async def serve(self, incarnation: Incarnation) -> None:
        """Take requests while there are free slots; when asked to leave, finish what is running."""
        async with anyio.create_task_group() as calls:
            while True:
                await self._slots.acquire()
                envelope = await incarnation.while_wanted(self._ref.mailbox.take)
                if envelope is None:
                    return
                if not self._session.link.alive():  # dead, though not yet told: nothing is sent
                    self._ref.mailbox.put_back(envelope)
                    await anyio.sleep_forever()
                if envelope.reply is None or not envelope.reply.accept():
                    self._slots.release()
                    continue
                calls.start_soon(self._call, envelope.message, envelope.reply)

    async def _call(self, request: Request, reply: Reply[JSON]) -> None:
        """Send one request and settle its reply."""
        started = anyio.current_time()
        self._counters.calls += 1
        self._counters.in_flight += 1
        with anyio.CancelScope(deadline=started + self._timeout) as scope:
            reply.on_abandon = scope.cancel
            try:
                reply.resolve(await self._send(request, scope))
                self._counters.answered(anyio.current_time() - started)
            except Exception as error:  # noqa: BLE001 - the boundary: every failure goes to the caller
                if not self._session.link.lost.is_set():
                    self._reject(reply, call_error(error, server=self._server, tool=tool_of(request)))
            finally:
                self._slots.release()
                self._counters.in_flight -= 1
                if not scope.cancel_called and not reply.settled:  # the incarnation ends around us
                    self._lose(request, reply)
        if scope.cancelled_caught:
            self._reject(reply, self._timed_out(request))

    def _reject(self, reply: Reply[JSON], error: CallError) -> None:
        """Settle with an error, unless it is settled."""
        if reply.reject(error):
            self._counters.errors[str(error.code)] += 1

    async def _send(self, request: Request, scope: anyio.CancelScope) -> JSON:
        match request:
            case ReadResource(uri):
                return await self._session.read_resource(uri)
            case CallTool(name, arguments, on_progress):
                return await self._session.call_tool(name, arguments, self._extending(scope, on_progress))

    def _extending(self, scope: anyio.CancelScope, on_progress: OnProgress | None) -> OnProgress:
        """Progress starts the call's timeout anew, and goes to whoever asked."""

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            scope.deadline = anyio.current_time() + self._timeout
            if on_progress is not None:
                await on_progress(progress, total, message)

        return progressed

    def _lose(self, request: Request, reply: Reply[JSON]) -> None:
        """The session ended with the request in flight: queue it again if that is safe, else say so."""
        if not request.safe or not self._session.link.lost.is_set():
            self._reject(reply, self._lost(request))
            return
        lost = self._lost(request)
        self._ref.put_back(replace(request, safe=False), reply)
        reply.limit(self._queue_timeout, lambda: lost)

    def _lost(self, request: Request) -> CallError:
        link = self._session.link
        lost = self._session.lost() if link.lost.is_set() else ConnectionLost("MCPX closed the session")
        return died(str(lost), lost.stderr, server=self._server, tool=tool_of(request))

    def _timed_out(self, request: Request) -> CallError:
        text = f"{self._server} did not answer within {self._timeout:g} s; the call may have taken effect"
        return CallError(Code.TIMEOUT, text, server=self._server, tool=tool_of(request))

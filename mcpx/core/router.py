"""The router: the one actor that takes every inspect, exec and resources request.

`RouterActor` serves its mailbox one message at a time and never waits: inspect is answered from the
snapshots, and a call or a read is checked and handed on, reply slot and all, into its server's queue. So a
slow server holds nobody up, and the answer goes to the asker without a detour. Whatever a message makes the
actor raise becomes the answer to that message; nothing that anybody sends can end it. `Router` is the face
for the gateway and the command line: it asks the actor and shapes what comes back.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.executor import ExecutionResult, Executor
from mcpx.core.inspection import Inspector
from mcpx.core.registry import Registry
from mcpx.errors import CallError, Outcome, internal_error
from mcpx.observe.contained import contain
from mcpx.rendering.results import Shaped, read_resource_result, shape_resource
from mcpx.upstream.context import Client
from mcpx.upstream.requests import NOBODY, Complete, GetPrompt, OnProgress, Origin
from mcpx.validation.arguments import encode_arguments
from supervisors import Actor, ActorRef, Reply

MAILBOX_SIZE: Final = 4096  # messages are passed on within microseconds; this many means a broken client


class Inspect(msgspec.Struct, frozen=True):
    """What a server offers, or one of its tools; the answer is a `Shaped`."""

    server_name: str
    tool_name: str | None = None


class Exec(msgspec.Struct, frozen=True, gc=False):
    """Run a tool; the answer is the upstream's raw result."""

    server_name: str
    tool_name: str
    arguments: msgspec.Raw | bytes
    origin: Origin = NOBODY


class Read(msgspec.Struct, frozen=True, gc=False):
    """Read a resource; the answer is the upstream's raw result."""

    server_name: str
    uri: str
    origin: Origin = NOBODY


class Forward(msgspec.Struct, frozen=True, gc=False):
    """Pass on a request that is none of the three tools; the answer is the upstream's raw result."""

    server_name: str
    request: GetPrompt | Complete
    origin: Origin = NOBODY


Message = Inspect | Exec | Read | Forward


class RouterActor(Actor[Message]):
    """Finds the way for each message. Keeps no state, so that a restart loses nothing."""

    def __init__(
        self, ref: ActorRef[Message], registry: Registry, executor: Executor, inspector: Inspector
    ) -> None:
        super().__init__(ref)
        self._registry = registry
        self._executor = executor
        self._inspector = inspector

    def handle(self, message: Message, reply: Reply[Any] | None) -> None:
        if reply is None:
            return
        try:
            self._route(message, reply)
        except CallError as error:  # the request is wrong, not the router
            reply.reject(error)
        except Exception as error:  # noqa: BLE001 - the boundary: one message must not cost the others theirs
            self._fail(message, reply, error)

    def _inspect(self, message: Inspect, reply: Reply[Any]) -> None:
        """Answer, now or when the schema has been looked at."""
        try:
            reply.resolve(self._inspector.inspect(message.server_name, message.tool_name))
        except CallError as error:
            reply.reject(error)
        except Exception as error:  # noqa: BLE001 - as in `handle`
            self._fail(message, reply, error)

    def _fail(self, message: Message, reply: Reply[Any], error: Exception) -> None:
        contain(error, "router", server=message.server_name)
        server, tool = message.server_name, _tool_of(message)
        reply.reject(internal_error(error, server=server, tool=tool, outcome=Outcome.NOT_SENT))

    def _route(self, message: Message, reply: Reply[Any]) -> None:
        match message:
            case Inspect(server, tool) as inspect:
                self._inspector.look(server, tool, lambda: self._inspect(inspect, reply))
            case Exec(server, tool, arguments, origin):
                self._executor.dispatch(server, tool, arguments, reply, origin)
            case Read(server, uri, origin):
                self._registry.submit_read(server, uri, reply, origin)
            case Forward(server, request, origin):
                session = self._registry.session(server, origin.client)
                session.submit(replace(request, origin=origin), reply)


def _tool_of(message: Message) -> str | None:
    return message.tool_name if isinstance(message, Inspect | Exec) else None


class Router:
    """The three operations. Each waits for its answer and raises CallError where it fails."""

    def __init__(self, ref: ActorRef[Message], registry: Registry, executor: Executor) -> None:
        self._ref = ref
        self._registry = registry
        self._executor = executor

    async def inspect(self, server_name: str, tool_name: str | None = None) -> Shaped:
        """All tools of a server, or one tool whole; from the cache."""
        shaped: Shaped = await self._ref.ask(Inspect(server_name, tool_name))
        return shaped

    async def exec(
        self,
        server_name: str,
        tool_name: str,
        arguments: Any = None,
        on_progress: OnProgress | None = None,
        *,
        client: Client | None = None,
    ) -> ExecutionResult:
        """Run a tool. A failure that the tool itself reports is a result, not an exception."""
        await self._registry.upstream(server_name).await_catalogue()
        encoded = encode_arguments(arguments, server=server_name, tool=tool_name)
        raw: msgspec.Raw = await self._ref.ask(
            Exec(server_name, tool_name, encoded, Origin(client=client, on_progress=on_progress))
        )
        return self._executor.shape(server_name, tool_name, raw)

    async def raw(self, message: Exec | Read | Forward) -> msgspec.Raw:
        """The upstream's own answer, for whoever shapes it himself."""
        await self._registry.upstream(message.server_name).await_catalogue()
        raw: msgspec.Raw = await self._ref.ask(message)
        return raw

    async def read(self, server_name: str, uri: str, *, client: Client | None = None) -> Shaped:
        """Read a resource."""
        await self._registry.upstream(server_name).await_catalogue()
        raw: msgspec.Raw = await self._ref.ask(Read(server_name, uri, Origin(client=client)))
        return shape_resource(read_resource_result(raw, server=server_name), uri=uri, server=server_name)

"""A connection to an upstream server, whatever carries it: a child process, a node of a cluster, or HTTP.

`open_link` gives a `Link` to the session layer and owns the only way in which a connection is lost: whatever
finds it over (the exit of a process, a refused HTTP session, a failed health check) sets `lost` with the
reason, and that ends the body of `open_link` with `ConnectionLost`, even while no call is in flight. Those in
flight are settled while the body unwinds (`Calls.close`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import anyio
import msgspec
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.transport_context import TransportContext

from mcpx.core.config import Placed, Sse, Stdio, Transport
from mcpx.core.servers.transport.loss import ConnectionLost, Ending
from mcpx.core.servers.transport.placement import Placing
from mcpx.core.servers.transport.stdio_link import open_stdio
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.receiver import OnMalformed
from supervisors import Signal

if TYPE_CHECKING:
    from mcpx.core.servers.transport.http_network import Authorizer


class Link(Protocol):
    """One open connection. None of its methods waits or raises."""

    @property
    def dispatcher(self) -> Dispatcher[TransportContext]:
        """What the SDK's session runs on."""
        ...

    @property
    def wire(self) -> WireDispatcher | None:
        """The same, where it takes bytes."""
        ...

    @property
    def pid(self) -> int | None:
        """The child process, where there is one."""
        ...

    @property
    def mark(self) -> str:
        """What that process was started with as `MCPX_CHILD`."""
        ...

    @property
    def lost(self) -> Ending:
        """Set when the connection has ended."""
        ...

    @property
    def closing(self) -> Ending:
        """Set when the server takes nothing new, but may finish what it has."""
        ...

    @property
    def suspicion(self) -> Signal:
        """Set when there is reason to check that the session still lives."""
        ...

    @property
    def established(self) -> bool:
        """Whether `establish` was called."""
        ...

    def establish(self) -> None:
        """Note that the handshake is over."""
        ...

    def is_alive(self) -> bool:
        """Whether it makes sense to send; for a child process this asks the kernel."""
        ...

    def is_doomed(self) -> bool:
        """Whether the server is about to die, though it may still take what is sent; asks the kernel."""
        ...

    def is_stopped(self) -> bool:
        """Whether the kernel has stopped the server (SIGSTOP), where that is known: it works on nothing."""
        ...

    def first_unread(self) -> int | None:
        """The position in what was sent from which on the server has read nothing, where that is known."""
        ...

    def stderr_tail(self) -> str:
        """The last lines that the server wrote to standard error; empty without a child process."""
        ...

    def failure(self) -> ConnectionLost:
        """The loss as an exception, once `lost` is set."""
        ...

    def handshake_failure(self) -> ConnectionLost | None:
        """Why a handshake failed, where the transport knows better than the SDK's exception."""
        ...

    def renew(self) -> None:
        """Use new connections from now on, where there are several, except for calls that are in flight."""
        ...

    def give_up(self, reason: str) -> None:
        """End the connection to a server that hangs; a child process is killed."""
        ...


class Hooks(msgspec.Struct, frozen=True):
    """Callbacks of a link. None of them may wait or raise."""

    on_open: Callable[[Link], None]
    """Called once it is open, before anything is sent: a child process is running."""
    on_malformed: OnMalformed
    """Called for each line that is no message."""
    on_stderr: Callable[[bytes], None]
    """Given what a child writes to standard error, in whole lines."""
    on_events_missed: Callable[[], None]
    """Called when notifications may have been missed, of changed lists for instance."""


@asynccontextmanager
async def open_link(
    transport: Transport,
    *,
    limit: int,
    hooks: Hooks,
    redact: Callable[[str], str],
    authorizer: Authorizer | None = None,
    placing: Placing | None = None,
) -> AsyncIterator[Link]:
    """Connect, and leave nothing behind at exit. A connection that is lost ends the body.

    `limit` is the longest message in bytes. `redact` removes secrets from errors. `authorizer` puts tokens
    on requests over HTTP, `placing` says on which node a server is that is placed on one.

    Raises:
        ConnectionLost: The connection ended by itself (inside an exception group).
        OSError: The command cannot be started.
        httpx2.HTTPError: The server cannot be reached (mostly inside exception groups).
    """
    async with (
        _connected(transport, limit, hooks, redact, authorizer, placing) as link,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_raise_when_lost, link)
        hooks.on_open(link)
        yield link
        tasks.cancel_scope.cancel()


def _connected(  # noqa: PLR0917 - it is called once
    transport: Transport,
    limit: int,
    hooks: Hooks,
    redact: Callable[[str], str],
    authorizer: Authorizer | None,
    placing: Placing | None,
) -> AbstractAsyncContextManager[Link]:
    if isinstance(transport, Stdio):
        return open_stdio(
            transport,
            limit=limit,
            on_malformed=hooks.on_malformed,
            on_stderr=hooks.on_stderr,
            redact=redact,
        )
    if isinstance(transport, Placed):
        from mcpx.core.servers.transport.node_link import open_placed  # noqa: PLC0415 - for those in a cluster

        return open_placed(placing, limit=limit, on_malformed=hooks.on_malformed)
    from mcpx.core.servers.transport.http_link import open_http, open_sse  # noqa: PLC0415 - 3 MB, for who has such

    missed = hooks.on_events_missed
    if isinstance(transport, Sse):
        return open_sse(transport, limit=limit, on_events_missed=missed, redact=redact, authorizer=authorizer)
    return open_http(transport, limit=limit, on_events_missed=missed, redact=redact, authorizer=authorizer)


async def _raise_when_lost(link: Link) -> None:
    await link.lost.wait()
    raise link.failure()

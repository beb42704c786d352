"""What changes files, asked for on the page: import, install, undo, performed by the `mcpx` command itself.

A preview is a dry run. What is applied is what was previewed: the page sends back the `seen` of the preview,
and a change that would be another by now is not made. One runs at a time, and the next one waits a while.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.errors import MCPXError
from mcpx.page import commands
from mcpx.setup.clients import CLIENTS

WITHIN_S: Final = 90.0  # of a command: the daemon reloads after it, and servers may take their time to leave
DOCTOR_S: Final = 180.0  # it starts each server and each client's entry
WAIT_S: Final = 30.0  # for the one that runs
_MAX_CLIENTS: Final = len(CLIENTS)
_changing: Final[weakref.WeakKeyDictionary[Hub, anyio.Lock]] = weakref.WeakKeyDictionary()
_examining: Final[weakref.WeakKeyDictionary[Hub, anyio.Lock]] = weakref.WeakKeyDictionary()


class Change(msgspec.Struct, frozen=True):
    """A change that is asked for: previewed, or with `apply` made, if it is still what was `seen`.

    `clients` are names as in `mcpx import --help`; none are all. `adopt` is that of `mcpx install`, `force`
    that of `mcpx undo`.
    """

    apply: bool = False
    seen: str = ""
    clients: tuple[str, ...] = ()
    adopt: bool = False
    force: bool = False


class Examination(msgspec.Struct, frozen=True):
    """What `mcpx doctor` is to do; `starts` is whether it starts servers."""

    starts: bool = False


async def change(hub: Hub, command: str, wanted: Change) -> JSON:
    """What `mcpx COMMAND --json` says, and `seen`, which stands for it.

    Raises:
        MCPXError: It failed, or it would do something else by now; nothing was changed.
    """
    names, options = _names(wanted.clients), _options(command, wanted)
    async with alone(hub):
        preview = await _run(hub, command, [*options, "--dry-run"], names)
        seen = _digest(preview)
        if not wanted.apply:
            return preview | {"seen": seen}
        if seen != wanted.seen:
            raise MCPXError(
                "what this would change is not what was shown, so nothing was changed; look again"
            )
        return await _run(hub, command, [*options, "--yes"], names)


def alone(hub: Hub) -> AbstractAsyncContextManager[None]:
    """While it is entered, nothing else that the page does changes files.

    Raises:
        MCPXError: Something else that does takes too long.
    """
    return _alone(_changing.setdefault(hub, anyio.Lock()))


async def examine(hub: Hub, wanted: Examination) -> JSON:
    """What `mcpx doctor --json` says.

    Raises:
        MCPXError: It failed, or is being run already.
    """
    options = [] if wanted.starts else ["--no-start"]
    lock = _examining.setdefault(hub, anyio.Lock())
    if lock.locked():
        raise MCPXError("mcpx doctor is running already; wait for it")
    async with lock:
        return await commands.run(hub, "doctor", options=options, within_s=DOCTOR_S)


async def _run(hub: Hub, command: str, options: Sequence[str], names: Sequence[str]) -> JSON:
    return await commands.run(hub, command, options=options, names=names, within_s=WITHIN_S)


def _options(command: str, wanted: Change) -> list[str]:
    if command == "undo":
        return ["--force"] if wanted.force else []
    return ["--adopt"] if command == "install" and wanted.adopt else []


def _names(clients: Sequence[str]) -> list[str]:
    """The clients, each once.

    Raises:
        MCPXError: There is no client of a name.
    """
    known = {client.name for client in CLIENTS}
    if len(clients) > _MAX_CLIENTS or not known.issuperset(clients):
        raise MCPXError("there is no such client")
    return list(dict.fromkeys(clients))


@asynccontextmanager
async def _alone(lock: anyio.Lock) -> AsyncIterator[None]:
    """Hold the lock, once the one who does has left it.

    Raises:
        MCPXError: It takes too long.
    """
    try:
        with anyio.fail_after(WAIT_S):
            await lock.acquire()
    except TimeoutError:
        raise MCPXError("another change of files is taking its time; wait for it, and try again") from None
    try:
        yield
    finally:
        lock.release()


def _digest(report: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(report, order="sorted")).hexdigest()[:32]

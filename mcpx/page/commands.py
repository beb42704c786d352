"""Commands of MCPX that the page runs for what a terminal does: the same process, bounded.

The daemon changes no configuration itself. `run` starts `mcpx COMMAND --json` with the daemon's own
configuration, and gives its answer. The configuration is named only where the command would take another one
by itself: one that is named stands in the entries that `mcpx install` writes.

Import, install, undo and what edits servers change files. A preview is a dry run. What is applied is what was
previewed: the page sends back the `seen` of the preview, and a change that would be another by now is not
made. One runs at a time, and the next one waits a while.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.daemon.hub import Hub
from mcpx.core.running import bounded
from mcpx.core.system.environment import for_daemon
from mcpx.errors import MCPXError
from mcpx.paths import config_hint
from mcpx.setup.clients import CLIENTS

TIMEOUT_S: Final = 180.0  # a reload may wait for servers that leave, and a check for one that starts
MAX_OUTPUT_BYTES: Final = 4 << 20
WITHIN_S: Final = 90.0  # of a command: the daemon reloads after it, and servers may take their time to leave
DOCTOR_S: Final = 180.0  # it starts each server and each client's entry
WAIT_S: Final = 30.0  # for the one that runs
_MAX_CLIENTS: Final = len(CLIENTS)
_changing: Final[weakref.WeakKeyDictionary[Hub, anyio.Lock]] = weakref.WeakKeyDictionary()
_examining: Final[weakref.WeakKeyDictionary[Hub, anyio.Lock]] = weakref.WeakKeyDictionary()


async def run(
    hub: Hub,
    command: str,
    *,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    sent: str | None = None,
    within_s: float = TIMEOUT_S,
) -> JSON:
    """The JSON that a command prints. `names` are never taken for options; `sent` is its standard input.

    Raises:
        MCPXError: It failed, with its own words; or it took too long, or printed something else.
    """
    source, environ = str(hub.config.source), _environ(hub)
    config = ("--config", source) if config_hint(source, environ) else ()
    line = [sys.executable, "-P", "-m", "mcpx", command, *options, *config, "--json", "--", *names]
    output = await _output(line, environ, command, sent, within_s)
    try:
        answer = msgspec.json.decode(output)
    except msgspec.DecodeError:
        raise MCPXError(f"mcpx {command} did not say what came of it; see its words in a terminal") from None
    if not isinstance(answer, dict) or "error" in answer:
        said = answer.get("error") if isinstance(answer, dict) else None
        raise MCPXError(str(said or f"mcpx {command} failed"))
    return answer


async def _output(
    line: Sequence[str], environ: Mapping[str, str], command: str, sent: str | None, within_s: float
) -> bytes:
    stdin = subprocess.DEVNULL if sent is None else subprocess.PIPE
    try:
        process = bounded.start(line, for_daemon(environ), stdin=stdin)
    except OSError as error:
        raise MCPXError(f"cannot start {line[0]}: {error.strerror}") from None
    try:
        if sent is not None:
            await anyio.to_thread.run_sync(partial(bounded.send, process, sent.encode()))
        read = partial(bounded.read, process, timeout_s=within_s, max_bytes=MAX_OUTPUT_BYTES)
        output = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        await anyio.to_thread.run_sync(bounded.end, process)
    except BaseException as error:
        with anyio.CancelScope(shield=True):  # bounded: it is killed
            await anyio.to_thread.run_sync(partial(bounded.end, process, wait_s=0.0))
        if isinstance(error, bounded.OutOfBounds):
            raise MCPXError(f"mcpx {command} {error}") from None
        raise
    return output


def _environ(hub: Hub) -> dict[str, str]:
    """The variables of the person's terminal, which say where clients keep files; MCPX's from the daemon."""
    own = {name: value for name, value in os.environ.items() if name.startswith("MCPX_")}
    persons = hub.fleet.environment.value().variables
    return {name: each for name, each in persons.items() if not name.startswith("MCPX_")} | own


class Change(msgspec.Struct, frozen=True):
    """A change that is asked for: previewed, or with `apply` made, if it is still what was `seen`.

    `clients` are names as in `mcpx import --help`; none are all. `adopt` is that of `mcpx install`, `force`
    that of `mcpx undo`. What edits a server has its name in `server`: `add` its `entry` as JSON, which with
    `replace` takes the place of the one that is there, and `rename` the name that it is `to` have.
    """

    apply: bool = False
    seen: str = ""
    clients: tuple[str, ...] = ()
    adopt: bool = False
    force: bool = False
    server: str = ""
    entry: str | None = None
    replace: bool = False
    to: str = ""


class Examination(msgspec.Struct, frozen=True):
    """A run of `mcpx doctor` that is asked for; `starts`: it starts servers."""

    starts: bool = False


async def change(hub: Hub, command: str, wanted: Change) -> JSON:
    """Preview or make a change: what `mcpx COMMAND --json` says, and `seen`, which stands for it.

    Raises:
        MCPXError: It failed, or it would do something else by now; nothing was changed.
    """
    ran, options, names = _command(command, wanted)
    ask = partial(run, hub, ran, names=names, sent=wanted.entry)
    async with alone(hub):
        preview = await ask(options=[*options, "--dry-run"], within_s=WITHIN_S)
        seen = _digest(preview)
        if not wanted.apply:
            return preview | {"seen": seen}
        if seen != wanted.seen:
            raise MCPXError(
                "what this would change is not what was shown, so nothing was changed; look again"
            )
        return await ask(options=[*options, "--yes"])


def alone(hub: Hub) -> AbstractAsyncContextManager[None]:
    """Exclusive access to files, among all that the page does.

    Raises:
        MCPXError: Something else that does takes too long.
    """
    return _alone(_changing.setdefault(hub, anyio.Lock()))


async def run_doctor(hub: Hub, wanted: Examination) -> JSON:
    """Run `mcpx doctor --json`.

    Raises:
        MCPXError: It failed, or is being run already.
    """
    options = [] if wanted.starts else ["--no-start"]
    lock = _examining.setdefault(hub, anyio.Lock())
    if lock.locked():
        raise MCPXError("mcpx doctor is running already; wait for it")
    async with lock:
        return await run(hub, "doctor", options=options, within_s=DOCTOR_S)


def _command(command: str, wanted: Change) -> tuple[str, list[str], list[str]]:
    """The command that makes a change, its options, and its arguments.

    A server that is added is not started by the command: whoever asks sees the daemon start it.
    """
    match command:
        case "add":
            replace = ["--replace"] if wanted.replace else []
            return "add-json", ["--no-check", *replace], [wanted.server, "-"]
        case "rename":
            return command, [], [wanted.server, wanted.to]
        case "remove" | "enable" | "disable":
            return command, [], [wanted.server]
        case "undo":
            return command, ["--force"] if wanted.force else [], []
        case "install" if wanted.adopt:
            return command, ["--adopt"], _names(wanted.clients)
    return command, [], _names(wanted.clients)


def _names(clients: Sequence[str]) -> list[str]:
    """Name the clients, each once; raise MCPXError for one that there is not."""
    known = {client.name for client in CLIENTS}
    if len(clients) > _MAX_CLIENTS or not known.issuperset(clients):
        raise MCPXError("there is no such client")
    return list(dict.fromkeys(clients))


@asynccontextmanager
async def _alone(lock: anyio.Lock) -> AsyncIterator[None]:
    """Hold a lock that is acquired with a timeout; raise MCPXError when that is over."""
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

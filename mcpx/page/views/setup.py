"""The view `setup`: the configuration with its mistakes, doctor, and what changes files.

    GET /setup                    what `_read_file` gives, with `problem`: why the file as it is
                                  is not in force, if so; and `clients`: [{name, title}] that MCPX knows
    POST /setup/doctor {starts}   what `mcpx doctor --json` says
    POST /setup/import|install|undo {apply, seen, clients, adopt, force}
                                  what that command says with `--json`; `mcpx.page.commands`
    GET /setup/entry?server=NAME  {entry}: how it stands in the file, with `***` for what may be a secret
    POST /setup/add|rename|remove|enable|disable {apply, seen, server, entry, replace, to}
                                  likewise; of one that was made also `{state, described}` of the server
                                  then, or `{gone: true}`
    POST /setup/secret {server, name, value}
                                  keeps a value for `${keychain:NAME}`, as `mcpx secret set` does, and has the
                                  server tried again: `{state, described}` of it then

The topic `setup` yields `{problem, version}` whenever another configuration is in force, or the file cannot
be used any more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import State
from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.config.findings import examine, safe_text
from mcpx.core.config.load import read_file
from mcpx.core.text.jsonc import JSONCError
from mcpx.errors import ConfigError, MCPXError
from mcpx.page.answers import body, get, post
from mcpx.page.cards import OpenPage
from mcpx.page.commands import Change, Examination, change, run, run_doctor
from mcpx.page.events import Topic
from mcpx.page.views.server import seen
from mcpx.setup.changes import history, undone
from mcpx.setup.clients import CLIENTS
from mcpx.setup.clients.masking import masked_entry, masked_json
from mcpx.setup.documents import DocumentError
from mcpx.setup.documents.configuration import entry_at, places_of
from mcpx.setup.documents.editing import read as document_of

MAX_TEXT_CHARS: Final = 200_000
MAX_FILE_BYTES: Final = 4 << 20  # of a file whose text is shown
MAX_FINDINGS: Final = 200
MAX_CHANGES: Final = 20
LOOK_S: Final = 1.0  # between two looks, while somebody follows
READ_TIMEOUT_S: Final = 30.0  # a secret may come from a program that asks the person
CHANGES: Final = ("import", "install", "undo")
EDITS: Final = ("add", "rename", "remove", "enable", "disable")
START_S: Final = 20.0  # that the answer to an edit waits for the server's start


def read(path: str, in_force: Iterable[ServerConfig]) -> JSON:
    """`{path, text, left_out, usable, servers, findings, more_findings, changes}`.

    `text` is null where the file cannot be read. `findings` are as `mcpx check` has them. `in_force` are
    servers whose secrets are known. `changes` are those of `mcpx undo --list`, the latest first.
    """
    found = examine(path)
    text = _text(path, [*in_force, *(found.config.servers.values() if found.config is not None else ())])
    return {
        "path": path,
        "text": None if text is None else text[:MAX_TEXT_CHARS],
        "left_out": 0 if text is None else max(0, len(text) - MAX_TEXT_CHARS),
        "usable": found.config is not None,
        "servers": 0 if found.config is None else len(found.config.servers),
        "findings": [msgspec.to_builtins(each) for each in found.findings[:MAX_FINDINGS]],
        "more_findings": max(0, len(found.findings) - MAX_FINDINGS),
        "changes": _changes(),
    }


def _text(path: str, servers: Iterable[ServerConfig]) -> str | None:
    """The text of the file, with `***` for what may be a secret; None where it cannot be read."""
    try:
        data = read_file(Path(path))
    except ConfigError:
        return None
    if len(data) > MAX_FILE_BYTES:
        return None
    try:
        shown = masked_json(data)
    except (JSONCError, RecursionError):  # then no key is known to be harmless, but by its line
        shown = safe_text(data.decode(errors="replace"))
    return redactor_of(*servers)(shown)


def _changes() -> list[JSON]:
    """List what can be taken back, and what was."""
    changes = history()
    gone = undone(changes)
    return [
        {
            "id": change.id,
            "command": change.command,
            "at": change.at,
            "state": "undone" if change.id in gone else str(change.state),
            "files": [file.path for file in change.files],
        }
        for change in reversed(changes[-MAX_CHANGES:])
    ]


def routes(page: OpenPage) -> list[Route]:
    """Its requests."""
    return [
        get("/setup", _read, page),
        post("/setup/doctor", _examine, page),
        get("/setup/entry", _entry, page),
        post("/setup/secret", _keep_secret, page),
        *(post(f"/setup/{command}", partial(_change, command), page) for command in CHANGES),
        *(post(f"/setup/{command}", partial(_edit, command), page) for command in EDITS),
    ]


async def _read(page: OpenPage, _request: Request) -> JSON:
    hub = page.hub
    with anyio.move_on_after(READ_TIMEOUT_S):
        look = partial(read, hub.config.source, list(hub.config.servers.values()))
        found = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        known = [{"name": client.name, "title": client.title} for client in CLIENTS]
        return found | {"problem": hub.file.problem, "clients": known}
    raise MCPXError(f"the configuration was not read within {READ_TIMEOUT_S:g} s; mcpx check says more")


async def _examine(page: OpenPage, request: Request) -> JSON:
    return await run_doctor(page.hub, await body(request, Examination))


async def _change(command: str, page: OpenPage, request: Request) -> JSON:
    return await change(page.hub, command, await body(request, Change))


async def _entry(page: OpenPage, request: Request) -> JSON:
    name = request.query_params.get("server", "")
    return await anyio.to_thread.run_sync(entry_of, page.hub.config.source, name, abandon_on_cancel=True)


def entry_of(path: str, name: str) -> JSON:
    """`{entry}` of a server in a configuration, masked.

    Raises:
        MCPXError: The file cannot be read or understood, or has no such server.
    """
    try:
        document = document_of(read_file(Path(path)), "json")
    except DocumentError as error:
        raise MCPXError(f"{path}:{error.line}:{error.column}: {error.problem}") from None
    found = [entry_at(document, at) for each, at in places_of(document) if each == name]
    if not found:
        raise MCPXError(f"{path} has no server {name}: it comes from elsewhere")
    return {"entry": masked_entry(found[-1])}


async def _edit(command: str, page: OpenPage, request: Request) -> JSON:
    """Preview an edit of a server, or make it, and look what the daemon has made of it."""
    hub, wanted = page.hub, await body(request, Change)
    done = await change(hub, command, wanted)
    if not wanted.apply:
        return done
    if done.get("daemon") is None:  # the command found no daemon: this MCPX serves without a socket
        await hub.file.reload()
    upstream = hub.upstreams.get(wanted.to or wanted.server)
    if upstream is None:
        return done | {"gone": True}
    if upstream.info().state is State.STARTING:
        with anyio.move_on_after(START_S):
            await hub.fleet.await_start(upstream)
    return done | seen(upstream.info())


class Secret(msgspec.Struct, frozen=True):
    """A value for the keychain, and the server that waits for it."""

    server: str
    name: str
    value: str


async def _keep_secret(page: OpenPage, request: Request) -> JSON:
    wanted = await body(request, Secret)
    page.hub.upstream(wanted.server)  # else an error, with the nearest
    await run(page.hub, "secret", options=["set"], names=[wanted.name], sent=wanted.value)
    return seen(await page.hub.restart(wanted.server))


async def _follow(page: OpenPage, _argument: str) -> AsyncGenerator[Any, None]:
    version, before = 0, None
    while True:
        now = page.hub.config, page.hub.file.problem
        if before is None or now[0] is not before[0] or now[1] != before[1]:
            before, version = now, version + 1
            yield {"problem": now[1], "version": version}
        await anyio.sleep(LOOK_S)


TOPICS: Final[Mapping[str, Topic]] = {"setup": _follow}

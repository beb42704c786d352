"""The view `setup`: the configuration with its mistakes, doctor, and what changes the files of clients.

    GET /setup                    `mcpx.page.setup.configuration.read`, with `problem`: why the file as it is
                                  is not in force, if so; and `clients`: [{name, title}] that MCPX knows
    POST /setup/doctor {starts}   what `mcpx doctor --json` says
    POST /setup/import|install|undo {apply, seen, clients, adopt, force}
                                  what that command says with `--json`; `mcpx.page.setup.changing`

The topic `setup` yields `{problem, version}` whenever another configuration is in force, or the file cannot
be used any more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.routing import Route

from mcpx.core.catalog.model import JSON
from mcpx.errors import MCPXError
from mcpx.page.answers import body, get, post
from mcpx.page.events import Topic
from mcpx.page.setup.changing import Change, Examination, change, examine
from mcpx.page.setup.configuration import read
from mcpx.setup.clients import CLIENTS

if TYPE_CHECKING:
    from mcpx.page.page import Page

LOOK_S: Final = 1.0  # between two looks, while somebody follows
READ_TIMEOUT_S: Final = 30.0  # a secret may come from a program that asks the person
CHANGES: Final = ("import", "install", "undo")


def routes(page: Page) -> list[Route]:
    """Its requests."""
    return [
        get("/setup", _read, page),
        post("/setup/doctor", _examine, page),
        *(post(f"/setup/{command}", partial(_change, command), page) for command in CHANGES),
    ]


async def _read(page: Page, _request: Request) -> JSON:
    hub = page.hub
    with anyio.move_on_after(READ_TIMEOUT_S):
        look = partial(read, hub.config.source, list(hub.config.servers.values()))
        found = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        known = [{"name": client.name, "title": client.title} for client in CLIENTS]
        return found | {"problem": hub.file.problem, "clients": known}
    raise MCPXError(f"the configuration was not read within {READ_TIMEOUT_S:g} s; mcpx check says more")


async def _examine(page: Page, request: Request) -> JSON:
    return await examine(page.hub, await body(request, Examination))


async def _change(command: str, page: Page, request: Request) -> JSON:
    return await change(page.hub, command, await body(request, Change))


async def _follow(page: Page, _argument: str) -> AsyncGenerator[Any, None]:
    version, before = 0, None
    while True:
        now = page.hub.config, page.hub.file.problem
        if before is None or now[0] is not before[0] or now[1] != before[1]:
            before, version = now, version + 1
            yield {"problem": now[1], "version": version}
        await anyio.sleep(LOOK_S)


TOPICS: Final[Mapping[str, Topic]] = {"setup": _follow}

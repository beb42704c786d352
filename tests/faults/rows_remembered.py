"""The faults of what is remembered of servers, and of servers that are not as they were last time."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest import mock

from mcpx.core.servers.offers.catalogue_store import CatalogueStore
from mcpx.errors import Code
from tests.faults.stage import Seen, Stage, stage
from tests.faults.table import Faults
from tests.mcpx.scripted import open_watched, soon

faults = Faults()
EAGER = {"start": "eager"}


async def is_kept(on: Stage, tool: str) -> None:
    """The next MCPX will know of that tool, a moment later."""
    await soon(lambda: tool in kept(on))


def kept(on: Stage) -> set[str]:
    """The tools that the next MCPX will know of the server."""
    found = CatalogueStore(on.state).load(on.config.servers["s"])
    return set() if found is None else set(found.catalogue.tools)


def cut_short(folder: Path) -> None:
    for path in folder.glob("*.json"):
        os.truncate(path, path.stat().st_size // 2)


@faults.row("what is remembered of it is cut short")
async def file_cut_short(seen: Seen) -> None:
    async with stage(seen, last_time=cut_short, **EAGER) as on:
        seen.check(not on.known_at_first, "half a catalogue is shown")
        await on.answered("echo")
        await on.untouched()
        await is_kept(on, "echo")


@faults.row("the disk is full when its catalogue is kept")
async def disk_full(seen: Seen) -> None:
    full = mock.patch.object(os, "fsync", side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with full as attempt:
        async with stage(seen, **EAGER) as on:
            await soon(lambda: attempt.called)
            on.now()
            await on.answered("echo")
            seen.check(not kept(on), "what could not be written is remembered")
            attempt.side_effect = None  # there is room again
            on.watch.hub.fleet.catalogues.touch("whatever comes next")
            await is_kept(on, "echo")
            await on.untouched()


@faults.row("two MCPX start the same servers, with one memory of them")
async def two_at_once(seen: Seen) -> None:
    async with stage(seen, last_time=lambda _folder: None, **EAGER) as on:
        seen.check("echo" in on.known_at_first, "it is not remembered")
        async with open_watched(on.config, state=on.state) as other:
            await on.answered("echo")
            seen.check(await other.text("echo"), "the other one does not answer")
        await on.untouched()
        seen.check("echo" in kept(on), "it is not remembered any more")


@faults.row("offers other tools than last time")
async def other_tools(seen: Seen) -> None:
    async with stage(seen, "new_tools", last_time=lambda _folder: None, **EAGER) as on:
        seen.check("tool_1" in on.known_at_first, "what it offered last time is not listed at once")
        await on.answered("tool_2", contains="tool_2 by incarnation 2")
        await on.caught(Code.UNKNOWN_TOOL, "tool_1", tool="tool_1")
        seen.check(on.notices == 1, f"{on.notices} notices")
        seen.check("tool_1" not in on.tools(), "what it offered last time is still listed")
        await on.untouched()
        await is_kept(on, "tool_2")

"""The scenes about what happens while MCPX runs: a list that changes, and a server that is killed."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from mcpx.demo.tour.scene import DemoFailed, Excerpt, Scene
from mcpx.demo.tour.stage import Record, Stage
from mcpx.rendering.descriptions import describe_tools

NEW_TOOL: Final = "greet_the_reader"
ORDER: Final = 1003


async def change(stage: Stage) -> Scene:
    """A server adds a tool to itself; the catalogue follows, and the tool can be run."""
    router, registry = stage.hub.calls, stage.hub.registry
    started = time.monotonic()
    await router.exec("changing", "add_tool", {"name": NEW_TOOL})
    await stage.until(lambda: registry.get_tool("changing", NEW_TOOL) is not None)
    seen_ms = round(1000 * (time.monotonic() - started))
    answer = (await router.exec("changing", NEW_TOOL)).compressed_data
    if NEW_TOOL not in answer:
        raise DemoFailed(f"the new tool answered {answer!r}")
    known = [info for info in registry.list_servers() if info.name == "changing"]
    return Scene(
        name="change",
        title="A list that changes while it runs",
        said=(
            f"exec(changing, add_tool, ...) makes that server announce a new tool. It stood in the catalogue"
            f" {seen_ms} ms later (announcements are gathered for 200 ms), without a restart of anything. A"
            " connected client would be told that the list has changed."
        ),
        excerpts=(
            Excerpt("The server in the catalogue now:", describe_tools(known, budget=1000)),
            Excerpt(f"exec(changing, {NEW_TOOL}):", answer),
        ),
        facts={"seen_ms": seen_ms, "answer": answer},
    )


async def recover(stage: Stage) -> Scene:
    """A server is killed; the call made right after it succeeds."""
    upstream = stage.hub.upstreams["tools"]
    old = upstream.pid
    if old is None:
        raise DemoFailed("the server tools has no process to kill")
    killed = time.monotonic()
    os.kill(old, signal.SIGKILL)
    result = await stage.hub.calls.exec("tools", "get_order", {"id": ORDER})
    answered = time.monotonic()
    if result.is_error or upstream.pid in {None, old}:
        raise DemoFailed(f"the call after the kill was answered {result.compressed_data!r}")
    died, ready = _one(stage, "upstream.failed", killed), _one(stage, "upstream.ready", killed)
    noticed_ms = round(1000 * (died.at - killed))
    answered_ms = round(1000 * (answered - killed))
    starting_ms = round(1000 * (ready.at - died.at))
    return Scene(
        name="recovery",
        title="A server is killed, and the next call succeeds",
        said=(
            f"SIGKILL to process {old} (tools), and at once exec(tools, get_order). The death was noticed"
            f" after {noticed_ms} ms, the new process needed {starting_ms} ms to start, shake hands and list"
            f" its tools, and the call, which had waited for it, was answered {answered_ms} ms after the"
            " kill."
        ),
        excerpts=(
            Excerpt("The log:", f"{died}\n{ready}"),
            Excerpt(f"exec(tools, get_order, id={ORDER}):", result.compressed_data),
        ),
        facts={
            "killed": old,
            "new": upstream.pid,
            "noticed_ms": noticed_ms,
            "answered_ms": answered_ms,
            "log": [str(died), str(ready)],
            "order": result.shaped.structured_content,
        },
    )


def _one(stage: Stage, event: str, since: float) -> Record:
    found = stage.journal.of(event, server="tools", since=since)
    if not found:
        raise DemoFailed(f"the log has no {event} of the server that was killed")
    return found[0]

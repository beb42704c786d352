"""Prints what `mcpx top` shows of the daemon of $MCPX_CONFIG as an SVG. Started by `screenshot.py`.

Everything shown is real: the app itself, textual's own export, and a client that works on the servers
meanwhile. The clock and the uptimes are those of the moment.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from itertools import cycle
from typing import Final

from mcpx.core.store.paths import daemon_paths
from mcpx.top.app import Top
from mcpx.top.polling import Polling
from scripts.lab.contextbench.client import Client

SIZE: Final = (100, 20)
SAMPLES: Final = 24  # seconds of the curves
CALLS: Final = (  # again and again
    *([("shop", "list_orders", {})] * 6),
    ("leaflets", "search_documents", {"query": "收缩压"}),
    *([("shop", "get_order", {"id": 1003})] * 9),
    *([("shop", "list_orders", {})] * 3),
    *([("leaflets", "search_documents", {"query": "diabetes"})] * 2),
)
PAUSE_S: Final = 0.11
WORK: Final = "work"
"""The argument of the process that is the client."""


def work() -> None:
    """Call tools as a client does, until this process is ended."""
    attach = [sys.executable, "-P", "-m", "mcpx", "attach"]
    with Client("client", attach, dict(os.environ)) as client:
        client.initialize()
        client.list_tools()
        for server, tool, arguments in cycle(CALLS):
            client.call("exec", {"server": server, "tool": tool, "arguments": arguments})
            time.sleep(PAUSE_S)


def record() -> str:
    """The SVG, once the curves are long enough."""
    with subprocess.Popen([sys.executable, "-m", __spec__.name, WORK]) as client:
        try:
            return asyncio.run(picture())
        finally:
            client.terminate()


async def picture() -> str:
    """The SVG of the app after so many answers."""
    polling = Polling(daemon_paths(None))
    app = Top(polling, polling.ask())
    async with app.run_test(size=SIZE) as pilot:
        while len(app.overview.calls) < SAMPLES:
            await pilot.pause(0.2)
        await pilot.press("down", "down", "down")
        await pilot.pause()
        return app.export_screenshot(title="mcpx top")


if __name__ == "__main__":
    if sys.argv[1:] == [WORK]:
        work()
        sys.exit()
    svg = record()
    svg = re.sub(r"terminal-\d+", "top", svg)  # an id that is the same each time
    print(re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL))

"""The clients in the pictures of the page: each calls tools, in its own rhythm, until its process is ended.

Started by `screenshot_page.py` as `python -m scripts.lab.documentation.screenshot_clients NAME` with the
environment of the daemon. What they call, and when, comes from fixed lists and a seeded generator.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from scripts.lab.contextbench.client import HELLO, Client

WAVE_S: Final = 75.0  # how long it takes until a client is as busy again
Call = tuple[str, str, dict[str, Any]]


@dataclass(frozen=True)
class Rhythm:
    """What a client does: its calls again and again, with pauses from `least_s` up to `most_s`."""

    version: str
    calls: tuple[Call, ...]
    least_s: float
    most_s: float


def _search(query: str) -> Call:
    return "handbook", "search_documents", {"query": query}


def _order(number: int) -> Call:
    return "shop", "get_order", {"id": number}


CLIENTS: Final = {
    "code-editor": Rhythm(
        "1.98.2",
        (
            ("shop", "list_orders", {}),
            *map(_order, (1001, 1003, 1008)),
            ("shop", "list_orders", {"status": "open"}),
            ("lab", "convert_units", {"value": 42.195, "source": "km", "target": "mi"}),
            _order(1011),
            ("shop", "list_orders", {"limit": 5}),
        ),
        0.08,
        1.4,
    ),
    "desktop-chat": Rhythm(
        "2.4.0",
        (
            *map(_search, ("restart", "token", "timeout")),
            ("notes", "add_document", {"name": "summary", "text": "Four orders are open."}),
            *map(_search, ("server", "bearer", "memory", "profile")),
            ("shop", "draw_chart", {}),
        ),
        0.3,
        2.2,
    ),
    "coding-agent": Rhythm(
        "0.9.1",
        (
            ("lab", "slow", {"seconds": 0.3}),
            _order(1006),
            ("lab", "slow", {"seconds": 1.1}),
            ("shop", "list_orders", {"status": "shipped"}),
            ("lab", "convert_units", {"value": 20, "source": "C", "target": "F"}),
            _search("orders"),
            ("lab", "slow", {"seconds": 2.4}),
            _order(4711),  # there is none
            ("lab", "slow", {"seconds": 0.6}),
            ("shop", "list_orders", {}),
            ("lab", "slow", {"seconds": 0.2}),
            _search("audit"),
            ("lab", "slow", {"seconds": 3.2}),
            _order(1009),
        ),
        0.2,
        1.5,
    ),
}


def work(name: str) -> None:
    """Be that client."""
    rhythm = CLIENTS[name]
    dice = random.Random(name)
    attach = [sys.executable, "-P", "-m", "mcpx", "attach"]
    with Client(name, attach, dict(os.environ)) as client:
        client.initialize({**HELLO, "clientInfo": {"name": name, "version": rhythm.version}})
        client.list_tools()
        begun = time.monotonic() - dice.uniform(0, WAVE_S)
        for server, tool, arguments in cycle(rhythm.calls):
            client.call("exec", {"server_name": server, "tool_name": tool, "arguments": arguments})
            idle = (1 + math.sin((time.monotonic() - begun) / WAVE_S * math.tau)) / 2
            time.sleep(rhythm.least_s + idle * dice.random() * (rhythm.most_s - rhythm.least_s))


if __name__ == "__main__":
    work(sys.argv[1])

"""The cost of a warm call in Python calls: a count, which a busy machine does not change.

What the event loop does itself is not in it, nor what is done once for many calls.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from mcpx.core.config import parse
from mcpx.core.events import meter
from mcpx.core.events.audit import audit
from mcpx.core.servers import calls
from mcpx.core.wire.lines import Turns
from mcpx.parts import open_hub
from tests.mcpx.core.gateway.fast.test_path import served, shake_hands

ONE = 80  # of a call by itself
OF_MANY = 58  # of one among `WINDOW`, the turn's own share included
WINDOW = 32
NEVER_S = 3600.0
CHILD = Path(__file__).parents[5] / "scripts" / "lab" / "benchmarks" / "child.py"
CALL = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {"text": "x"}}}


@pytest.fixture
def turns(monkeypatch):
    """The Python calls of each turn in which MCPX takes what a client or a server has sent."""
    for module, name in ((audit, "LINES_EVERY_S"), (meter, "WINDOW_S"), (calls, "IDLE_AFTER_S")):
        monkeypatch.setattr(module, name, NEVER_S)  # so nothing is done after a time
    feed, counts = Turns.feed, []

    def counted(self, chunk):
        count = 0

        def note(_frame, event, _argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            feed(self, chunk)
        finally:
            sys.setprofile(None)
        counts.append(count)

    monkeypatch.setattr(Turns, "feed", counted)
    return counts


@pytest.mark.anyio
async def test_a_warm_call_takes_no_more_python_calls_than_it_did(turns):
    config = parse(
        json.dumps({"mcpServers": {"s": {"command": sys.executable, "args": [str(CHILD)]}}}), where="test"
    )
    with anyio.fail_after(50):
        async with open_hub(config) as hub, served(hub, fast=True) as client:
            assert await hub.settled(50)
            await shake_hands(client, "somebody")
            costs = []
            for _ in range(2 * WINDOW):
                turns.clear()
                answer = await client.ask("tools/call", CALL)
                assert answer["result"]["content"] == [{"type": "text", "text": "x"}]
                costs.append(sum(turns))
            assert min(costs) <= ONE
            shares = []
            for _ in range(16):  # until places in the audit log are used again
                turns.clear()
                for number in range(1, WINDOW):
                    line = {"jsonrpc": "2.0", "id": -number, "method": "tools/call", "params": CALL}
                    client.channel.write(json.dumps(line).encode() + b"\n")
                await client.ask("tools/call", CALL)
                assert len(client.answers) == WINDOW - 1
                client.answers.clear()
                shares.append(sum(turns) / WINDOW)
            assert min(shares) <= OF_MANY

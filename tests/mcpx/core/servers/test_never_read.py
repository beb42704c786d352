"""A request that the dead server never read was not sent: it is sent again, whatever its tool says."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from mcpx.core.config import parse
from mcpx.parts import open_hub

# counts its calls into a file; can be stopped with SIGSTOP, so that what is sent stays unread
COUNTING = """
import json, sys
path = sys.argv[1]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "counting", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        with open(path, "a") as file:
            file.write("x")
        result = {"content": [{"type": "text", "text": "counted"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                          "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def is_stopped(pid):
    """Whether the kernel has carried a SIGSTOP out."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.anyio
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what a pipe still holds")
async def test_what_a_frozen_server_has_not_read_is_sent_to_the_next_one(tmp_path):
    counted = tmp_path / "counted"
    server = {"command": sys.executable, "args": ["-c", COUNTING, str(counted)]}
    with anyio.fail_after(30):
        async with open_hub(parse(json.dumps({"mcpServers": {"c": server}}), where="test")) as hub:
            assert await hub.settled(20)
            await hub.calls.exec("c", "count", {})
            upstream = hub.upstreams["c"]
            frozen = upstream.pid
            os.kill(frozen, signal.SIGSTOP)
            while not is_stopped(frozen):
                await anyio.lowlevel.checkpoint()
            answered = []

            async def call():
                answered.append(await hub.calls.exec("c", "count", {}))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(call)
                while upstream.counters.in_flight < 5:
                    await anyio.lowlevel.checkpoint()
                os.kill(frozen, signal.SIGKILL)
            assert len(answered) == 5
            assert not any(result.is_error for result in answered)
            assert upstream.pid != frozen
            assert counted.read_text() == "x" * 6

"""Seventy servers with 527 tools: how long until all are ready, and what `inspect` costs with so many.

The yardstick is the same children without a gateway: all started at once, each asked to shake hands and
list. MCPX is timed from the start of its process, and also from the start of its first child (its log says
when), because importing the SDK is a cost of its own. While they start, a tool of the last one in the
configuration is called. mcp-compressor is ready when it lists its tools. Children are trivial, which is hard
on a gateway: a real server takes longer to start than MCPX takes to notice.
"""

from __future__ import annotations

import json
import os
import selectors
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import msgspec
from client import SHAKE, Client, opened, shaken
from process import Process, Unmeasured, deadline
from targets import CHILD, Target, compressor, mcpx

FEW = 5  # tools of the small catalogue: those of one server of the large one
READY_S = 60.0
POLL_S = 0.05
LOOKS = 2000


def children(catalogue: Path, work: Path) -> dict[str, list[str]]:
    """The command of a child for each server of the corpus; one with just five tools comes first."""
    listed: dict[str, list[dict]] = defaultdict(list)
    for row in json.loads(catalogue.read_text())["tools"]:
        about = {"name": row["tool"], "description": row["description"], "inputSchema": row["inputSchema"]}
        listed[row["server"]].append(about)
    folder = work / "listings"
    folder.mkdir()
    commands: dict[str, list[str]] = {}
    for number, (server, tools) in enumerate(sorted(listed.items(), key=lambda item: len(item[1]) != FEW)):
        path = folder / f"{number}.json"
        path.write_text(json.dumps({"tools": tools}))
        commands[server] = [*CHILD, "--tools", str(path)]
    return commands


def measure_start(servers: dict[str, list[str]], work: Path, *, rounds: int) -> dict[str, list[float]]:
    """Seconds, a value a round, until all are ready: `children` alone, `mcpx`, `compressor` if it is there.

    Of MCPX also `mcpx_own`, counted from its first child on, and `mcpx_call`, until a call was answered.
    """
    figures: dict[str, list[float]] = defaultdict(list)
    peer = compressor(work / "compressor", servers)
    for number in range(rounds):
        figures["children"].append(_bare(servers))
        target = mcpx(work / f"start-{number}", servers)  # a state folder that knows no catalogue
        for name, value in _through_mcpx(target, servers).items():
            figures[name].append(value)
        if peer.installed:
            figures["compressor"].append(_until_listed(peer))
    return dict(figures)


def _bare(servers: dict[str, list[str]]) -> float:
    """Start all, ask all, and wait for all answers."""
    ask = [("initialize", SHAKE), ("notifications/initialized", None), ("tools/list", {})]
    lines = b"".join(
        msgspec.json.encode(
            {"jsonrpc": "2.0", "method": method, "params": params or {}, **_id(params, number)}
        )
        + b"\n"
        for number, (method, params) in enumerate(ask)
    )
    with ExitStack() as stack, deadline(READY_S, "the children alone"):
        start = time.perf_counter()
        waiting = selectors.DefaultSelector()
        stack.callback(waiting.close)
        for name, command in servers.items():
            process = Process(name, command)
            stack.callback(process.close)
            os.write(process.stdin, lines)
            waiting.register(process.stdout, selectors.EVENT_READ, [0])
        while waiting.get_map():
            for key, _ in waiting.select():
                data = os.read(key.fd, 1 << 16)
                key.data[0] += data.count(b"\n")
                if not data:
                    raise Unmeasured("a child has left")
                if key.data[0] == 2:  # noqa: PLR2004 - it has answered both
                    waiting.unregister(key.fd)
        return time.perf_counter() - start


def _id(params: dict | None, number: int) -> dict[str, int]:
    return {} if params is None else {"id": number}


def _through_mcpx(target: Target, servers: dict[str, list[str]]) -> dict[str, float]:
    server, tool = _callable_one(servers)
    call = {"server_name": server, "tool_name": tool, "arguments": {}}
    start = time.time()
    with shaken(target) as client, deadline(READY_S, "mcpx with all servers"):
        client.request("tools/call", {"name": "exec", "arguments": call})
        answered = time.time()
        while client.process.log().count('"upstream.ready"') < len(servers):
            time.sleep(POLL_S)
        ready, first = max(_times(client, "upstream.ready")), min(_times(client, "upstream.starting"))
        return {"mcpx": ready - start, "mcpx_own": ready - first, "mcpx_call": answered - start}


def _callable_one(servers: dict[str, list[str]]) -> tuple[str, str]:
    """The last server that has a tool without required arguments, and that tool."""
    for server, command in reversed(servers.items()):
        for tool in json.loads(Path(command[-1]).read_text())["tools"]:
            if not tool["inputSchema"].get("required"):
                return server, tool["name"]
    raise Unmeasured("no tool can be called without arguments")


def _until_listed(target: Target) -> float:
    start = time.time()
    with opened(target):
        return time.time() - start


def _times(client: Client, event: str) -> Iterable[float]:
    """When MCPX logged this event, in seconds since the epoch."""
    for line in client.process.log().splitlines():
        if f'"{event}"' in line and line.endswith("}"):
            stamp = json.loads(line)["timestamp"]
            yield datetime.fromisoformat(stamp).timestamp()


def measure_inspect(servers: dict[str, list[str]], work: Path, *, rounds: int) -> dict[str, list[float]]:
    """Median milliseconds of one tool's inspect, a value a round: with five tools (`few`), and with `all`."""
    server, command = next(iter(servers.items()))
    tool = json.loads(Path(command[-1]).read_text())["tools"][0]["name"]
    params = {"name": "inspect", "arguments": {"server_name": server, "tool_name": tool}}
    pair = {"few": mcpx(work / "few", {server: command}), "all": mcpx(work / "many", servers)}
    for target in pair.values():
        target.call = lambda _tool, _given: params
    figures: dict[str, list[float]] = {name: [] for name in pair}
    with opened(*pair.values()) as clients:
        for number in range(rounds + 1):
            for name, client in zip(pair, clients, strict=True):
                with client.bounded(30, "inspect"):
                    took = client.one_by_one(client.lines(LOOKS, tool, {}), None, 1.0)
                if number:
                    figures[name].append(statistics.median(took) * 1000)
    return figures

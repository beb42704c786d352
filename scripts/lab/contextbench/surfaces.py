"""What a model is shown: all tools connected directly, MCPX at two budgets, and mcp-compressor at its levels.

Every gateway is a real process before 70 real servers (`replay.py`). A surface gives its menu, and answers a
search, a look-up of one tool and a call with the text that the model would read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from scripts.lab.benchmarks.process import Process, Unmeasured
from scripts.lab.benchmarks.targets import PEERS, PYTHON
from scripts.lab.contextbench.client import Client, Exchange, text_of
from scripts.lab.contextbench.recorded import JSON, Call, Recorded

REPLAY = Path(__file__).with_name("replay.py")
DIRECT = "direct"
LEVELS = ("low", "medium", "high", "max")
READY_S = 120.0  # for 70 servers to be ready, on a busy machine
POLL_S = 0.05
SMALL_MENU_TOKENS = 600


class Surface(Protocol):
    """One way to connect the servers. `instructions` and `tools` are the menu."""

    instructions: str
    tools: list[JSON]

    def search(self, query: str) -> Exchange | None:
        """The answer to a search; None where there is no search."""

    def look_up(self, server: str, tool: str) -> Exchange | None:
        """The parameters of one tool; None where the menu has them."""

    def call(self, call: Call, result: JSON) -> Exchange:
        """The call, which the server answers with this result."""


class Servers:
    """The recorded servers as commands, and the file with the result that any of them gives next."""

    def __init__(self, recorded: Recorded, folder: Path) -> None:
        self.names = list(recorded.servers)
        self._answer = folder / "answer.json"
        self.config = folder / "servers.json"
        entries: dict[str, JSON] = {}
        for number, (server, tools) in enumerate(recorded.servers.items()):
            listing = folder / f"{number}.json"
            listing.write_text(json.dumps({"tools": tools}), "utf-8")
            command = ["-I", "-S", str(REPLAY), str(listing), str(self._answer)]
            entries[server] = {"command": PYTHON, "args": command}
        self.config.write_text(json.dumps({"mcpServers": entries}), "utf-8")

    def configured(self, path: Path, **settings: Any) -> Path:
        """The same configuration with these settings, written to `path`."""
        path.write_text(json.dumps(settings | json.loads(self.config.read_text("utf-8"))), "utf-8")
        return path

    def prepare(self, result: JSON) -> None:
        """Give this result to the next call."""
        self._answer.write_text(json.dumps(result), "utf-8")


class Direct:
    """All servers connected directly: every definition in the menu, every result as it came."""

    instructions = ""

    def __init__(self, recorded: Recorded) -> None:
        self.tools = [tool for tools in recorded.servers.values() for tool in tools]

    def search(self, _query: str) -> None:
        return None

    def look_up(self, _server: str, _tool: str) -> None:
        return None

    def call(self, call: Call, result: JSON) -> Exchange:
        return Exchange({"name": call.tool, "arguments": call.arguments}, text_of(result))


class Mcpx:
    """MCPX. A tool is looked up unless its typed signature has been shown."""

    def __init__(self, client: Client, servers: Servers) -> None:
        self._client = client
        self._servers = servers
        self.instructions = client.initialize()
        self.tools = client.list_tools()

    def search(self, query: str) -> Exchange | None:
        inspect = next(tool for tool in self.tools if tool["name"] == "inspect")
        if "query" not in inspect["inputSchema"]["properties"]:
            return None
        return self._client.call("inspect", {"query": query})

    def look_up(self, server: str, tool: str) -> Exchange:
        return self._client.call("inspect", {"server_name": server, "tool_name": tool})

    def call(self, call: Call, result: JSON) -> Exchange:
        self._servers.prepare(result)
        given = {"server_name": call.server, "tool_name": call.tool, "arguments": call.arguments}
        return self._client.call("exec", given)


class Compressor:
    """mcp-compressor: a schema is fetched before a tool's first use. The menu names every tool."""

    def __init__(self, client: Client, servers: Servers) -> None:
        self._client = client
        self._servers = servers
        self.instructions = client.initialize()
        self.tools = client.list_tools()
        there = {tool["name"] for tool in self.tools}
        if missing := [name for name in servers.names if f"{name}_invoke_tool" not in there]:
            raise Unmeasured(f"{client.name} does not offer {', '.join(missing)}")

    def search(self, _query: str) -> None:
        return None

    def look_up(self, server: str, tool: str) -> Exchange:
        return self._client.call(f"{server}_get_tool_schema", {"tool_name": tool})

    def call(self, call: Call, result: JSON) -> Exchange:
        self._servers.prepare(result)
        given = {"tool_name": call.tool, "tool_input": call.arguments}
        return self._client.call(f"{call.server}_invoke_tool", given)


LISTING, SEARCH = "MCPX, every name listed", "MCPX, search and a small menu"
COMPRESSORS = {f"mcp-compressor, {level}": level for level in LEVELS}
SURFACES = (DIRECT, SEARCH, LISTING, *COMPRESSORS)


@contextmanager
def opened(name: str, recorded: Recorded, folder: Path) -> Iterator[Surface]:
    """The surface of that name with its processes, which end with the block.

    Raises:
        Unmeasured: It is not installed, or does not work.
    """
    folder.mkdir()
    if name == DIRECT:
        yield Direct(recorded)
    elif name in COMPRESSORS:
        program = PEERS / "mcp-compressor"
        if not program.exists():
            raise Unmeasured("not installed, run scripts/context")
        servers = Servers(recorded, folder)
        with Client(name, [str(program), "-c", COMPRESSORS[name], "--config", str(servers.config)]) as client:
            yield Compressor(client, servers)
    else:
        servers = Servers(recorded, folder)
        settings = {"catalog_token_budget": SMALL_MENU_TOKENS} if name == SEARCH else {}
        config = servers.configured(folder / "mcpx.json", **settings)
        env = {"MCPX_STATE_DIR": str(folder / "state"), "MCPX_LOG": "info", "MCPX_LOG_FORMAT": "json"}
        mcpx = [sys.executable, "-P", "-m", "mcpx"]
        with (
            _daemon([*mcpx, "daemon", "run", "--config", str(config)], env, len(servers.names)),
            Client(name, [*mcpx, "attach", "--config", str(config)], env) as client,
        ):
            yield Mcpx(client, servers)


@contextmanager
def _daemon(command: list[str], env: dict[str, str], count: int) -> Iterator[None]:
    """A daemon with all its servers ready, as a client finds it that starts later than the first one."""
    process = Process("mcpx daemon", command, env)
    try:
        stop = time.monotonic() + READY_S
        while len(_ready_servers(process)) < count:
            if time.monotonic() > stop:
                raise Unmeasured(f"mcpx: not all servers are ready\n{process.log()[-600:]}")
            time.sleep(POLL_S)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        process.close()


def _ready_servers(process: Process) -> set[str]:
    lines = (line for line in process.log().splitlines() if '"upstream.ready"' in line)
    return {json.loads(line)["server"] for line in lines}

"""The clients and servers of the matrix, and the ways between them.

`CLIENTS` are the commands of the client programs, `servers` the entries of the servers, and `opened`
gives, for every way through MCPX, what a client is told to connect to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from tests.live import servers as live
from tests.live.conformance.suite import node
from tests.live.gateways import http_endpoint, write_config

JSON = dict[str, Any]

HERE: Final = Path(__file__).parent
MODULES: Final = HERE / "node_modules"
VENV: Final = HERE / ".venv" / "bin"
ENDPOINTS: Final = ("stdio", "attach", "HTTP")
EXPOSURES: Final = ("three", "native", "transparent")
_KUBERNETES: Final = (
    MODULES / "kubernetes-mcp-server-linux-amd64" / "bin" / "kubernetes-mcp-server-linux-amd64"
)
_KUBECONFIG: Final = """apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
users: [{name: none, user: {}}]
"""


class ClientProgram(msgspec.Struct, frozen=True):
    """A client, and the command that a job is added to."""

    name: str
    command: list[str]
    servers: tuple[str, ...] = ()  # none named: all

    def uses(self, server: str) -> bool:
        """Whether it is tried with that server."""
        return not self.servers or server in self.servers


CLIENTS: Final = (
    ClientProgram("TypeScript SDK 1.32", [node() or "node", str(HERE / "client.mjs"), "v1"]),
    ClientProgram("TypeScript SDK 2.4, handshake", [node() or "node", str(HERE / "client.mjs"), "v2-legacy"]),
    ClientProgram("TypeScript SDK 2.4", [node() or "node", str(HERE / "client.mjs"), "v2-auto"]),
    ClientProgram("Python SDK 1.30", [str(live.PYTHON_SERVERS / "python"), str(HERE / "client_v1.py")]),
    ClientProgram("Python SDK 2.3, handshake", [sys.executable, str(HERE / "client_v2.py"), "legacy"]),
    ClientProgram("Python SDK 2.3", [sys.executable, str(HERE / "client_v2.py"), "auto"]),
    ClientProgram("FastMCP 4.1", [str(VENV / "python"), str(HERE / "client_v2.py"), "fastmcp"]),
    ClientProgram(
        "Inspector 2.12, command line",
        [sys.executable, str(HERE / "inspector.py"), node() or "node"],
        ("everything", "fast"),
    ),
)


def servers(scratch: Path) -> dict[str, JSON]:
    """The entry of each server that can be started here, by its name."""
    entries = {name: live.live_server(name, scratch) for name in live.NAMES}
    found: dict[str, JSON] = {
        name: server.entry() for name, server in entries.items() if live.missing(server) is None
    }
    kubeconfig = scratch / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG, "utf-8")
    others = {
        "fast": {"command": str(VENV / "python"), "args": [str(HERE / "fastmcp_server.py")]},
        "kubernetes": {"command": str(_KUBERNETES), "args": ["--kubeconfig", str(kubeconfig)]},
        "cnb": {"command": str(VENV / "cnb-rs-mcp"), "args": [], "env": {"CNB_TOKEN": "none"}},
    }
    return found | {name: entry for name, entry in others.items() if Path(str(entry["command"])).exists()}


def directly(entry: JSON) -> JSON:
    """What a client is told, to start this server itself."""
    return {"command": entry["command"], "args": entry["args"], "env": entry.get("env", {})}


class Ways(msgspec.Struct):
    """A running daemon, a running HTTP endpoint, and a configuration for `mcpx serve`."""

    folder: Path
    config: Path
    url: str

    def transport(self, endpoint: str, exposure: str, server: str) -> JSON:
        """What a client is told, to come in at this endpoint."""
        flags = {
            "three": ["--expose", "three"],
            "native": ["--expose", "all"],
            "transparent": ["--server", server],
        }[exposure]
        environment = {"MCPX_STATE_DIR": str(self.folder / endpoint), "MCPX_LOG": "error"}
        python = [sys.executable, "-m", "mcpx"]
        match endpoint:
            case "stdio":
                command, *args = [*python, "serve", str(self.config), *flags]
            case "attach":
                command, *args = [*python, "attach", "--config", str(self.config), *flags]
            case _:
                ends = {"three": "?expose=three", "native": "?expose=all"}
                return {"url": self.url + ends.get(exposure, f"/servers/{server}")}
        return {"command": command, "args": args, "env": environment}


@asynccontextmanager
async def opened(folder: Path, entries: dict[str, JSON]) -> AsyncIterator[Ways]:
    """The ways to these servers; the daemon that clients start is ended with them."""
    config = write_config(folder, entries, startup_wait=60, toon_compression_min_saving=1.0)
    async with http_endpoint(config, "--no-auth") as endpoint:
        await endpoint.log.wait_for("upstream.ready", count=len(entries))
        ways = Ways(folder, config, endpoint.url)
        try:
            yield ways
        finally:
            environment = {**os.environ, "MCPX_STATE_DIR": str(folder / "attach")}
            stop = [sys.executable, "-m", "mcpx", "daemon", "stop", "--config", str(config)]
            with anyio.CancelScope(shield=True):
                await anyio.run_process(stop, check=False, env=environment)

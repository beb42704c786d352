"""What is measured over HTTP: MCPX before a stdio child and before an HTTP server, and its peers.

Each is started as its documentation says, on a port of the loopback. MCPX runs with its default settings, so
it alone asks for a token and writes an audit log. The HTTP server is the SDK's, and a target itself.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from http_client import (
    EITHER,
    EVENTS,
    LEGACY,
    MODERN,
    Address,
    Connection,
    HttpClient,
    HttpError,
    Way,
    bounded,
)
from measure_hops import MCPX, entry_of, write_config
from process import Process, Unmeasured, free_port, written
from targets import FASTMCP, HERE, PEERS, SERVER

TO_STDIO, TO_HTTP = "mcpx, HTTP to stdio", "mcpx, HTTP to HTTP"
SUPERGATEWAY, MCP_PROXY, OWN = "supergateway", "mcp-proxy", "the HTTP server itself"
START_S = 60.0
POLL_S = 0.05
ONE_ANSWER = tuple(Way(era) for era in (LEGACY, MODERN))
EVERY_WAY = tuple(Way(era, accept) for era in (LEGACY, MODERN) for accept in (EITHER, EVENTS))


@dataclass
class HttpTarget:
    """One thing to measure. `call` is the params of a call of `echo`, but for its text."""

    name: str
    command: list[str]
    address: Address
    ways: tuple[Way, ...]
    state: Path | None = None  # of MCPX, where its token is
    tool: str = "echo"
    file: Path | None = None  # of its program, beside the interpreter

    @property
    def installed(self) -> bool:
        """Whether its program is there."""
        return bool(shutil.which(self.command[0])) and (self.file is None or self.file.exists())

    def params(self, text: str) -> dict:
        """The params of a call that gives this text back."""
        given = {"text": text}
        if self.state is not None:
            given = {"server_name": SERVER, "tool_name": "echo", "arguments": given}
        return {"name": self.tool, "arguments": given}


@contextmanager
def started(target: HttpTarget) -> Iterator[Process]:
    """The target, listening."""
    env = {} if target.state is None else {"MCPX_STATE_DIR": str(target.state)}
    process = Process(target.name, target.command, env)
    try:
        with bounded(f"the start of {target.name}", START_S):
            _wait_for(target, process)
        if target.state is not None:
            token = written(target.state / "token")
            target.address.headers = (f"Authorization: Bearer {token}",)
        yield process
    finally:
        process.close(leave_s=0)


def _wait_for(target: HttpTarget, process: Process) -> None:
    """Return when it takes connections."""
    while not process.has_left():
        with suppress(OSError):
            Connection(target.address.port).close()
            return
        time.sleep(POLL_S)
    raise Unmeasured(f"{target.name} has left: {process.log()[-600:]}")


def opened(target: HttpTarget, way: Way) -> HttpClient:
    """A session with a target that runs. Raises Unmeasured where it does not speak that way."""
    client = HttpClient(target.name, target.address, way)
    with bounded(f"{target.name}, {way}", START_S), closing(client.connect()) as connection:
        client.open(connection)
        names = client.tools(connection)
        if target.tool not in names:
            raise HttpError(f"it lists {', '.join(sorted(names))}")
    return client


def before_stdio(work: Path, child: list[str]) -> list[HttpTarget]:
    """MCPX and its peers, each before the child."""
    ports = [free_port() for _ in range(3)]
    gateway = HERE / "node_modules" / "supergateway" / "dist" / "index.js"
    return [
        mcpx(TO_STDIO, work / "to stdio", entry_of(child)),
        HttpTarget(
            SUPERGATEWAY,
            [
                *("node", str(gateway), "--outputTransport", "streamableHttp", "--stateful"),
                *("--stdio", shlex.join(child)),
                *("--port", str(ports[0]), "--logLevel", "none"),
            ],
            Address(ports[0]),
            ONE_ANSWER,
            file=gateway,
        ),
        HttpTarget(
            MCP_PROXY,
            [
                *(str(PEERS.parents[1] / ".venv-mcp-proxy" / "bin" / "python"), "-m", "mcp_proxy"),
                *("--port", str(ports[1]), "--log-level", "ERROR", "--", *child),
            ],
            Address(ports[1]),
            ONE_ANSWER[:1],  # it is of the SDK before 2.0
        ),
        HttpTarget(
            FASTMCP,
            [str(PEERS / "python"), str(HERE / "fastmcp_proxy.py"), "--port", str(ports[2]), *child],
            Address(ports[2]),
            ONE_ANSWER,
        ),
    ]


def before_http(work: Path) -> list[HttpTarget]:
    """An HTTP server, and MCPX before it; in this order, since it must be there first."""
    port = free_port()
    command = [sys.executable, str(HERE / "sdk_server.py"), str(port)]
    url = {"url": f"http://127.0.0.1:{port}/mcp"}
    return [HttpTarget(OWN, command, Address(port), ONE_ANSWER), mcpx(TO_HTTP, work / "to HTTP", url)]


def mcpx(name: str, state: Path, entry: dict) -> HttpTarget:
    """MCPX before one server, over HTTP."""
    state.mkdir(parents=True)
    config, port = write_config(state / "config.json", {SERVER: entry}), free_port()
    command = [*MCPX, "serve", str(config), "--transport", "http", "--port", str(port)]
    return HttpTarget(name, command, Address(port), EVERY_WAY, state, "exec")

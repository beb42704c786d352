"""What the suite is let loose on: a reference server as it is, and the same behind MCPX.

`REFERENCES` are the reference servers, `TARGETS` the ways to one. `opened` starts all that a way needs, gives
the URL for the suite, and ends it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.forking.client import command
from tests.live.gateways import http_endpoint, write_config
from tests.live.processes import serving

HERE: Final = Path(__file__).parent
SERVER: Final = "reference"


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference server: over stdio as it is, over HTTP with a port as its argument."""

    name: str
    python: str
    script: str
    modern: bool  # speaks 2026-07-28 too

    def command(self, *args: str) -> list[str]:
        """The command line for those who can only start one; forked where that is the same."""
        script = str(HERE / self.script)
        return command(script, *args) if self.python == sys.executable else [self.python, script, *args]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A way from the suite to a reference server."""

    name: str
    through: str  # "nothing", "transparent" or "three"
    upstream: str = "stdio"  # how MCPX reaches the server
    era: str | None = None  # what the server is pinned to


REFERENCES: Final = (
    Reference(name="SDK 2", python=sys.executable, script="reference.py", modern=True),
    Reference(
        name="SDK 1",
        python=str(HERE.parent / ".venv-servers" / "bin" / "python"),
        script="reference_v1.py",
        modern=False,
    ),
)
DIRECT: Final = Target(name="direct", through="nothing")
TARGETS: Final = (
    Target(name="transparent", through="transparent"),
    Target(name="transparent, era: handshake", through="transparent", era="handshake"),
    Target(name="transparent, era: modern", through="transparent", era="modern"),
    Target(name="transparent, server over HTTP", through="transparent", upstream="http"),
    Target(name="three tools", through="three"),
    Target(name="three tools, era: modern", through="three", era="modern"),
    Target(name="three tools, server over HTTP", through="three", upstream="http"),
)


@asynccontextmanager
async def opened(reference: Reference, target: Target, folder: Path) -> AsyncIterator[str]:
    """The URL for the suite, of a target that runs until the context is left."""
    async with AsyncExitStack() as stack:

        async def listening(command: list[str]) -> str:
            line = await stack.enter_async_context(serving(command, ready="listening"))
            return line.split()[-1]

        if target.through == "nothing":
            yield await listening(reference.command("0"))
            return
        if target.upstream == "http":
            entry: dict[str, Any] = {"type": "http", "url": await listening(reference.command("0"))}
        else:
            program, *args = reference.command()
            entry = {"command": program, "args": args}
        pinned = {} if target.era is None else {"era": target.era}
        config = write_config(folder, {SERVER: entry | pinned}, startup_wait=20)
        endpoint = await stack.enter_async_context(http_endpoint(config, "--no-auth"))
        await endpoint.log.wait_for("upstream.ready")
        if target.through == "transparent":
            yield f"{endpoint.url}/servers/{SERVER}"
        else:
            yield await listening([sys.executable, str(HERE / "adapter.py"), endpoint.url, SERVER])

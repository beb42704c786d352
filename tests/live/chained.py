"""The live tests over several MCPX: what `write_config` writes is behind others then.

With MCPX_LIVE_HOPS=2 (as `scripts/chain` sets it) the servers of a configuration run behind a daemon, which
another daemon takes them from over HTTP, and the MCPX under test takes them from that one: three in a row.
The names stay, so that the tests need not know. `end_all` ends the daemons.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.ports import free_port

HOPS: Final = int(os.environ.get("MCPX_LIVE_HOPS", "0"))
START_S: Final = 60.0
_running: list[tuple[Path, Path]] = []  # configurations and state folders


def behind_others(folder: Path, servers: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The entries of the MCPX under test, for those of servers that run behind others."""
    for hop in range(HOPS):
        state, port = folder / f"hop-{hop}", free_port()
        state.mkdir(exist_ok=True)
        config = state / "config.json"
        whole = {"http": {"port": port}, "startup_wait": settings.get("startup_wait", 3)}
        config.write_bytes(msgspec.json.encode({**whole, "mcpServers": servers}))
        _running.append((config, state))
        _daemon("start", config, state)
        token = (state / "token").read_text().strip()
        authorization = {"Authorization": f"Bearer {token}"}
        servers = {"hop": {"url": f"http://127.0.0.1:{port}/mcp", "headers": authorization, "mcpx": True}}
    return servers


def end_all() -> None:
    """End the daemons, the last one first."""
    while _running:
        _daemon("stop", *_running.pop())


def _daemon(do: str, config: Path, state: Path) -> None:
    subprocess.run(
        [sys.executable, "-P", "-m", "mcpx", "daemon", do, "--config", str(config)],
        env={**os.environ, "MCPX_STATE_DIR": str(state)},
        capture_output=True,
        timeout=START_S,
        check=do == "start",
    )

"""Commands of MCPX that the page runs for what a terminal does: the same process, bounded.

The daemon changes no configuration itself. `run` starts `mcpx COMMAND --json` with the daemon's own
configuration, and gives its answer. The configuration is named only where the command would take another one
by itself: one that is named stands in the entries that `mcpx install` writes.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.running import bounded
from mcpx.core.system.environment import for_daemon
from mcpx.errors import MCPXError
from mcpx.paths import config_hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpx.core.daemon.hub import Hub

TIMEOUT_S: Final = 180.0  # a reload may wait for servers that leave, and a check for one that starts
MAX_OUTPUT_BYTES: Final = 4 << 20


async def run(
    hub: Hub,
    command: str,
    *,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    within_s: float = TIMEOUT_S,
) -> JSON:
    """The JSON that a command prints. `names` are never taken for options.

    Raises:
        MCPXError: It failed, with its own words; or it took too long, or printed something else.
    """
    source, environ = str(hub.config.source), _environ(hub)
    config = ("--config", source) if config_hint(source, environ) else ()
    line = [sys.executable, "-P", "-m", "mcpx", command, *options, *config, "--json", "--", *names]
    output = await _output(line, environ, command, within_s)
    try:
        answer = msgspec.json.decode(output)
    except msgspec.DecodeError:
        raise MCPXError(f"mcpx {command} did not say what came of it; see its words in a terminal") from None
    if not isinstance(answer, dict) or "error" in answer:
        said = answer.get("error") if isinstance(answer, dict) else None
        raise MCPXError(str(said or f"mcpx {command} failed"))
    return answer


async def _output(line: Sequence[str], environ: Mapping[str, str], command: str, within_s: float) -> bytes:
    try:
        process = bounded.start(line, for_daemon(environ))
    except OSError as error:
        raise MCPXError(f"cannot start {line[0]}: {error.strerror}") from None
    try:
        read = partial(bounded.read, process, timeout_s=within_s, max_bytes=MAX_OUTPUT_BYTES)
        output = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
        await anyio.to_thread.run_sync(bounded.end, process)
    except BaseException as error:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):  # bounded: it has been killed
            await anyio.to_thread.run_sync(bounded.end, process)
        if isinstance(error, bounded.OutOfBounds):
            raise MCPXError(f"mcpx {command} {error}") from None
        raise
    return output


def _environ(hub: Hub) -> dict[str, str]:
    """The variables of the person's terminal, which say where clients keep files; MCPX's from the daemon."""
    own = {name: value for name, value in os.environ.items() if name.startswith("MCPX_")}
    persons = hub.fleet.environment.value().variables
    return {name: each for name, each in persons.items() if not name.startswith("MCPX_")} | own

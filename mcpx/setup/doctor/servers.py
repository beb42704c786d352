"""Each server: its command, found on which PATH; then one start of it, and what that takes.

A hub of this process's own starts each server once, apart from any daemon, so that it is started and ended
exactly as it always is. What the hub keeps in files goes to a temporary folder, but for the tokens of
sign-ins.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from mcpx.core.config import Config, Http, ServerConfig, Sse, Transport, redactor_of, starting_limit
from mcpx.core.config.diagnosis import DISABLED, INVALID, diagnose
from mcpx.core.config.urls import is_loopback, split_url
from mcpx.core.system.processes import group_memory
from mcpx.core.text import one_line
from mcpx.core.wire.unreachable import OFFLINE
from mcpx.oauth.record import identity_of
from mcpx.paths import state_folder
from mcpx.setup.clients.masking import command_line
from mcpx.setup.doctor.installation import Finding, Installation, note, ok, wrong

if TYPE_CHECKING:
    from mcpx.core.daemon.hub import Hub
    from mcpx.core.servers.server import Server


SLOW_START_S: Final = 10.0  # clients give a server 30 to 60 s, and people less
MIB: Final = 1 << 20
UNAUTHORIZED: Final = "the server answers HTTP 401"
"""In what is said of a server that wants credentials, or others."""
SOURCES: Final = {
    "npx": "install Node.js, which has it: https://nodejs.org",
    "node": "install Node.js: https://nodejs.org",
    "uvx": "install uv, which has it: https://docs.astral.sh/uv/",
    "uv": "install uv: https://docs.astral.sh/uv/",
    "docker": "install Docker: https://docs.docker.com/get-docker/",
    "bunx": "install Bun, which has it: https://bun.sh",
    "deno": "install Deno: https://deno.com",
}
"""Where the commands come from that most servers are started with."""
OF_PROJECTS: Final = frozenset(
    {
        *("@eslint/mcp", "ast-grep-mcp", "ast-grep-server", "backlog", "code-index-mcp", "codegraph"),
        *("gopls", "mcp-language-server", "mcp-server-git", "nx-mcp", "serena", "serena-agent"),
        "task-master-ai",
    }
)
"""Programs and packages of servers that work on the folder that they are started in."""
_RELATIVE: Final = re.compile(r"\.{1,2}(?:/.*)?")
MARGIN_S: Final = 3.0  # beyond the time of one start, for the machine
NOWHERE: Final = Path("/nowhere/mcpx")  # where nothing can be kept, nothing is


def check_servers(installation: Installation) -> Iterator[Finding]:
    """Check each server: what can be seen without starting it, then one start."""
    config = installation.config
    if config is None:
        return
    before = {server.name: _before_start(server, installation) for server in config.servers.values()}
    shared = [name for name, server in config.servers.items() if server.sessions != "per_project"]
    able = [name for name in shared if before[name] is None]
    starts = start_once(config, able, timeout_s=installation.timeout_s) if installation.starts else {}
    tried = starts.items()
    installation.failed |= {name: start.needs_sign_in for name, start in tried if start.problem is not None}
    installation.failed |= {name: False for name, each in before.items() if each and each.level == "wrong"}
    offline = _offline(config, starts)
    if offline:
        yield wrong("network", offline_text(offline), servers=offline)
    for name, server in config.servers.items():
        if server.disabled is None:
            yield from _out_of_projects(server, installation)
        if (finding := before[name]) is not None:
            yield finding
        elif name in offline:
            continue  # it is said once for all of them
        elif name in starts:
            yield from _started(server, starts[name], installation)
        else:
            command = _command(server, installation)
            found = f"; command found: {command}" if command else ""
            once = "" if name in shared else "runs once for each project, and "
            yield ok(name, f"{once}was not started{found}", command=command)


def _out_of_projects(server: ServerConfig, installation: Installation) -> Iterator[Finding]:
    """Say of a server that works on a project that it runs in the home folder, for all clients."""
    program = server.transport.program
    if server.sessions == "per_project" or server.project is not None or program is None or program.cwd:
        return
    at_home = "all of its clients" if server.sessions == "shared" else "each of its clients"
    if relative := next((each for each in program.args if _RELATIVE.fullmatch(each)), None):
        text = f"runs in the home folder for {at_home}, and its argument {relative} starts there"
        written = "${project}" if relative == "." else "${project}/" + relative.removeprefix("./")
        yield note(server.name, text, f'write "{written}" in place of "{relative}" in {installation.file}')
        return
    words = {_program_in(each) for each in (program.command, *program.args)}
    if words & OF_PROJECTS and not any(each.startswith("/") for each in program.args):
        text = f"runs in the home folder for {at_home}, and it works on the project that it runs in"
        yield note(
            server.name, text, f'write "sessions": "per_project" into its entry in {installation.file}'
        )


def _program_in(word: str) -> str:
    """The name of a program in a word of a command: of a file, of a package with its version, of a URL."""
    name = word if word.startswith("@") else word.rpartition("/")[2]
    return name[:1] + re.split(r"@|==|\.git$|\.git@", name[1:], maxsplit=1)[0]


def _offline(config: Config, starts: Mapping[str, Start]) -> list[str]:
    """The servers that no network leads to; none where one of another machine is reached."""
    away = [name for name, start in starts.items() if OFFLINE in (start.problem or "")]
    reached = [name for name, start in starts.items() if start.problem is None]
    return [] if any(_is_elsewhere(config.servers[name].transport) for name in reached) else away


def _is_elsewhere(transport: Transport) -> bool:
    parts = split_url(transport.url) if isinstance(transport, Http | Sse) else None
    return parts is not None and not is_loopback(parts.hostname or "")


def offline_text(names: Sequence[str]) -> str:
    """Say of these servers that no network leads to them."""
    return f"no network leads to {', '.join(names)}, or their names could not be resolved: are you online?"


def _before_start(server: ServerConfig, installation: Installation) -> Finding | None:
    """Return the reason that the server cannot be started, or is not to be; None if it can be tried."""
    found = diagnose(server)
    if found is not None and found.state == DISABLED:
        return ok(server.name, "disabled in the configuration")
    if found is not None and found.state == INVALID:
        return note(server.name, "is not started, because of the mistake in its entry")
    if found is not None:
        return wrong(server.name, str(found), found.remedy, missing=list(found.missing))
    places = [each for each in installation.examined.findings if each.server == server.name]
    for place in (each for each in places if each.keeps_from_starting):
        return wrong(server.name, place.text, _advice(server, installation))
    return None


def _advice(server: ServerConfig, installation: Installation) -> str:
    """Return what to do about a command that is not there."""
    program = server.transport.program
    known = None if program is None else SOURCES.get(program.command)
    return known or f"correct it in {installation.file}, where a whole path will do, or install it"


def _command(server: ServerConfig, installation: Installation) -> str | None:
    """The file that the server's command is found to be; None for one that is reached by a URL."""
    if (stdio := server.transport.program) is None:
        return None
    return installation.environment.find(stdio.command, path=stdio.env.get("PATH"), folder=stdio.cwd)


# --- the start


def _started(server: ServerConfig, start: Start, installation: Installation) -> Iterator[Finding]:
    if start.problem is not None:
        if start.needs_sign_in:
            yield wrong(server.name, one_line(start.problem), installation.command("login", server.name))
        else:
            yield _failed(server, start.problem, installation)
        return
    seconds = start.seconds or 0.0
    size = "" if start.memory is None else f", {start.memory / MIB:.0f} MB"
    tools = f"{start.tools} tool{'' if start.tools == 1 else 's'}"
    memory_mb = None if start.memory is None else round(start.memory / MIB, 1)
    numbers = {"seconds": round(seconds, 3), "tools": start.tools, "memory_mb": memory_mb}
    command = _command(server, installation)
    by = f"; {command}" if command else ""
    yield ok(server.name, f"ready in {seconds:.1f} s, {tools}{size}{by}", command=command, **numbers)
    if seconds > SLOW_START_S:
        advice = "if it was a download, it is quicker next time; else install it, in place of npx or uvx"
        yield note(server.name, f"takes {seconds:.0f} s to start", advice)


def _failed(server: ServerConfig, problem: str, installation: Installation) -> Finding:
    text = one_line(problem)
    if _is_ready_in_daemon(server.name, installation):
        said = f"works in the daemon, but a second one of it does not start: {text}"
        return note(server.name, said, "keep to one MCPX, if it cannot run twice")
    if (program := server.transport.program) is not None:
        line = command_line({"command": program.command, "args": program.args})
        advice = f"try it in a terminal: {redactor_of(server)(line)}"
    elif UNAUTHORIZED in text:
        advice = _credentials_advice(server, installation)
    else:
        advice = f"is its address right, and does it run? It is in {installation.file}"
    return wrong(server.name, text, advice)


def _credentials_advice(server: ServerConfig, installation: Installation) -> str:
    """Return what to type where a server answers 401 and MCPX does not sign in to it."""
    login, file = installation.command("login", server.name), installation.file
    if not isinstance(server.transport, Http | Sse) or identity_of(server) is not None:
        return f'it names no sign-in: put what it wants into "headers" of its entry in {file}'
    if server.transport.auth is None:
        return f'take "auth": false out of its entry in {file}, then: {login}'
    return f"correct its header Authorization in {file}; or take that out, then: {login}"


def _is_ready_in_daemon(name: str, installation: Installation) -> bool:
    servers = (installation.status or {}).get("servers", ())
    return any(each["name"] == name and each["state"] == "ready" for each in servers)


# --- one start of each


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a server. `problem` is None if it is ready; `memory` is in bytes, None if unknown."""

    problem: str | None
    seconds: float | None = None
    tools: int = 0
    memory: int | None = None
    needs_sign_in: bool = False


def start_once(config: Config, names: Iterable[str], *, timeout_s: float) -> dict[str, Start]:
    """Start these servers side by side, and end them; how each start went, by name.

    `timeout_s` is what one of them gets at most, where its `connect_timeout` is not shorter.
    """
    wanted = set(names)
    if not wanted:
        return {}
    servers = {name: _eager(server, timeout_s) for name, server in config.servers.items() if name in wanted}
    with _temporary_state() as state:
        return anyio.run(_start, replace(config, servers=servers), state, timeout_s)


def _eager(server: ServerConfig, timeout_s: float) -> ServerConfig:
    limits = server.call_limits
    shorter = replace(
        limits,
        connect_timeout=min(limits.connect_timeout, timeout_s),
        first_start_timeout=min(limits.first_start_timeout, timeout_s),
    )
    return replace(server, call_limits=shorter, start="eager", idle_stop=0.0, auto_describe=False)


@contextmanager
def _temporary_state() -> Iterator[Path]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="mcpx-doctor-", ignore_cleanup_errors=True)
    except OSError:  # a full disk, or one that cannot be written to
        yield NOWHERE
        return
    with folder as name:
        yield Path(name)


async def _start(config: Config, state: Path, timeout_s: float) -> dict[str, Start]:
    from mcpx.parts import open_hub  # noqa: PLC0415 - the SDK

    async with open_hub(config, state=state, tokens=state_folder()) as hub:
        rounds = 1 + (len(config.servers) - 1) // starting_limit(config)
        await hub.settled(timeout_s * rounds + MARGIN_S)
        return await _results(hub, timeout_s)


async def _results(hub: Hub, timeout_s: float) -> dict[str, Start]:
    pids = [upstream.pid for upstream in hub.upstreams.values() if upstream.pid is not None]
    memory = await anyio.to_thread.run_sync(group_memory, pids)
    return {
        name: _result(upstream, memory.get(upstream.pid or 0), timeout_s)
        for name, upstream in hub.upstreams.items()
    }


def _result(upstream: Server, memory: int | None, timeout_s: float) -> Start:
    info, life = upstream.info(), upstream.queue.lifecycle_or_none()
    if not info.ready or life is None or life.up_since is None:
        late = f"not ready within {timeout_s:g} s"
        return Start(
            problem=upstream.main.last_error or info.cause or late, needs_sign_in=info.sign_in is not None
        )
    return Start(problem=None, seconds=life.up_since - life.attempt_at, tools=len(info.tools), memory=memory)

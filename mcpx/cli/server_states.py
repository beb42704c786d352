"""States of the servers of a configuration: a table of all, and what one does that was added or enabled."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpx.cli.asking import ask
from mcpx.cli.printing import NO_WRAP, Columns, console, counted, echo, print_table, print_texts
from mcpx.core.catalog.model import JSON, ToolInfo
from mcpx.core.catalog.snapshot import State
from mcpx.core.config import Config, ServerConfig, read_config
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.config.strings import URL_KEYS
from mcpx.core.daemon.control_client import request
from mcpx.core.rendering.signatures import line_parts
from mcpx.core.store.paths import daemon_paths
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from mcpx.paths import config_file, config_hint
from mcpx.setup.clients.masking import command_line
from mcpx.setup.documents.configuration import entry_at, places_of
from mcpx.setup.documents.editing import read

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text


NOT_RUNNING: Final = "not running"
ADD: Final = "mcpx add{} NAME -- COMMAND"
START_TIMEOUT_S: Final = 660.0  # `first_start_timeout`, and a minute: the daemon ends a start that hangs
POLL_INTERVAL_S: Final = 0.2
STARTED: Final = ("ready", "asleep")
MIN_SUMMARY: Final = 20  # characters; with less room behind a signature a summary is left out
PIPE_WIDTH: Final = 120  # characters of a line where there is no terminal


def find_servers(config_path: str | None) -> JSON:
    """`{file, daemon: null, servers: [{name, state, why?, transport, command}]}` by the configuration alone.

    Raises:
        ConfigError: The configuration cannot be used.
    """
    file = config_file(config_path).absolute()
    found: JSON = {"file": str(file), "daemon": None, "servers": []}
    if not file.exists():
        return found
    config, lines = _read(file), reached_by(file)
    for server in config.servers.values():
        row = {"name": server.name, "state": NOT_RUNNING} | _by_entry(server)
        found["servers"].append(
            row | {"transport": server.transport.kind, "command": lines.get(server.name, "")}
        )
    for name, peer in config.peers.items():
        row = {"name": name, "state": "mcpx"} | _by_entry(peer)
        found["servers"].append(row | {"transport": peer.transport.kind, "command": lines.get(name, "")})
    return found


def reached_by(file: Path) -> dict[str, str]:
    """The command or address of each server of a configuration, by name, without secrets.

    Raises:
        OSError: It cannot be read.
        DocumentError: It is not understood.
    """
    document = read(file.read_bytes(), "json")
    return {name: reached(entry_at(document, path)) for name, path in reversed(places_of(document))}


def _read(file: Path) -> Config:
    """The configuration; where servers lack something, the login shell says which variables there are."""
    text = read_config(file)
    config = text.parse(resolve=False)
    lacks = any(each.obstacles for each in (*config.servers.values(), *config.peers.values()))
    return text.parse(secrets_of=()) if lacks else config


def _by_entry(server: ServerConfig) -> JSON:
    """`{state, why?}` of a server that cannot be started."""
    found = diagnose(server)
    if found is None:
        return {}
    if found.cause is None:  # a person has switched it off
        return {"state": found.state}
    why = found.cause if found.remedy is None else f"{found.cause}: {found.remedy}"
    return {"state": found.state, "why": why}


def reached(entry: Mapping[str, Any]) -> str:
    """The command line or URL of a server by its entry, or both, without secrets."""
    url = next((entry[key] for key in URL_KEYS if key in entry), None)
    return command_line(entry if url is None else {**entry, "url": url})


def states(config: str) -> dict[str, str]:
    """The states of the daemon's servers by name; none if no daemon runs."""
    with suppress(MCPXError):
        if (status := request(daemon_paths(config), {"mcpx": "status"})) is not None:
            return {each["name"]: each["state"] for each in status["servers"]}
    return {}


def show_servers(found: JSON) -> None:
    """Print the servers of a configuration without a daemon: a row each, and why some cannot be started."""
    option = config_hint(found["file"])
    if not found["servers"]:
        echo(f"no servers in {found['file']} yet")
        echo(f"mcpx setup{option} takes over those of your AI clients; one more: {ADD.format(option)}")
        return
    headers: Columns = {
        **dict.fromkeys(("server", "state", "transport"), NO_WRAP),
        "command": {"overflow": "ellipsis"},
    }
    servers = found["servers"]
    print_table(
        headers, [[each[key] for key in ("name", "state", "transport", "command")] for each in servers]
    )
    print_texts((f"{each['name']}: {each['why']}", "yellow") for each in servers if "why" in each)
    echo(f"no daemon runs; a client starts it, or: mcpx daemon start{option}", err=True)


# --- the start of one


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a start: the state, with the cause if it failed, and the tools."""

    state: str
    started: bool
    seconds: float
    tools: tuple[dict[str, Any], ...] = ()
    remedy: str | None = None

    def to_dict(self) -> JSON:
        """Plain JSON, with the names of the tools."""
        return {**msgspec.to_builtins(self), "tools": [tool["name"] for tool in self.tools]}

    @property
    def needs_sign_in(self) -> bool:
        """True if a person has to sign in first."""
        return self.state.startswith(State.NEEDS_SIGN_IN)


def check_server(config: str, name: str) -> Check:
    """Have the daemon start a server, or start it for this alone if no daemon runs."""
    began = time.monotonic()
    try:
        with _waiting(name) as waiting:
            answer = _through_daemon(config, name, waiting)
        if answer is None:
            request = {"mcpx": "inspect", "server": name, "start": True}
            answer = ask(config, request)["shaped"]["structuredContent"]
    except MCPXError as error:
        return Check(state=str(error), started=False, seconds=_since(began))
    state = str(answer.get("state", ""))
    started = state.startswith(STARTED)
    tools = tuple(answer.get("tools", ())) if started else ()
    remedy = answer.get("remedy")
    return Check(state=state, started=started, seconds=_since(began), tools=tools, remedy=remedy)


def _through_daemon(config: str, name: str, waiting: Status | None) -> JSON | None:
    """Have the daemon start a server, and return its state; None if no daemon runs.

    A first start may take minutes: `waiting` says meanwhile what the server does.
    """
    paths, began, woken = daemon_paths(config), time.monotonic(), False
    while (status := request(paths, {"mcpx": "status"})) is not None:
        found: JSON = next((each for each in status["servers"] if each["name"] == name), {})
        state = found.get("state")
        if state == "asleep" and not woken:  # what it offers is known from last time
            request(paths, {"mcpx": "restart", "server": name}, within=None)
            woken = True
        elif state != "starting" or _since(began) > START_TIMEOUT_S:
            break
        elif waiting is not None and found.get("last_error"):
            waiting.update(_progress(f"starting {name}: {found['last_error']}"))
        time.sleep(POLL_INTERVAL_S)
    answer = request(paths, {"mcpx": "inspect", "server": name}, within=None)
    return None if answer is None else answer["shaped"]["structuredContent"]


def _waiting(name: str) -> AbstractContextManager[Status | None]:
    """Say on a terminal what is waited for."""
    if not sys.stderr.isatty():
        return nullcontext()
    return console(err=True).status(_progress(f"starting {name} ..."))


def _progress(text: str) -> Text:
    from rich.text import Text  # what a server says is no markup

    return Text(one_line(text), no_wrap=True, overflow="ellipsis")


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def start_each(names: Sequence[str], config: Path) -> None:
    """Start servers once, one after the other, with a bar of how far it is, and print what came of each."""
    for number, name in enumerate(names):
        bar = "#" * number + "." * (len(names) - number)
        echo(f"[{bar}] {number + 1} of {len(names)}: {name}", err=True)
        show_check(name, check_server(str(config), name), config, with_tools=False)


def show_check(name: str, check: Check, config: Path, *, with_tools: bool = True) -> None:
    """Print what a server of a configuration offers, or why it did not start and what to do."""
    option = config_hint(config)
    if check.needs_sign_in:
        echo(f"{name} wants you to sign in: mcpx login {quote(name)}{option}", fg="yellow")
        return
    if check.remedy is not None:
        echo(f"{name} is not started ({one_line(check.state)})", fg="yellow")
        echo(f"  what helps: {one_line(check.remedy)}")
        return
    if not check.started:
        _, _, cause = check.state.partition(": ")
        still = f"it is {check.state} after {check.seconds:.0f} s"
        echo(f"{name} does not work: {one_line(cause or still)}", fg="red")
        echo(
            f"  what it said: mcpx logs {quote(name)}{option}; what is odd with its entry: mcpx check{option}"
        )
        return
    echo(f"{name} works: {counted(len(check.tools), 'tool')}, {check.seconds:g} s", fg="green")
    for tool in check.tools if with_tools else ():
        echo(f"  {_line(tool)}")


def _line(tool: JSON) -> str:
    """A tool in one line: its signature, and the beginning of its description where there is room."""
    width = shutil.get_terminal_size((PIPE_WIDTH, 0)).columns - 2
    schema, description = tool.get("input_schema") or {}, tool.get("description")
    info = ToolInfo(server_name="", name=tool["name"], input_schema=schema, description=description)
    signature, _ = line_parts(info, 0, limit=width)
    room = width - len(signature) - 2
    summary = line_parts(info, room)[1] if room >= MIN_SUMMARY else ""
    return f"{signature}  {summary}" if summary else signature

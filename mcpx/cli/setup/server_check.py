"""A server that was added or enabled, started to see if it works and what it offers."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpx.cli.asking import ask
from mcpx.cli.printing import console, echo
from mcpx.core.catalog.model import ToolInfo
from mcpx.core.catalog.snapshot import State
from mcpx.core.daemon.control_client import request
from mcpx.core.rendering.signatures import line_parts
from mcpx.core.system.paths import daemon_paths
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from mcpx.paths import config_hint

if TYPE_CHECKING:
    from pathlib import Path

    from mcpx.core.catalog.model import JSON

START_TIMEOUT_S: Final = 60.0
MARGIN_S: Final = 3.0  # beyond the time of one start, for the machine
POLL_INTERVAL_S: Final = 0.2
STARTED: Final = ("ready", "asleep")
MIN_SUMMARY: Final = 20  # characters; with less room behind a signature a summary is left out
PIPE_WIDTH: Final = 120  # characters of a line where there is no terminal


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
        with _waiting(name):
            answer = _through_daemon(config, name)
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


def _through_daemon(config: str, name: str) -> JSON | None:
    """Have the daemon start a server, and return its state; None if no daemon runs."""
    paths, began, woken = daemon_paths(config), time.monotonic(), False
    while (answer := request(paths, {"mcpx": "inspect", "server": name}, within=None)) is not None:
        shown: JSON = answer["shaped"]["structuredContent"]
        state = shown.get("state")
        if state == "asleep" and not woken:  # what it offers is known from last time
            request(paths, {"mcpx": "restart", "server": name}, within=None)
            woken = True
        elif state != "starting" or _since(began) > START_TIMEOUT_S:
            return shown
        time.sleep(POLL_INTERVAL_S)
    return None


def _waiting(name: str) -> AbstractContextManager[object]:
    """Say on a terminal what is waited for."""
    if not sys.stderr.isatty():
        return nullcontext()
    return console(err=True).status(one_line(f"starting {name} ..."))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


def show_check(name: str, check: Check, config: Path) -> None:
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
    number = len(check.tools)
    echo(f"{name} works: {number} tool{'s' if number != 1 else ''}, {check.seconds:g} s", fg="green")
    for tool in check.tools:
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

"""The table of `mcpx status`: a status as something that rich prints.

`render` is pure. Colours are styles, so a console that is no terminal prints none. Names and causes are never
read as markup, and what would harm a terminal is left out. A name is always whole: on a terminal that is too
narrow it is wrapped. Causes are cut with an ellipsis at the end of the line. `ready x3` is a server with
three sessions, one for each client.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from mcpx.cli.printing import FOLD, NO_WRAP, NUMBER, console, count, counted, duration, precise, table_of
from mcpx.core.daemon.status import (
    AuditStatus,
    ChangeStatus,
    DaemonStatus,
    EnvironmentStatus,
    HttpStatus,
    InstanceStatus,
    NodeStatus,
    PeerStatus,
    ServerStatus,
    SignInStatus,
    Status,
    UpgradeStatus,
    VariableStatus,
)
from mcpx.core.text import cut, one_line
from mcpx.errors import MCPXError

# --- the nodes of the cluster

NODE_STYLES: Final = {"ready": "green", "draining": "yellow", "starting": "cyan", "lost": "red"}
MAX_NODES: Final = 50  # the JSON has them all
MAX_PROBLEM_CHARS: Final = 200
MIB: Final = 1 << 20


def nodes_table(nodes: list[NodeStatus]) -> Table:
    """A row for each node; those that are not ready come first where there are too many."""
    numbers = dict.fromkeys(("servers", "sessions", "memory MB", "free MB", "load"), NUMBER)
    table = table_of({"node": FOLD, "state": NO_WRAP, **numbers, "": {}})
    shown = nodes if len(nodes) <= MAX_NODES else sorted(nodes, key=lambda node: node.state == "ready")
    for node in shown[:MAX_NODES]:
        table.add_row(*_node_row(node))
    if len(nodes) > MAX_NODES:
        table.add_row(Text(f"and {len(nodes) - MAX_NODES} more", style="dim"))
    return table


def _node_row(node: NodeStatus) -> list[Text]:
    figures = (
        str(node.servers),
        str(node.sessions),
        _mib(node.servers_memory_bytes or None),
        _mib(node.memory_free_bytes),
        "-" if node.load is None else f"{node.load:.1f}",
    )
    style = NODE_STYLES.get(node.state, "")
    problem = Text(cut(one_line(node.problem), MAX_PROBLEM_CHARS) if node.problem else "", style=style)
    return [Text(one_line(node.name)), Text(one_line(node.state), style=style), *map(Text, figures), problem]


def _mib(amount: int | None) -> str:
    return "-" if amount is None else f"{amount / MIB:.0f}"


def nodes_ready(nodes: list[NodeStatus]) -> str:
    """`, 2 of 3 nodes ready`."""
    return f", {sum(node.state == 'ready' for node in nodes)} of {len(nodes)} nodes ready"


STYLES: Final = {
    "ready": "green",
    "starting": "cyan",
    "asleep": "dim",
    "waiting": "yellow",
    "parked": "red",
    "needs sign-in": "yellow",
    "needs setup": "yellow",
    "invalid": "red",
    "stopped": "dim",
    "disabled": "dim",
}
NEEDS_SIGN_IN: Final = "needs sign-in"
FAULTS: Final = ("parked", "waiting", "invalid", "needs setup", NEEDS_SIGN_IN)
"""The states of servers that want somebody."""
MIN_NAME_CELLS: Final = 8  # of a name that is wrapped
MAX_CELLS: Final = 1000
USUAL_CELLS: Final = 80  # of a window that lacks a few columns at most; longer names are wrapped in it
HEADERS: Final = ("pid", "up", "re", "tools", "res", "busy", "calls", "fail", "ref", "p50", "p99 ms")
LEFT_OUT: Final = ("res", "pid", "p99 ms", "re", "p50", "ref", "up", "tools")
"""The columns that a narrow window lacks, the first of these first."""
FEW_LEFT_OUT: Final = 2
"""Columns that one of usual width may lack, if names are whole then."""
MAX_LEAD_CELLS: Final = 28  # that causes stand behind; a longer name pushes its own to the right
SILENT_FROM_S: Final = 10.0  # without a sign of life, before that is worth a line
LEGEND: Final = "re: restarts  res: resources  busy: running+waiting  ref: refused  p50: median"
MAX_NAMED_CHANGES: Final = 5  # of a server, in its line
PRECISE_MS: Final = 100.0  # tenths are not shown from here on


def show(status: dict[str, Any]) -> None:
    """Print a status that came as JSON to standard output.

    Raises:
        MCPXError: It is no status.
    """
    console().print(render_json(status))


def render_json(status: dict[str, Any]) -> RenderableType:
    """Render a status that came as JSON.

    Raises:
        MCPXError: It is no status.
    """
    return render(converted(status))


def converted(status: dict[str, Any]) -> Status:
    """A status that came as JSON.

    Raises:
        MCPXError: It is no status.
    """
    try:
        return msgspec.convert(status, Status)
    except msgspec.ValidationError as error:
        text = (
            f"the daemon's status cannot be read ({error}): it may be of another version; mcpx daemon restart"
        )
        raise MCPXError(text) from None


def render(status: Status) -> RenderableType:
    """The daemon in one line, a row a server, a line for each with an error, and what is not new.

    The servers that want somebody come first.
    """
    parts: list[RenderableType] = [daemon_line(status), *problems(status.daemon)]
    if isinstance(status.daemon.http, HttpStatus) and status.daemon.http.error is None:
        parts.append(_http(status.daemon.http))
    if isinstance(environment := status.daemon.environment, EnvironmentStatus):
        parts.append(_environment(environment))
    servers = sorted(status.servers, key=lambda server: server.state not in FAULTS)
    parts += [Text(), _Servers(servers)]
    if said := [(server.name, *each) for server in servers for each in remarks(server)]:
        parts += [Text(), *_lines(said)]
    if isinstance(status.variables, list):
        parts += [Text(), *_variables(status.variables)]
    if isinstance(status.nodes, list):
        parts += [Text(), nodes_table(status.nodes)]
    if isinstance(status.peers, list):
        parts += [Text(), *_lines([(peer.name, *_peer(peer)) for peer in status.peers])]
    if old := [one_line(server.name) for server in status.servers if server.from_last_time]:
        parts += [Text(), Text(f"tools from last time: {', '.join(old)}", style="dim")]
    return Group(*parts, Text(), Text(LEGEND, style="dim"))


def daemon_line(status: Status) -> Text:
    """The daemon: its version, pid and age, how many clients it has and how many servers are ready."""
    daemon = status.daemon
    ready = sum(server.state == "ready" for server in status.servers)
    text = Text(f"mcpx {daemon.version}", style="bold")
    rest = f"  pid {daemon.pid}, up {duration(daemon.uptime_s)}, {counted(daemon.clients, 'client')}"
    rest += f", {ready} of {len(status.servers)} servers ready"
    for state in (*FAULTS, "asleep", "disabled"):
        if number := sum(server.state == state for server in status.servers):
            rest += f", {number} {'retrying' if state == 'waiting' else state}"
    if isinstance(status.nodes, list):
        rest += nodes_ready(status.nodes)
    return text.append(rest, style="not bold")


def _http(http: HttpStatus) -> Text:
    tokens = f", {http.named_tokens} named tokens" if http.named_tokens else ""
    return Text(f"http {http.url or 'is starting'}{tokens}")


def _http_problem(http: HttpStatus) -> Text:
    wait = "" if http.next_attempt_in_s is None else f" (next attempt in {duration(http.next_attempt_in_s)})"
    return Text(one_line(f"http is not served{wait}: {http.error}"), style="red")


def _audit(audit: AuditStatus) -> Text:
    counts = f"{audit.waiting} lines wait" + (f", {audit.lost} are lost" if audit.lost else "")
    refuses = "; calls are refused (audit_required)" if audit.required else ""
    return Text(one_line(f"audit: cannot be written: {audit.problem} ({counts}){refuses}"), style="red")


def _variables(variables: list[VariableStatus]) -> list[Text]:
    """List what a server's process was given, by where it came from."""
    lines = [] if variables else [Text("no process of it has been started yet", style="dim")]
    for source in dict.fromkeys(each.source for each in variables):
        lines.append(Text(f"given by {one_line(source)}:", style="dim"))
        lines += [
            Text(f"  {one_line(f'{each.name}={each.value}')}") for each in variables if each.source == source
        ]
    return lines


def _environment(environment: EnvironmentStatus) -> Text:
    style = "dim" if isinstance(environment.problem, msgspec.UnsetType) else "yellow"
    return Text(one_line(f"PATH and variables from {environment.source}"), style=style)


def problems(daemon: DaemonStatus) -> list[Text]:
    """A line for each thing that is wrong with the daemon itself: configuration, pins, HTTP, audit log."""
    said = (
        ("configuration not reloaded: ", daemon.config_error),
        ("what servers offer cannot be pinned: ", daemon.pins_error),
    )
    found = [Text(what, style="red").append(one_line(problem)) for what, problem in said if problem]
    if isinstance(upgrade := daemon.upgrade, UpgradeStatus):
        text = f"MCPX {upgrade.installed} is installed and waits for a restart: {upgrade.command}"
        found.append(Text(one_line(text), style="yellow"))
    if isinstance(daemon.http, HttpStatus) and daemon.http.error is not None:
        found.append(_http_problem(daemon.http))
    if isinstance(daemon.audit, AuditStatus):
        found.append(_audit(daemon.audit))
    found += [Text(one_line(each.text), style="red") for each in daemon.parked or ()]
    if isinstance(daemon.faults, dict):
        found.append(_faults(daemon.faults))
    return found


def _faults(faults: Mapping[str, int]) -> Text:
    places = ", ".join(f"{place} {count}" for place, count in sorted(faults.items()))
    text = f"faults of MCPX itself since its start: {places} (the log has the cause of each: fault.contained)"
    return Text(one_line(text), style="yellow")


class _Servers:
    """The rows of the servers, in as many columns as a narrow window has room for beside whole names."""

    def __init__(self, servers: list[ServerStatus]) -> None:
        self._servers = servers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table that fits the window."""
        is_usual = options.max_width >= USUAL_CELLS
        for number in range(FEW_LEFT_OUT + 1 if is_usual else len(LEFT_OUT) + 1):
            table = _table(self._servers, LEFT_OUT[:number])
            if _width(console, table) <= options.max_width:
                break
        else:
            table = _table(self._servers) if is_usual else table
        yield table


def _width(console: Console, table: Table) -> int:
    """The cells that a table takes where it has as many as it likes."""
    return console.measure(table, options=console.options.update(width=MAX_CELLS)).maximum


def _table(servers: list[ServerStatus], left_out: Collection[str] = ()) -> Table:
    placed = any(server.node for server in servers)
    numbers = {header: NUMBER for header in HEADERS if header not in left_out}
    first: dict[str, Any] = FOLD | {"min_width": MIN_NAME_CELLS}
    table = table_of({"server": first, "state": NO_WRAP, **numbers, **({"node": FOLD} if placed else {})})
    for server in servers:
        node = [Text(one_line(server.node or "-"))] if placed else []
        name, state, *cells = _row(server)
        kept = [cell for header, cell in zip(HEADERS, cells, strict=True) if header not in left_out]
        table.add_row(name, state, *kept, *node)
    return table


def _row(server: ServerStatus) -> list[Text]:
    latency = server.latency_ms
    cells = (
        "-" if server.pid is None else str(server.pid),
        duration(server.uptime_s),
        count(server.restarts),
        count(server.tools),
        count(server.resources),
        count(server.in_flight) + (f"+{count(server.queued)}" if server.queued else ""),
        count(server.calls),
    )
    times = (Text("-" if each is None else precise(each, PRECISE_MS)) for each in (latency.p50, latency.p99))
    failed = Text(count(server.failed), style="red" if server.failed else "")
    refused = Text(count(server.refused), style="yellow" if server.refused else "")
    return [Text(one_line(server.name)), shown_state(server), *map(Text, cells), failed, refused, *times]


def shown_state(server: ServerStatus) -> Text:
    """The state in a word or three, in its colour."""
    own = f" x{server.sessions}" if server.sessions else ""
    state = server.state
    if state == "waiting" and server.next_attempt_in_s is not None:
        state = f"retries in {duration(server.next_attempt_in_s)}"
    return Text(state + own, style=STYLES.get(server.state, ""))


def remarks(server: ServerStatus) -> list[tuple[str, str]]:
    """Remarks on a server: a line and its style each."""
    found: list[tuple[str, str]] = []
    silent_s = server.silent_s
    if isinstance(silent_s, float) and silent_s >= SILENT_FROM_S:
        found.append((f"busy, no sign of life for {duration(silent_s)}", "yellow"))
    if server.listens_at:
        found.append((f"listens at {one_line(server.listens_at)}", "dim"))
    found += map(_instance, server.instances or ())
    if server.changes:
        found.append((_changed(server.name, server.changes), "yellow"))
    if isinstance(server.sign_in, SignInStatus):
        found += _sign_in_remarks(server.sign_in, needed=server.state == NEEDS_SIGN_IN)
    if server.last_error and server.state != NEEDS_SIGN_IN:
        is_past = server.state in {"ready", "asleep"}
        cause = ("earlier: " if is_past else "") + one_line(server.last_error)
        found.append((cause, "dim" if is_past else STYLES.get(server.state, "")))
        if server.remedy:
            found.append((one_line(str(server.remedy)), STYLES.get(server.state, "")))
    return found


def _instance(each: InstanceStatus) -> tuple[str, str]:
    """The remark on the session in one project, and its style: `/home/me/shop: ready, pid 4711, up 5 m`."""
    text = f"{each.project or 'in no project'}: {each.state}"
    text += f", pid {each.pid}" if each.pid is not None else ""
    text += f", up {duration(each.uptime_s)}" if each.uptime_s is not None else ""
    text += f", restarts {each.restarts}" if each.restarts else ""
    text += f": {each.last_error}" if each.last_error and each.state not in {"ready", "asleep"} else ""
    return one_line(text), STYLES.get(each.state, "")


def _peer(peer: PeerStatus) -> tuple[str, str]:
    """The remark on another MCPX whose servers are servers here, and its style."""
    text = f"mcpx, {peer.state}, {counted(peer.servers, 'server')}"
    if peer.state != "ready" and peer.next_attempt_in_s is not None:
        text += f", retries in {duration(peer.next_attempt_in_s)}"
    if peer.state != "ready" and peer.last_error:
        text += f": {peer.last_error}"
    if peer.left_out:
        text += f"; left out: {', '.join(peer.left_out[:MAX_NAMED_CHANGES])}"
        more = len(peer.left_out) - MAX_NAMED_CHANGES
        text += f" and {more} more" if more > 0 else ""
    return one_line(text), "yellow" if peer.left_out else STYLES.get(peer.state, "")


def _sign_in_remarks(sign_in: SignInStatus, *, needed: bool) -> list[tuple[str, str]]:
    """`sign in with: mcpx login linear`, what else it wants, and what was wrong with the last refresh."""
    found: list[tuple[str, str]] = []
    wanted = " ".join(sign_in.wanted_scopes or [])
    if sign_in.command and needed:
        found.append((one_line(f"sign in with: {sign_in.command}"), "yellow"))
    elif sign_in.command and wanted:
        found.append((one_line(f"wants more scopes ({wanted}): {sign_in.command}"), "yellow"))
    if sign_in.problem:
        found.append((one_line(sign_in.problem), "yellow"))
    if sign_in.account:
        found.append((one_line(f"signed in as {sign_in.account}"), ""))
    return found


def _changed(name: str, changes: list[ChangeStatus]) -> str:
    """`commit has changed (description), push is new: mcpx approve git`."""
    named = ", ".join(each.summary for each in changes[:MAX_NAMED_CHANGES])
    more = f" and {len(changes) - MAX_NAMED_CHANGES} more" if len(changes) > MAX_NAMED_CHANGES else ""
    return one_line(f"mcpx approve {shlex.quote(name)}: {named}{more}")


def _lines(said: list[tuple[str, str, str]]) -> list[Text]:
    """A line for each remark behind the name of its server; one with a command to type is never cut."""
    names = [one_line(name) for name, _, _ in said]
    width = min(MAX_LEAD_CELLS, max(map(cell_len, names)))
    return [
        Text(
            name + " " * max(0, width - cell_len(name)) + "  ",
            no_wrap="mcpx " not in text,
            overflow="fold" if "mcpx " in text else "ellipsis",
        ).append(text, style)
        for name, (_, text, style) in zip(names, said, strict=True)
    ]

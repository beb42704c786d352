"""`mcpx cluster`: servers on the nodes of a Ray cluster. The daemon does what is done; this asks it."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final

import click

from mcpx.cli.group import Group
from mcpx.cli.operations.running import gateway_name, gateway_problem
from mcpx.cli.options import json_option, with_config
from mcpx.cli.printing import FOLD, NO_WRAP, RIGHT, Cell, echo, print_json, print_table, print_texts
from mcpx.core.config import load
from mcpx.core.config.load import remove_cluster_file, write_cluster_file
from mcpx.core.daemon import lifecycle
from mcpx.core.daemon.control_client import REQUEST_TIMEOUT_S, request
from mcpx.core.store.paths import DaemonPaths, daemon_paths
from mcpx.core.system.light_imports import light_sdk
from mcpx.core.text import one_line
from mcpx.errors import MCPXError
from mcpx.paths import config_hint

# --- the table of nodes

MAX_PROBLEM: Final = 500  # characters
OPEN: Final = (
    "Ray answers without a token: whoever reaches it, other users of its machines too, owns this cluster."
    " docs/deployment.md, Security, says how to close it"
)
_STYLES: Final = {"up": "green", "failing": "red", "not answering": "red"}
_PLAIN: Final = frozenset({"memory", "object_store_memory"})


def show_nodes(answer: dict[str, Any]) -> None:
    """Print the link to Ray, and the nodes, a row each; what is wrong with one stands below."""
    about, nodes = answer["cluster"], answer["nodes"]
    if about["joined"]:
        print_texts(
            [f"Ray {about['ray']} at {about['gcs']}", *([(OPEN, "yellow")] if about.get("open") else [])]
        )
    else:
        problem = one_line(about.get("problem", "it was not asked yet"), MAX_PROBLEM)
        print_texts([(f"Ray at {one_line(about['address'])} cannot be asked: {problem}", "red")])
    if not nodes:
        print_texts(["no nodes are known"])
        return
    print_table(
        {
            **dict.fromkeys(("node", "host", "state"), NO_WRAP),
            **dict.fromkeys(("sessions", "free memory"), RIGHT),
            "free resources": FOLD,
            "version": NO_WRAP,
        },
        map(_node, nodes),
    )
    print_texts(
        (one_line(f"{row['name']}: {row['problem']}", MAX_PROBLEM), "red")
        for row in nodes
        if "problem" in row
    )


def _node(row: dict[str, Any]) -> tuple[Cell, ...]:
    state = "draining" if row["draining"] and row["state"] == "up" else row["state"]
    return (
        row["name"],
        row["host"],
        (state, _STYLES.get(state, "")),
        str(row["sessions"]),
        _memory(row),
        _resources(row),
        row.get("version", "-"),
    )


def _memory(row: dict[str, Any]) -> str:
    free, total = row.get("memory_free_bytes"), row.get("memory_bytes")
    if not free or not total:
        return "-"
    return f"{free / (1 << 30):.1f} of {total / (1 << 30):.1f} GB"


def _resources(row: dict[str, Any]) -> str:
    total, free = row["resources"], row["free"]
    parts = [
        f"{name} {free.get(name, 0):g}/{amount:g}"
        for name, amount in sorted(total.items())
        if name not in _PLAIN
    ]
    return one_line(", ".join(parts))


# --- the gateways, a line each

MAX_SHOWN: Final = 100


def show_gateways(answer: dict[str, Any]) -> None:
    """Print who they are, and whose configuration differs from that of the one that was asked."""
    rows = answer.get("gateways", [])
    for row in rows[:MAX_SHOWN]:
        differs = "" if row["same_config"] else f"configuration differs from {gateway_name(rows[0])}"
        notes = [text for text in (differs, gateway_problem(row)) if text]
        here = " (this one)" if row["self"] else ""
        text = f"gateway {gateway_name(row)}{here}  MCPX {row['version']}"
        echo("  ".join([one_line(text), *map(one_line, notes)]), fg="yellow" if notes else None)
    if len(rows) > MAX_SHOWN:
        echo(f"and {len(rows) - MAX_SHOWN} more gateways; --json has all of them")
    if problem := answer.get("not_shared"):
        echo(f"nothing is shared with other gateways now: {one_line(problem)}", fg="yellow", err=True)


JOIN_TIMEOUT_S: Final = 60.0  # for Ray to be joined, and the nodes to be up: 3 s on a quiet machine
SETTLED_S: Final = 3.0  # after which a node that only fails is not waited for
STOP_TIMEOUT_S: Final = 20.0  # for nodes to end in order, or else at once
POLL_S: Final = 0.2
INSTALL: Final = "Ray is not installed here; install it with: pip install 'mcpx-gateway[ray]'"
_PENDING: Final = frozenset({"starting", "stopped", "not answering"})


@click.group(cls=Group, short_help="Servers on the nodes of a Ray cluster: start, status, drain.")
def cluster() -> None:
    """Run servers on the nodes of a Ray cluster, which decides where. The daemon is their gateway."""


@cluster.command(short_help="Join a cluster, and have nodes run.")
@with_config
@click.option(
    "--address",
    default="auto",
    show_default=True,
    metavar="auto|HOST:PORT",
    help="Ray's GCS; auto: the cluster that this machine is a node of.",
)
@click.option("--allow-open", is_flag=True, help="Join one without token authentication, too.")
@json_option
def start(*, config_path: str | None, address: str, allow_open: bool, as_json: bool) -> None:
    """Have the daemon join the cluster, and a node run on each of its machines; wait until they do.

    All daemons of this configuration join it from now on, until mcpx cluster stop. A running daemon is
    restarted; attached clients stay connected. Exit code 1 if the cluster cannot be joined now:
    the daemon keeps trying. A cluster whose Ray answers without a token is refused, because whoever reaches
    it, other users of its machines too, can run programs there and read what nodes are trusted by.
    """
    _check(address)
    paths = daemon_paths(config_path)
    load(paths.config, resolve=False)
    write_cluster_file(paths.folder, address, allow_open=allow_open)
    _run_daemon(paths, address, allow_open=allow_open)
    answer = _wait(paths)
    if as_json:
        print_json(answer)
    else:
        show_nodes(answer)
    if not answer["cluster"]["joined"]:
        echo("the daemon keeps trying; mcpx cluster stop takes it out of the cluster again", err=True)
        sys.exit(1)


@cluster.command(short_help="Leave the cluster, and end the daemon.")
@with_config
@click.option("--nodes", is_flag=True, help="End the nodes as well, for all gateways, until one starts them.")
def stop(*, config_path: str | None, nodes: bool) -> None:
    """End the daemon in order; the next one runs its servers on this machine.

    Nodes keep running for other gateways. They end the servers of this one after two minutes.
    """
    paths = daemon_paths(config_path)
    if nodes:
        _ask(paths, "stop_nodes", timeout=STOP_TIMEOUT_S)
        click.echo("the nodes have ended")
    else:
        with suppress(MCPXError):  # no daemon runs, or Ray is away: nothing is held that it could give up
            _ask(paths, "leave")
    was_there = remove_cluster_file(paths.folder)
    pid = lifecycle.stop(paths, marked=True)
    click.echo(f"no daemon serves {paths.config}" if pid is None else f"stopped pid {pid}")
    if load(paths.config, resolve=False).cluster is not None:
        echo(f"the next daemon joins again: {paths.config} says so with the key cluster", err=True)
    elif not was_there:
        click.echo("it was in no cluster")


@cluster.command(short_help="The nodes, and what they carry.")
@with_config
@json_option
def status(*, config_path: str | None, as_json: bool) -> None:
    """Show the nodes of the cluster. Exit code 1 while Ray cannot be asked."""
    answer = _ask(daemon_paths(config_path))
    if as_json:
        print_json(answer)
    else:
        show_nodes(answer)
        show_gateways(answer)
    if not answer["cluster"]["joined"]:
        sys.exit(1)


@cluster.command(short_help="Take a node out of use.")
@with_config
@click.argument("node")
@click.option(
    "--wait",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until nothing is left there.",
)
@json_option
def drain(*, node: str, wait: float, config_path: str | None, as_json: bool) -> None:
    """Place nothing more on a node, and move its servers to others as each is idle; no call is lost.

    NODE is its name, its host, or the beginning of its id. All gateways of the cluster do so; what is waited
    for is what this one has there. Exit code 1 if something is left: it moves as soon as it can.
    """
    answer = _ask(daemon_paths(config_path), "drain", node, timeout=wait)
    if as_json:
        print_json(answer)
    elif answer["left"]:
        echo(f"{answer['node']} takes nothing new; still there: {', '.join(answer['left'])}")
    else:
        echo(f"{answer['node']} is drained: it takes nothing new, and nothing of this gateway is left there")
    if answer["left"]:
        sys.exit(1)


@cluster.command(short_help="Put a node back into use.")
@with_config
@click.argument("node")
@json_option
def undrain(*, node: str, config_path: str | None, as_json: bool) -> None:
    """Place servers on a drained node again."""
    answer = _ask(daemon_paths(config_path), "undrain", node)
    if as_json:
        print_json(answer)
    else:
        echo(f"{answer['node']} takes servers again")


@cluster.command(hidden=True)
def node() -> None:
    """Be a node: started by the cluster on each machine, with one line on standard input."""
    from mcpx.core.telemetry.log import configure  # structlog, for a node alone

    configure()
    with light_sdk():
        from mcpx.cluster.node.process import main  # likewise the SDK

    sys.exit(main())


def _check(address: str) -> None:
    """Refuse what cannot work before anything is changed."""
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and port.isdecimal()):
        raise click.UsageError(f"--address {address}: HOST:PORT of Ray's GCS, or auto")
    if find_spec("ray") is None:
        raise MCPXError(INSTALL)


def _run_daemon(paths: DaemonPaths, address: str, *, allow_open: bool) -> None:
    """Have a daemon run that is in the cluster at that address, with nodes."""
    try:
        answer = request(paths, {"mcpx": "cluster"})
    except MCPXError:  # it is in none
        answer = {}
    about = (answer or {}).get("cluster", {})
    is_same = (about.get("address"), about.get("allow_open")) == (address, allow_open)
    if is_same and about["joined"]:
        return
    with lifecycle.startup_lock(paths) as lock:
        lifecycle.stop(paths, marked=False)
        lifecycle.start(paths, lock=lock)


def _wait(paths: DaemonPaths) -> dict[str, Any]:
    """Wait until the cluster is joined and each node is up or keeps failing; return its state."""
    deadline = time.monotonic() + JOIN_TIMEOUT_S
    is_told, failing_since = False, None
    while True:
        answer = _ask(paths)
        now = time.monotonic()
        if answer["cluster"]["joined"] and not is_told:
            answer, is_told = _ask(paths, "start_nodes"), True
        states = [row["state"] for row in answer["nodes"]]
        is_quiet = is_told and bool(states) and not any(state in _PENDING for state in states)
        if is_quiet and "failing" not in states:
            return answer
        is_refused = not answer["cluster"]["joined"] and answer["cluster"].get("refused")
        failing_since = (failing_since or now) if is_quiet or is_refused else None
        if now > deadline or (failing_since is not None and now - failing_since > SETTLED_S):
            return answer
        time.sleep(POLL_S)


def _ask(
    paths: DaemonPaths, do: str = "", node: str | None = None, *, timeout: float = 0.0
) -> dict[str, Any]:
    """Have the daemon do that within `timeout` seconds, and return the state of the cluster."""
    message: dict[str, Any] = {"mcpx": "cluster"}
    if do:
        message |= {"do": do, "timeout": timeout}
    if node is not None:
        message["node"] = node
    answer: dict[str, Any] | None = request(paths, message, within=REQUEST_TIMEOUT_S + timeout)
    if answer is None:
        hint = config_hint(paths.config)
        raise MCPXError(
            f"no daemon serves {paths.config}; join a cluster with: mcpx cluster start{hint}, or, where it"
            f" was in one before, start the daemon with: mcpx daemon start{hint}"
        )
    return answer

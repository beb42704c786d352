"""The daemon: does it answer, how are its servers and its cluster, its socket and port; and other daemons."""

from __future__ import annotations

import os
import shlex
import socket
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from mcpx.core.config import Config
from mcpx.core.daemon.control_client import request
from mcpx.core.daemon.lifecycle import running_daemons
from mcpx.core.daemon.status import PartStatus
from mcpx.core.policy.tokens import TokenError, load_named, named_tokens_file, token_file
from mcpx.core.store.paths import DaemonPaths
from mcpx.core.store.stale import clean_up
from mcpx.core.system.environment import BASIC
from mcpx.core.system.processes import command_lines, group_memory
from mcpx.core.text import cut, one_line
from mcpx.core.wire.unreachable import OFFLINE
from mcpx.errors import DaemonError, MCPXError
from mcpx.setup.doctor.installation import STATUS_TIMEOUT_S, Finding, Fix, Installation, note, ok, wrong
from mcpx.setup.doctor.servers import offline_text
from mcpx.version import __version__

SUBJECT: Final = "daemon"
CLUSTER: Final = "cluster"
TWO: Final = "two daemons"
LARGE_BYTES: Final = 80 << 20  # of a server that is worth stopping while nobody uses it
UNUSED_S: Final = 3600.0
"""Of uptime without a call, after which a large server is worth stopping."""
MAX_LEFT_OUT: Final = 5  # servers of another MCPX that are named
MAX_NAMED: Final = 8  # nodes
MIB: Final = 1 << 20
MAX_SHOWN: Final = 60  # characters of a variable
OPEN: Final = (
    "Ray answers without a token: whoever reaches it, other users of its machines too, can run programs there"
    " and read the token and key of the nodes"
)


def check_daemon(installation: Installation) -> Iterator[Finding]:
    """Check the daemon of this configuration, and look for others."""
    paths = installation.found_paths
    if isinstance(paths, DaemonError):
        yield wrong(SUBJECT, str(paths))
        return
    if installation.owner is None:
        yield from _none_runs(installation, paths)
    else:
        yield from _one_runs(installation, installation.owner.pid)
    yield from _others(installation, paths)


def _none_runs(installation: Installation, paths: DaemonPaths) -> Iterator[Finding]:
    if (problem := _in_the_way(paths.socket)) is not None:
        yield problem
    else:
        yield ok(SUBJECT, "none runs; the first client starts it")
        yield _environment(installation.environment.inherited().shown())
    if installation.config is not None and installation.config.http_served:
        yield from _port_taken(installation.config)
        yield from check_tokens()


def _in_the_way(path: Path) -> Finding | None:
    """Return what stands where the next daemon will listen."""
    try:
        found = path.lstat()
    except OSError:
        return None
    if found.st_uid != os.getuid():
        return wrong(SUBJECT, f"{path} belongs to another user", "name another folder with MCPX_STATE_DIR")
    if not stat.S_ISSOCK(found.st_mode):
        return wrong(SUBJECT, f"{path} is in the way of the daemon's socket, and is none", f"rm {path}")
    text = f"none runs; one that was killed has left its socket {path}, which the next one replaces"
    return note(SUBJECT, text, fix=Fix("remove what daemons that are gone have left", clean_up))


def _port_taken(config: Config) -> Iterator[Finding]:
    host, port = config.http.host, config.http.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            text = f"cannot listen on {host}:{port}: {error.strerror}"
            advice = f'end the program that does, or choose another "port" of "http" in {config.source}'
            yield wrong("HTTP", text, advice)
        else:
            yield ok("HTTP", f"{host}:{port} is free")


def check_tokens() -> Iterator[Finding]:
    """Check the tokens of HTTP clients, which MCPX does not use if others may know or change them."""
    for file, what in ((token_file(), "the token"), (named_tokens_file(), "the hashes of tokens")):
        mode = stat.S_IMODE(file.stat().st_mode) if file.is_file() else 0
        if mode & 0o077:
            text = f"others may read {what} in {file} (mode {mode:o}), so that it is not used"
            chmod = f"chmod 600 {shlex.quote(str(file))}"
            yield wrong("HTTP", text, chmod, fix=Fix(chmod, partial(file.chmod, 0o600)))
            return
    try:
        named = load_named()
    except TokenError as error:
        yield wrong("HTTP", f"no token with a name lets in: {error}", "mcpx token list")
        return
    if expired := [token.name for token in named if token.is_expired(datetime.now(UTC))]:
        advice = f"mcpx token revoke {expired[0]}"
        yield note("HTTP", f"expired, and of no more use: {', '.join(expired)}", advice)


def _one_runs(installation: Installation, pid: int) -> Iterator[Finding]:
    answer = installation.answer
    if isinstance(answer, MCPXError):
        advice = f"{installation.command('daemon', 'restart')}; if that does not help: kill -9 {pid}"
        yield wrong(SUBJECT, f"pid {pid} does not answer: {answer}", advice)
        return
    if answer is None:
        text = f"pid {pid} runs, and does not listen: it is starting or ending"
        yield note(SUBJECT, text, f"if it stays so: kill -9 {pid}")
        return
    about = answer["daemon"]
    if about["version"] != __version__:
        text = f"pid {pid} is of MCPX {about['version']}, and this command of {__version__}"
        yield wrong(SUBJECT, text, installation.command("daemon", "restart"))
    else:
        up = f"up {about['uptime_s']:.0f} s, clients: {about['clients']}"
        yield ok(SUBJECT, f"pid {pid} answers; {up}", pid=pid)
    path = (about.get("environment") or {}).get("path", installation.environment.path)
    if path != installation.environment.path:
        text = f"looks for commands on another PATH than you have now: {path}"
        yield note(SUBJECT, text, installation.command("reload"))
    yield from _given(installation)
    if problem := about.get("config_error"):
        text = f"goes on with what it read before, because the file was changed and cannot be used: {problem}"
        yield wrong(SUBJECT, text, installation.command("check"))
    for part in about.get("parked", ()):
        yield wrong(SUBJECT, msgspec.convert(part, PartStatus).text, installation.command("reload"))
    http = about.get("http") or {}
    if error := http.get("error"):
        yield wrong("HTTP", f"is not served: {error}", installation.command("daemon", "status"))
    elif http:
        yield from check_tokens()
    yield from _its_servers(installation, answer["servers"])
    yield from _its_peers(installation, answer.get("peers", ()))
    if (cluster := answer.get("cluster")) is not None:
        yield from check_cluster(installation, cluster, answer.get("nodes", ()), about["version"])


def _given(installation: Installation) -> Iterator[Finding]:
    """Report what servers are given of the environment, beside the basic variables, and from where."""
    if installation.paths is None:
        return
    try:
        said = request(installation.paths, {"mcpx": "environment"}, within=STATUS_TIMEOUT_S) or {}
    except MCPXError:  # that it does not answer is found elsewhere
        return
    yield _environment(said.get("variables", ()))


def _environment(variables: Iterable[dict[str, str]]) -> Finding:
    found = [each for each in variables if each["name"] not in BASIC]
    by_source: dict[str, list[str]] = {}
    for each in found:
        by_source.setdefault(each["source"], []).append(f"{each['name']}={cut(each['value'], MAX_SHOWN)}")
    text = "; ".join(f"{', '.join(given)} (from {source})" for source, given in by_source.items())
    more = f"servers are given, beside {', '.join(BASIC)}: {text or 'nothing'}"
    return ok("environment", more, variables=found)


def _its_peers(installation: Installation, peers: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    """Check the other MCPX whose servers are servers here."""
    for peer in peers:
        name, left_out = peer["name"], peer.get("left_out") or ()
        if peer["state"] == "needs sign-in":
            yield wrong(SUBJECT, f"{name} needs a sign-in", installation.command("login", name))
        elif peer["state"] in {"parked", "waiting"}:
            why = one_line(str(peer["last_error"] or "no reason is known"))
            hint = f"does it run, and is its entry in {installation.file} right: url or command, and token?"
            yield wrong(SUBJECT, f"the MCPX {name} is {peer['state']}: {why}", hint)
        if left_out:
            text = f"of the MCPX {name} is left out: {one_line('; '.join(map(str, left_out[:MAX_LEFT_OUT])))}"
            hint = f'"as" in {installation.file} gives a prefix; what comes from here is here already'
            yield note(SUBJECT, text, hint)


def _its_servers(installation: Installation, servers: list[dict[str, Any]]) -> Iterator[Finding]:
    known = [each["name"] for each in servers if each["name"] in installation.failed and _fails(each)]
    if known:  # it was said why, when doctor started them
        which = known[0] if len(known) == 1 else "NAME"
        advice = f"once that is mended: {installation.command('restart', which)}"
        yield note(SUBJECT, f"not available in the daemon, either: {', '.join(known)}", advice)
    failing = [each for each in servers if each["name"] not in known and _fails(each)]
    offline = [each["name"] for each in failing if OFFLINE in str(each["last_error"])]
    if offline:
        yield wrong(SUBJECT, f"in the daemon, {offline_text(offline)}")
    for server in servers:
        name = server["name"]
        if server in failing and name not in offline:
            state = server["state"]
            why = one_line(str(server["last_error"] or "no reason is known"))
            text = f"{name} is {state} in the daemon: {why}"
            yield wrong(SUBJECT, text, f"once that is mended: {installation.command('restart', name)}")
        yield from _its_sign_in(installation, server)
    memory = group_memory(server["pid"] for server in servers if server["pid"])
    for server in servers:
        size = memory.get(server["pid"] or 0, 0)
        if size >= LARGE_BYTES and not server["calls"] and (server["uptime_s"] or 0) >= UNUSED_S:
            hours = server["uptime_s"] / UNUSED_S
            text = f"{server['name']} holds {size / MIB:.0f} MB, and was not called in {hours:.0f} h"
            advice = f'"idle_stop": 600 in its entry in {installation.file} stops it until it is needed'
            yield note(SUBJECT, text, advice)


def _fails(server: dict[str, Any]) -> bool:
    return server["state"] in {"parked", "waiting"}


def _its_sign_in(installation: Installation, server: dict[str, Any]) -> Iterator[Finding]:
    """Report what a server wants of the person who signs in to it."""
    name, sign_in = server["name"], server.get("sign_in") or {}
    command = installation.command("login", name)
    if server["state"] == "needs sign-in":
        if installation.failed.get(name):
            return  # it was said when doctor started it
        why = f": {one_line(sign_in['problem'])}" if sign_in.get("problem") else ""
        yield wrong(SUBJECT, f"{name} needs a sign-in{why}", command)
    elif wanted := sign_in.get("wanted_scopes"):
        yield note(SUBJECT, f"{name} wants more than was agreed to: {one_line(' '.join(wanted))}", command)
    elif problem := sign_in.get("problem"):
        yield note(SUBJECT, f"the sign-in to {name} was not renewed: {one_line(problem)}")


# --- others


def _others(installation: Installation, paths: DaemonPaths) -> Iterator[Finding]:
    try:
        running = running_daemons()
    except DaemonError:  # the folder is what is wrong, and is reported as such
        running = []
    for each in running:
        if each.paths.lock != paths.lock:
            config = each.paths.config
            text = (
                f"another one runs, pid {each.owner.pid}, serving {config}: servers of both files run twice"
            )
            yield note(TWO, text, f"mcpx daemon stop --config {shlex.quote(str(config))}")
    known = {each.owner.pid for each in running} | {installation.owner.pid if installation.owner else None}
    for pid, config in _elsewhere():
        if pid not in known and os.path.realpath(config) == os.path.realpath(paths.config):
            text = (
                f"pid {pid} serves this configuration too, with another state folder: its servers run twice"
            )
            yield wrong(TWO, text, f"kill {pid}")


def _elsewhere() -> Iterator[tuple[int, str]]:
    """The daemons of this user, with any state folder, by their command lines."""
    for pid, words in command_lines():
        for at in range(len(words) - 3):
            if words[at : at + 3] == ["daemon", "run", "--config"] and os.path.isabs(words[at + 3]):
                yield pid, words[at + 3]


# --- the cluster, as status has it


def check_cluster(
    installation: Installation, cluster: dict[str, Any], nodes: Iterable[dict[str, Any]], version: str
) -> Iterator[Finding]:
    """Check the cluster that a daemon of that version has joined, or has not."""
    known, gateways = list(nodes), cluster.get("gateways", [])
    if not cluster["joined"]:
        why = one_line(str(cluster.get("problem") or "it has not answered yet"))
        text = f"the Ray cluster {cluster['address']} is not joined: {why}"
        yield wrong(CLUSTER, text, "ray status, on that machine; then mcpx cluster status")
    elif not known:
        yield wrong(CLUSTER, "it has no node", installation.command("cluster", "start"))
    elif not (up := [node for node in known if node["state"] in {"ready", "draining"}]):
        yield wrong(CLUSTER, "no node answers", installation.command("cluster", "status"))
    else:
        here = "1 gateway" if len(gateways) <= 1 else f"{len(gateways)} gateways"
        yield ok(CLUSTER, f"{cluster['address']}: {len(up)} of {len(known)} nodes answer, {here}")
    if cluster.get("open"):
        yield note(CLUSTER, OPEN, "RAY_AUTH_MODE=token for all of Ray, then mcpx cluster start")
    for node in known:
        if node["state"] == "lost":
            why = one_line(str(node.get("problem") or "no reason is known"))
            text = f"the node {one_line(node['name'])} does not answer: {why}"
            yield wrong(CLUSTER, text, installation.command("cluster", "status"))
    if others := [node for node in known if node.get("version") not in {None, version}]:
        text = f"nodes of another version than this gateway's ({version}): {_named(others)}"
        yield note(
            CLUSTER, text, f"mcpx cluster stop --nodes, then {installation.command('cluster', 'start')}"
        )
    if problem := cluster.get("not_shared"):
        yield wrong(CLUSTER, f"pins are not shared with other gateways: {one_line(str(problem))}")
    for gateway in gateways:
        yield from _its_gateway(gateway, version)


def _its_gateway(gateway: dict[str, Any], version: str) -> Iterator[Finding]:
    where = f"the gateway on {one_line(gateway['host'])} (pid {gateway['pid']})"
    if problem := gateway.get("problem"):
        yield wrong(CLUSTER, f"{where} has not reloaded: {one_line(str(problem))}", "mcpx check, there")
    if gateway["version"] != version:
        yield note(CLUSTER, f"{where} is of another version: {one_line(gateway['version'])}")
    if not gateway["same_config"]:
        yield note(
            CLUSTER, f"{where} has another configuration", "put the same file there, if it is to be the same"
        )


def _named(nodes: list[dict[str, Any]]) -> str:
    names = [f"{one_line(node['name'])} ({one_line(node['version'])})" for node in nodes[:MAX_NAMED]]
    return ", ".join(names) + (f" and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else "")

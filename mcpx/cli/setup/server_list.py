"""The answer of `mcpx list`: the servers of the configuration, with their states in the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from mcpx.cli.printing import NO_WRAP, Columns, echo, print_table, print_texts
from mcpx.core.config import read_config
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.config.strings import URL_KEYS
from mcpx.core.daemon.control_client import request
from mcpx.core.system.paths import daemon_paths
from mcpx.errors import MCPXError
from mcpx.paths import config_file, config_hint
from mcpx.setup.clients.masking import command_line
from mcpx.setup.documents.configuration import entry_at, places_of
from mcpx.setup.documents.editing import read

if TYPE_CHECKING:
    from pathlib import Path

    from mcpx.core.catalog.model import JSON
    from mcpx.core.config import Config, ServerConfig

NOT_RUNNING: Final = "not running"
_TROUBLED: Final = frozenset({"needs setup", "invalid", "waiting", "parked"})
"""The states of which is said why."""


def find_servers(config_path: str | None) -> JSON:
    """`{file, daemon, servers: [{name, state, why?, transport, command}]}`; no values of secrets.

    Raises:
        ConfigError: The configuration cannot be used.
    """
    file = config_file(config_path).absolute()
    if not file.exists():
        return {"file": str(file), "daemon": False, "servers": []}
    known = states(str(file))
    config = _read(file, by_itself=known is None)
    document = read(file.read_bytes(), "json")
    entries = {name: entry_at(document, path) for name, path in reversed(places_of(document))}
    servers = []
    for server in config.servers.values():
        row: dict[str, Any] = {"name": server.name, "state": NOT_RUNNING}
        row |= (known or {}).get(server.name) or _by_entry(server)
        row.pop("peer", None)
        servers.append(
            row | {"transport": server.transport.kind, "command": reached(entries.get(server.name, {}))}
        )
    for name, peer in config.peers.items():
        row = {"name": name, "state": "mcpx"} | _by_entry(peer)
        servers.append(row | {"transport": peer.transport.kind, "command": reached(entries.get(name, {}))})
    for name, state in (known or {}).items():
        if state.pop("peer", None) is not None:
            servers.append({"name": name, **state, "transport": "", "command": ""})
    return {"file": str(file), "daemon": known is not None, "servers": servers}


def _read(file: Path, *, by_itself: bool) -> Config:
    """The configuration; if no daemon says what each server lacks, the login shell says which variables."""
    text = read_config(file)
    config = text.parse(resolve=False)
    lacks = any(each.obstacles for each in (*config.servers.values(), *config.peers.values()))
    return text.parse(secrets_of=()) if by_itself and lacks else config


def _by_entry(server: ServerConfig) -> JSON:
    """`{state, why?}` of a server that cannot be started."""
    found = diagnose(server)
    if found is None:
        return {}
    return {"state": found.state} | _why(found.cause, found.remedy)


def _why(cause: str | None, remedy: str | None) -> JSON:
    """`{why}`: what is wrong and what to do; nothing of a server that a person has switched off."""
    return {} if cause is None else {"why": cause if remedy is None else f"{cause}: {remedy}"}


def reached(entry: Mapping[str, Any]) -> str:
    """The command line or URL of a server by its entry, without secrets."""
    url = next((entry[key] for key in URL_KEYS if key in entry), None)
    return command_line(entry if url is None else {"url": url})


def states(config: str) -> dict[str, JSON] | None:
    """The states of the daemon's servers; None if no daemon runs."""
    with suppress(MCPXError):
        if (status := request(daemon_paths(config), {"mcpx": "status"})) is not None:
            return {each["name"]: _state(each) for each in status["servers"]}
    return None


def _state(server: JSON) -> JSON:
    why = server.get("last_error") if server["state"] in _TROUBLED else None
    said = _why(why, server.get("remedy"))
    if server["state"] == "needs sign-in":
        said = {"why": f"sign in with: {server.get('sign_in', {}).get('command', 'mcpx login')}"}
    peer = {"peer": server["peer"]} if server.get("peer") else {}
    return {"state": server["state"]} | peer | said


def show(found: JSON) -> None:
    """Print the servers, a row each, and beneath why some are not ready."""
    headers: Columns = {
        **dict.fromkeys(("server", "state", "transport"), NO_WRAP),
        "command": {"overflow": "ellipsis"},
    }
    servers = found["servers"]
    print_table(
        headers, [[each[key] for key in ("name", "state", "transport", "command")] for each in servers]
    )
    print_texts((f"{each['name']}: {each['why']}", "yellow") for each in servers if "why" in each)
    if not found["daemon"]:
        start = f"mcpx daemon start{config_hint(found['file'])}"
        echo(f"no daemon runs; a client starts it, or: {start}", err=True)

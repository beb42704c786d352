"""The state of each server as a test knows it, and what every surface of MCPX says of it.

Beside the state that is why the server is not ready, what is missing, and what a person types; each surface
has its own words around these, and no others in their place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mcpx.core.daemon.status import Status
from mcpx.top.columns import COLUMNS
from mcpx.top.history import History
from tests.mcpx.core.daemon.ledger import Surfaces

BY_ENTRY = {"needs setup", "disabled"}
"""The states that the configuration alone shows."""


class Server(msgspec.Struct, frozen=True):
    """One server: its state, why, what to do, what is missing, and how often it was started again."""

    state: str
    cause: str | None = None
    remedy: str | None = None
    missing: tuple[str, ...] = ()
    login: str | None = None
    tools: int = 0
    restarts: int = 0

    @property
    def described(self) -> str:
        """The state with what follows from it, as MCPX puts it."""
        if self.login is not None:
            return f"{self.state}: run: {self.login}"
        return self.state if self.cause is None else f"{self.state}: {self.cause}"


Servers = dict[str, Server]


def states_of(servers: Servers) -> dict[str, str]:
    """The states alone."""
    return {name: server.state for name, server in servers.items()}


async def agree_on_states(surfaces: Surfaces, servers: Servers) -> None:
    """Each surface says of each server the state that it has, why, and what to do."""
    checked, status, table = await surfaces.run_all(
        ("check", "--json"), ("status", "--json"), ("status",), codes={0, 1}
    )
    _check(json.loads(checked), servers)
    _status(json.loads(status), servers)
    _table(table, servers)
    _top(json.loads(status), servers)
    await _page(surfaces, servers)
    await _scraped(surfaces, servers)


def _check(found: dict[str, Any], servers: Servers) -> None:
    for row in found["servers"]:
        server = servers[row["name"]]
        shown = row["state"], row["cause"], row["remedy"], tuple(row["missing"])
        is_seen = server.state in BY_ENTRY
        said = (server.state, server.cause, server.remedy, server.missing)
        assert shown == (said if is_seen else (None, None, None, ())), row
    assert {row["name"] for row in found["servers"]} == set(servers)


def _status(found: dict[str, Any], servers: Servers) -> None:
    for row in found["servers"]:
        server = servers[row["name"]]
        assert (row["state"], row["tools"]) == (server.state, server.tools), row
        assert (row["restarts"], row["in_flight"], row["queued"]) == (server.restarts, 0, 0), row
        assert (row.get("remedy"), tuple(row.get("missing", ()))) == (server.remedy, server.missing), row
        assert _login(row, server) == server.login, row
        assert server.state == "ready" or row["last_error"] == _cause(server), row
        assert (row["pid"] is not None) == (server.state == "ready" and row["transport"] == "stdio"), row
    assert {row["name"] for row in found["servers"]} == set(servers)


def _login(row: dict[str, Any], server: Server) -> str | None:
    """The command of a sign-in that is needed; one that is done has it, too."""
    command: str | None = row.get("sign_in", {}).get("command")
    return command if server.state == "needs sign-in" else None


def _cause(server: Server) -> str | None:
    return server.described if server.login else server.cause


def _table(text: str, servers: Servers) -> None:
    """`mcpx status` as it is printed."""
    states = [server.state for server in servers.values()]
    said = f", {states.count('ready')} of {len(states)} servers ready"
    for state in ("parked", "waiting", "invalid", "needs setup", "needs sign-in", "disabled"):
        if number := states.count(state):
            said += f", {number} {'retrying' if state == 'waiting' else state}"
    first, *lines = text.splitlines()
    assert first.endswith(said), first
    remarks = lines[lines.index("", lines.index("") + 1) :]
    for name, server in servers.items():
        assert any(re.match(rf"{name} +{server.state} ", line) for line in lines), (name, text)
        if server.state != "ready":
            shown = [line.removeprefix(name).strip() for line in remarks if line.startswith(f"{name} ")]
            wanted = [f"sign in with: {server.login}"] if server.login else [server.cause, server.remedy]
            assert shown == ([each for each in wanted if each] if server.described != "disabled" else [])


def _top(status: dict[str, Any], servers: Servers) -> None:
    """`mcpx top`, of what it asks for."""
    overview = History().take(msgspec.convert(status, Status), at=0.0)
    cell = {column.header: column.cell for column in COLUMNS}
    assert {row.name: cell["state"](row, {}).plain for row in overview.rows} == states_of(servers)


async def _page(surfaces: Surfaces, servers: Servers) -> None:
    cards = (await surfaces.topic("overview"))["servers"]
    assert {card["name"] for card in cards} == set(servers)
    for card in cards:
        server = servers[card["name"]]
        one = (await surfaces.topic(f"server:{card['name']}"))["card"]
        for each in (card, one):
            assert (each["state"], each["described"]) == (server.state, server.described), each
            shown = each.get("remedy"), tuple(each.get("missing", ())), each["tools"], each["restarts"]
            assert shown == (server.remedy, server.missing, server.tools, server.restarts), each
            assert _login(each, server) == server.login, each
            assert server.state == "ready" or each["last_error"] == _cause(server), each


async def _scraped(surfaces: Surfaces, servers: Servers) -> None:
    found = await surfaces.scrape()
    of_servers = found["mcpx_server_state"]
    assert {name: state for (name, state), value in of_servers.items() if value} == states_of(servers)
    states = [server.state for server in servers.values()]
    counted = {state: value for (state,), value in found["mcpx_servers"].items() if value}
    assert counted == {state: states.count(state) for state in states}
    up = {
        name: float(server.state == "ready") for name, server in servers.items() if server.state != "disabled"
    }
    assert {name: value for (name,), value in found["mcpx_server_up"].items()} == up
    restarts = {name: value for (name,), value in found["mcpx_server_restarts_total"].items() if value}
    assert restarts == {name: server.restarts for name, server in servers.items() if server.restarts}


# --- doctor, and what a model reads


def doctor_agrees(found: dict[str, Any], servers: Servers, *, starts: bool) -> None:
    """`mcpx doctor --json`; it has started the servers, or not."""
    of_servers: dict[str, dict[str, Any]] = {}
    for each in found["findings"]:
        if each["section"] == "servers":
            of_servers.setdefault(each["subject"], each)
    assert set(of_servers) == set(servers)
    for name, each in of_servers.items():
        level, text, advice, missing = _finding(servers[name], starts=starts)
        assert (each["level"], tuple(each.get("details", {}).get("missing", ()))) == (level, missing), each
        assert each["text"].startswith(text), each
        assert advice is None or each["advice"] == advice, each
    of_daemon = [each for each in found["findings"] if each["section"] == "daemon" and each["level"] != "ok"]
    assert {each["text"]: each["level"] for each in of_daemon} == _in_daemon(servers, starts=starts)
    wrong = [each for each in found["findings"] if each["level"] == "wrong"]
    assert found["wrong"] == len(wrong)
    assert {each["section"] for each in wrong} <= {"servers", "daemon"}, wrong


def _in_daemon(servers: Servers, *, starts: bool) -> dict[str, str]:
    """What is said of the servers in the daemon, and at which level; nothing twice where each was started."""
    parked = [name for name, server in servers.items() if server.state == "parked"]
    if starts:
        return {f"not available in the daemon, either: {', '.join(parked)}": "note"}
    said = {f"{name} needs a sign-in" for name, server in servers.items() if server.login}
    said |= {f"{name} is parked in the daemon: {servers[name].cause}" for name in parked}
    return dict.fromkeys(said, "wrong")


def _finding(server: Server, *, starts: bool) -> tuple[str, str, str | None, tuple[str, ...]]:
    """The level, the beginning of the text, the advice and what is missing, of a server."""
    if server.state == "disabled":
        return "ok", "disabled in the configuration", None, ()
    if server.state == "needs setup":
        return "wrong", server.described, server.remedy, server.missing
    if not starts:
        return "ok", "was not started", None, ()
    if server.state == "ready":
        return "ok", "ready in ", None, ()
    return "wrong", server.described if server.login else str(server.cause), server.login, ()


def inspect_agrees(result: dict[str, Any], servers: Servers) -> None:
    """What `inspect` says to a model of all servers: of those that a person has switched off, nothing."""
    shown = {name: server for name, server in servers.items() if server.state != "disabled"}
    first, *lines = result["content"][0]["text"].splitlines()
    tools = sum(server.tools for server in shown.values())
    assert first.startswith(f"{len(shown)} servers, {tools} tools."), first
    alike = dict(_alike(lines))
    for name, server in shown.items():
        said = f"{server.tools} tools" if server.state == "ready" else server.described
        if name in alike:
            assert (server.state, server.tools) == ("ready", shown[alike[name]].tools)
        else:
            assert any(line.startswith(f"{name} ({said})") for line in lines), (name, lines)
    plain = {each["name"]: each for each in result["structuredContent"]["servers"]}
    assert {name: each["state"] for name, each in plain.items()} == states_of(shown)
    for name, each in plain.items():
        assert _details(each) == _details_of(servers[name]), each


def _alike(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each server that is said to have the tools of another, and that."""
    for line in lines:
        if line.startswith("same tools as "):
            leader, _, names = line.removeprefix("same tools as ").partition(": ")
            yield from ((name, leader) for name in names.split(", "))


def inspect_one_agrees(result: dict[str, Any], server: Server) -> None:
    """What `inspect` says to a model of one server."""
    text = result["content"][0]["text"]
    state = server.described if ": " not in server.described else f'"{server.described}"'
    assert f"\nstate: {state}\n" in text, text
    assert server.remedy is None or server.remedy in text, text


def error_agrees(result: dict[str, Any], server: Server) -> None:
    """What a model reads of a call that the server does not take."""
    error = result["structuredContent"]
    assert (error["code"], error["outcome"]) == ("server_unavailable", "not_sent"), error
    assert (error["state"], *_details(error)) == (server.state, *_details_of(server)), error
    text = result["content"][0]["text"]
    assert server.state == "disabled" or f"({server.described}" in text, text
    assert server.remedy is None or server.remedy in text, text


def _details(plain: dict[str, Any]) -> tuple[Any, ...]:
    return plain.get("cause"), plain.get("remedy"), tuple(plain.get("missing", ())), plain.get("sign_in")


def _details_of(server: Server) -> tuple[Any, ...]:
    return _cause(server), server.remedy, server.missing, server.login

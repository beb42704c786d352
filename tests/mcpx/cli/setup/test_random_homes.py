"""Homes made at random: nothing of them is lost by import, install and the way back, and no advice is idle.

What each entry is, and whether it can work outside of its client, the test notes itself while it makes the
home. `MCPX_RANDOM_HOMES=40` plays more of them.
"""

from __future__ import annotations

import json
import os
import random
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpx.core.config import load
from mcpx.setup.clients import client_named, find, read_client_file
from tests.mcpx.cli.setup.ten_clients import look, mcpx

SEEDS = range(int(os.environ.get("MCPX_RANDOM_HOMES", "3")))
NAMES = ["git", "memory", "fetch", "files", "git-shop", "web", "a b", "資料", "x.y", "git-cursor"]
KEYS = {
    "claude-desktop": "mcpServers",
    "claude-code": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
    "windsurf": "mcpServers",
    "gemini": "mcpServers",
    "cline": "mcpServers",
    "zed": "context_servers",
    "opencode": "mcp",
    "codex": "mcp_servers",
    "goose": "extensions",
    "continue": "mcpServers",
}


KINDS = [*["plain"] * 6, "cmd", "variable", "folder", "asks", "relative", "escaped"]
COMMANDS = ["${cmd:touch ~/PWNED}", "${V:-${cmd:touch ~/PWNED}}", "$${cmd:touch ~/PWNED}"]


class Made(NamedTuple):
    """One entry of a client. `works` says whether it can work without the client."""

    client: str
    name: str
    entry: dict[str, Any]
    works: bool
    on: bool


def made(rng: random.Random, client: str, name: str) -> Made:
    """An entry of any kind."""
    if rng.random() < 0.25:
        return Made(client, name, {"url": f"https://h{rng.randrange(3)}.example/mcp"}, True, True)
    entry: dict[str, Any] = {"command": f"/opt/{rng.choice('ab')}", "args": ["--n", rng.choice("12")]}
    kind, works = rng.choice(KINDS), True
    if kind == "cmd":
        entry["args"].append(rng.choice(COMMANDS))
    elif kind == "variable":
        entry["args"].append("${env:HOME}")
    elif kind == "escaped":
        entry["env"] = {"K": "${keychain:x}"}
    elif kind == "folder":
        entry["args"].append("${file}/src")
        works = False
    elif kind == "asks":
        entry["args"].append("${input:key}")
        works = False
    elif kind == "relative":
        entry["cwd"] = "work"
        works = False
    on = rng.random() > 0.2 or client in {"claude-code", "vscode", "gemini"}
    return Made(client, name, entry, works, on)


def written(client: str, entries: list[Made], shop: Path) -> str:
    """The file of a client with these entries; that of Claude Code has one for a folder, too."""
    shaped = {each.name: shape(each) for each in entries}
    if client == "codex":
        return "# mine\n" + "".join(
            f"\n[mcp_servers.{json.dumps(name)}]\n"
            + "".join(f"{key} = {toml(value)}\n" for key, value in entry.items())
            for name, entry in shaped.items()
        )
    if client == "goose":
        lines = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in shaped.items()]
        return "# goose\nextensions:\n" + "\n".join(lines) + "\n" if lines else "GOOSE_MODEL: x\n"
    if client == "continue":
        lines = [f"  - {json.dumps({'name': name, **entry})}" for name, entry in shaped.items()]
        return "name: Mine\nversion: 1.0.0\n" + ("mcpServers:\n" + "\n".join(lines) + "\n" if lines else "")
    document: dict[str, Any] = {KEYS[client]: shaped, "other": [1, "é"]}
    if client == "claude-code":
        document["projects"] = {str(shop): {"mcpServers": {"of-project": {"command": "x", "args": []}}}}
    return json.dumps(document, indent=2, ensure_ascii=False)


def shape(each: Made) -> dict[str, Any]:
    """An entry as its client writes it."""
    entry = {**each.entry}
    if each.client == "opencode" and "command" in entry:
        entry["command"] = [entry["command"], *entry.pop("args")]
        entry |= {"environment": entry.pop("env")} if "env" in entry else {}
    if each.client == "goose":
        kind = "streamable_http" if "url" in entry else "stdio"
        entry = {{"command": "cmd", "env": "envs", "url": "uri"}.get(key, key): entry[key] for key in entry}
        return {"name": each.name, "type": kind, "enabled": each.on, **entry}
    off = {"enabled": False} if each.client in {"zed", "opencode", "codex"} else {"disabled": True}
    return entry if each.on else entry | off


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_home_made_at_random_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    rng, home, shop = random.Random(seed), tmp_path / "home", tmp_path / "shop"
    shop.mkdir()
    entries: dict[tuple[str, str], Made] = {}
    for client in rng.sample(sorted(KEYS), rng.randrange(2, 9)):
        names = rng.sample(NAMES, rng.randrange(5))
        mine = [made(rng, client, name) for name in names]
        if mine and rng.random() < 0.3:  # one that is there twice
            mine.append(mine[0]._replace(name="twin"))
        entries |= {(client, each.name): each for each in mine}
        if client == "claude-code":
            of_project = Made(client, "shop/of-project", {"command": "x"}, works=True, on=True)
            entries[client, of_project.name] = of_project
        path = find(client_named(client), {"HOME": str(home)}, "linux").path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(client, mine, shop))
        path.chmod(rng.choice([0o600, 0o644]))
    before = look(home)
    config = home / ".config/mcpx/config.json"

    plan = json.loads(mcpx(home, "import", "--json", "--dry-run").stdout)
    mcpx(home, "import", "--yes")
    servers = load(config, environ={"HOME": str(home)}, resolve=False).servers if config.exists() else {}
    assert_none_is_lost(plan, entries, servers)
    assert_none_that_cannot_work_is_on(plan, entries, servers)
    again = mcpx(home, "import", "--yes").stdout
    assert "nothing to do" in again, again

    mcpx(home, "install", "--yes")
    assert_no_advice_is_idle(home)
    mcpx(home, "install", "--adopt", "--yes")
    for client in {client for client, _ in entries}:
        file = find(client_named(client), {"HOME": str(home)}, "linux")
        left = {server.name for server in read_client_file(file).servers}
        stay = {name for (of, name), each in entries.items() if of == client and not each.works}
        assert stay <= left, (client, stay, left)
    assert_no_advice_is_idle(home)
    mcpx(home, "check", "--run-commands")
    assert not list(home.rglob("PWNED*"))

    if seed % 2:
        mcpx(home, "uninstall", "--yes")
        after = {name: held for name, held in look(home).items() if not name.startswith(".config/mcpx")}
        assert after == before | {name: held for name, held in after.items() if name == ".config"}
    else:
        while "nothing to take back" not in mcpx(home, "undo", "--yes").stdout:
            pass
        assert look(home) == before


def assert_none_is_lost(plan: dict[str, Any], entries: dict[tuple[str, str], Made], servers: Any) -> None:
    """Each entry is in the configuration, by its name, an alias or one that the plan says; or is left out."""
    where = {
        (origin["client"], origin["name"]): server["name"]
        for server in plan["servers"]
        for origin in server["from"]
    }
    left_out = {
        (client["client"], entry["name"]): entry["reason"]
        for client in plan["clients"]
        for entry in client["left_out"]
    }
    assert where.keys() | left_out.keys() == entries.keys()
    assert not where.keys() & left_out.keys()
    assert all(left_out.values())
    owners = {alias: name for name, server in servers.items() for alias in (name, *server.aliases)}
    for (client, name), server in where.items():
        assert server in servers
        assert name in owners, "each name finds a server"
        rows = next(row["servers"] for row in plan["clients"] if row["client"] == client)
        assert {each["name"]: each["as"] for each in rows}[name] == server
    for client in plan["clients"]:  # what one client has twice stays two
        mine = [name for (of, _), name in where.items() if of == client["client"]]
        assert len(mine) == len({*mine})


def assert_none_that_cannot_work_is_on(
    plan: dict[str, Any], entries: dict[tuple[str, str], Made], servers: Any
) -> None:
    for server in plan["servers"]:
        origins = [entries[origin["client"], origin["name"]] for origin in server["from"]]
        is_on = servers[server["name"]].disabled is None
        assert is_on == any(each.works and each.on for each in origins), (server, origins)
        if not all(each.works for each in origins):
            assert server["needs"], server


def assert_no_advice_is_idle(home: Path) -> None:
    """Each command that `doctor` advises would change something."""
    report = json.loads(mcpx(home, "doctor", "--no-start", "--json").stdout)
    for finding in report["findings"]:
        advice = finding.get("advice", "")
        words = shlex.split(advice) if advice.startswith(("mcpx ", "chmod ")) else [""]
        if words[0] == "chmod":
            assert Path(words[2]).stat().st_mode & 0o077, finding
        elif words[1:2] and words[1] in {"install", "import", "enable", "add"}:
            result = mcpx(home, *words[1:], "--dry-run")
            assert result.exit_code == 0, (finding, result.output)
            assert "nothing to do" not in result.output, finding
            assert "already" not in result.output, finding

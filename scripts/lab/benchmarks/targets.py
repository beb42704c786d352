"""What is measured: the child alone, and three gateways before it, each as its documentation starts it.

A target knows its command and how a call of one of the child's tools is put to it. MCPX runs with its
default settings: nothing is switched off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE / ".venv-peers" / "bin"
PYTHON = getattr(sys, "_base_executable", sys.executable)  # the children need no virtual environment
CHILD = [PYTHON, str(HERE / "child.py")]
DIRECT, MCPX, COMPRESSOR, FASTMCP = "direct", "mcpx", "mcp-compressor", "fastmcp proxy"
NATIVE = "mcpx, native"
RULED, UNAUDITED = "mcpx, with rules", "mcpx, no audit"
SERVER = "echo"
AUDITS, AUDIT_PAIRS = ("on", "off"), 4

Call = Callable[[str, dict], dict]


@dataclass
class Target:
    """One thing to measure. `call` makes the params of tools/call; `tools` must be listed."""

    name: str
    command: list[str]
    call: Call
    tools: set[str]
    env: dict[str, str] = field(default_factory=dict)

    @property
    def installed(self) -> bool:
        """Whether its program is there."""
        return Path(self.command[0]).exists()


def targets(work: Path, payloads: dict[str, Path]) -> list[Target]:
    """All four, before a child that offers these payloads; a peer may not be installed."""
    child = child_with(payloads)
    invoke = f"{SERVER}_invoke_tool"
    return [
        Target(DIRECT, child, _plainly, {"echo", "payload"}),
        mcpx(work / "one", {SERVER: child}),
        Target(
            COMPRESSOR,
            [str(PEERS / "mcp-compressor"), "--server-name", SERVER, "--", *child],
            lambda tool, given: {"name": invoke, "arguments": {"tool_name": tool, "tool_input": given}},
            {invoke},
        ),
        Target(
            FASTMCP,
            [str(PEERS / "python"), str(HERE / "fastmcp_proxy.py"), *child],
            _plainly,
            {"echo", "payload"},
        ),
    ]


def compressor(state: Path, servers: dict[str, list[str]]) -> Target:
    """mcp-compressor before these commands, which it starts before it answers."""
    state.mkdir(parents=True, exist_ok=True)
    config = state / "config.json"
    config.write_text(json.dumps({"mcpServers": _entries(servers)}))
    return Target(COMPRESSOR, [str(PEERS / "mcp-compressor"), "--config", str(config)], _plainly, set())


def child_with(payloads: dict[str, Path]) -> list[str]:
    """The command of the child that offers these payloads."""
    return [*CHILD, *(word for name, path in payloads.items() for word in ("--payload", f"{name}={path}"))]


def native(state: Path, child: list[str]) -> Target:
    """MCPX before the same child, whose tools are called by their own names."""
    target = mcpx(state, {SERVER: child})
    return Target(
        NATIVE,
        [*target.command, "--expose", "all"],
        lambda tool, given: {"name": f"{SERVER}__{tool}", "arguments": given},
        {f"{SERVER}__echo", f"{SERVER}__payload"},
        target.env,
    )


def trusting(work: Path, child: list[str]) -> list[Target]:
    """MCPX before the same child with rules for its tools and the audit log, and with neither of them."""
    rules = {"allow": ["echo", "payload", "read_*"], "deny": ["delete_*"], "ask": ["write_*"]}
    ruled = mcpx(work / "ruled", {SERVER: child}, tools=rules)
    unaudited = mcpx(work / "unaudited", {SERVER: child}, audit="off")
    ruled.name, unaudited.name = RULED, UNAUDITED
    return [ruled, unaudited]


def audited(work: Path, child: list[str]) -> list[Target]:
    """Daemons with the audit log and without, in pairs: one costs up to 5 % more than another of its kind."""
    pairs = [mcpx(work / f"{n}", {SERVER: child}, audit=AUDITS[n % 2]) for n in range(2 * AUDIT_PAIRS)]
    for n, target in enumerate(pairs):
        target.name = f"audit {AUDITS[n % 2]}, {n // 2 + 1}"
    return pairs


def mcpx(state: Path, servers: dict[str, list[str]], **settings: object) -> Target:
    """MCPX before these commands, with a state folder and a configuration of its own."""
    state.mkdir(parents=True, exist_ok=True)
    config = state / "config.json"
    whole = {"result_token_budget": 0, **settings}  # the others show results whole, too
    config.write_text(json.dumps({"mcpServers": _entries(servers), **whole}))
    env = {"MCPX_STATE_DIR": str(state), "MCPX_LOG": "debug", "MCPX_LOG_FORMAT": "json"}
    server = next(iter(servers))

    def call(tool: str, given: dict) -> dict:
        return {"name": "exec", "arguments": {"server_name": server, "tool_name": tool, "arguments": given}}

    command = [sys.executable, "-P", "-m", "mcpx", "serve", str(config)]
    return Target(MCPX, command, call, {"inspect", "exec", "resources"}, env)


def _entries(servers: dict[str, list[str]]) -> dict[str, dict]:
    return {name: {"command": argv[0], "args": argv[1:]} for name, argv in servers.items()}


def _plainly(tool: str, given: dict) -> dict:
    return {"name": tool, "arguments": given}

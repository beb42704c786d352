"""Driving a raw server: its entry in a config, and the lines that it answers with."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.mcpx.scripted import STARTED_QUICKLY, Watch, config_of, open_watched

SERVER = Path(__file__).with_name("raw_server.py")
OBJECT: dict[str, Any] = {"type": "object"}
ECHO: dict[str, Any] = {"name": "echo", "inputSchema": OBJECT}
ABOUT = {"name": "raw", "version": "1"}


def result(value: Any) -> str:
    """A line with that result, given as JSON text or as a value."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f'{{"jsonrpc":"2.0","id":@ID@,"result":{text}}}'


def refusal(code: Any, message: str = "no") -> str:
    return f'{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":{json.dumps(code)},"message":"{message}"}}}}'


def initialize(**members: Any) -> str:
    """The answer to `initialize`, with some members in other words; None leaves one out."""
    said = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": ABOUT,
        **members,
    }
    return result({key: value for key, value in said.items() if value is not ...})


def tools(*odd: Any) -> str:
    """A list of tools: those given, as JSON text or as values, and `echo` behind them."""
    listed = [each if isinstance(each, str) else json.dumps(each) for each in (*odd, ECHO)]
    return result(f'{{"tools":[{",".join(listed)}]}}')


def entry(folder: Path, name: str = "s", **script: Any) -> dict[str, Any]:
    """A server's entry; `settings` are its own, the rest is its script."""
    settings = script.pop("settings", {})
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"ears": str(folder / f"{name}.ears"), **script}))
    return {"command": sys.executable, "args": [*STARTED_QUICKLY, str(SERVER), str(file)], **settings}


@asynccontextmanager
async def raw_server(folder: Path, **script: Any) -> AsyncIterator[Watch]:
    """A hub with one raw server, called `s`, which has been ready or failed once."""
    config = config_of({"s": entry(folder, **script)}, auto_describe=False)
    async with open_watched(config) as watch:
        yield watch


def heard(folder: Path, name: str = "s") -> list[str]:
    """What a server has heard: `started` for each start, and the method of each request."""
    return (folder / f"{name}.ears").read_text().splitlines()

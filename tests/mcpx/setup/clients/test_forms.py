"""MCPX's own entry, in the form of each client, and recognised in each."""

from __future__ import annotations

from typing import get_args

import pytest

from mcpx.core.config.entries import starts_mcpx
from mcpx.setup.clients import Form, write_entry

COMMAND = "/opt/mcpx/bin/mcpx"
WRITTEN = {
    "plain": {"command": COMMAND, "args": ["attach"]},
    "typed": {"type": "stdio", "command": COMMAND, "args": ["attach"]},
    "copilot": {"type": "local", "command": COMMAND, "args": ["attach"], "tools": ["*"]},
    "zed": {"source": "custom", "command": COMMAND, "args": ["attach"], "env": {}},
    "opencode": {"type": "local", "command": [COMMAND, "attach"], "enabled": True},
    "goose": {
        "name": "mcpx",
        "enabled": True,
        "type": "stdio",
        "cmd": COMMAND,
        "args": ["attach"],
        "envs": {},
        "timeout": 300,
    },
    "continue": {"name": "mcpx", "command": COMMAND, "args": ["attach"]},
    "codex": {"command": COMMAND, "args": ["attach"]},
}


@pytest.mark.parametrize("form", get_args(Form))
def test_an_entry_is_written_in_the_form_of_the_client_and_known_again(form: Form) -> None:
    entry = write_entry(form, COMMAND, ["attach"])
    assert entry == WRITTEN[form]
    assert starts_mcpx(entry)
    with_env = write_entry(form, COMMAND, ["attach"], {"MCPX_STATE_DIR": "/s"})
    assert {"MCPX_STATE_DIR": "/s"} in with_env.values()


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "mcpx", "args": ["attach", "--config", "/a/b.json"]},
        {"command": "C:\\Tools\\MCPX.exe", "args": ["serve"]},
        {"command": "/usr/bin/python3", "args": ["-m", "mcpx", "attach"]},
        {"command": "uvx", "args": ["mcpx", "attach"]},
        {"command": "bash", "args": ["-lc", "exec mcpx attach"]},
        {"command": "/my folder/mcpx", "args": ["attach"]},
        {"command": {"path": "/opt/mcpx", "args": ["attach"]}},
    ],
)
def test_mcpx_is_known_however_it_is_started(entry: object) -> None:
    assert starts_mcpx(entry)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "server"]},
        {"command": "mcpx", "args": ["demo"]},
        {"command": "other", "args": ["serve", "/data/mcpx.json"]},
        {"url": "http://127.0.0.1/mcpx"},
        {"command": 3, "args": [None]},
        "mcpx attach",
        None,
    ],
)
def test_what_is_not_mcpx_is_not_taken_for_it(entry: object) -> None:
    assert not starts_mcpx(entry)

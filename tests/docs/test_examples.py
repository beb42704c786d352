"""Examples do what the pages say: programs print it, and so do commands, against a real daemon."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages
from tests.forking import client

EXAMPLE = re.compile(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", re.DOTALL)
EXAMPLES = [(path, *found) for path in pages.PATHS for found in EXAMPLE.findall(pages.read(path))]
SERVERS = {"shop": "tools", "leaflets": "knowledge", "changing": "changing"}
"""The servers of the examples, by the demo servers that they are."""
ANY = "..."  # in what a command prints: whatever comes


def run(command, folder, *, real=False, **environ):
    return client.run(
        command,
        real=real,
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "SHELL": "/bin/false",  # `python3` is the one that MCPX is installed for
            **environ,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=45,
        check=False,
    )


@pytest.mark.parametrize(("path", "code", "printed"), EXAMPLES, ids=lambda value: str(value)[-24:])
def test_a_program_prints_what_the_page_says(path, code, printed, tmp_path):
    (tmp_path / "example.py").write_text(code, "utf-8")
    done = run([sys.executable, "-W", "error", "example.py"], tmp_path, real=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed


def test_every_block_of_python_is_run():
    assert len(EXAMPLES) == len(pages.blocks("python")) == 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A home folder with `mcpx.json`, and a daemon for it."""
    home = tmp_path_factory.mktemp("home")
    servers = {
        name: {"command": "python3", "args": ["-m", f"mcpx.demo.{demo}"]} for name, demo in SERVERS.items()
    }
    (home / "mcpx.json").write_text(json.dumps({"mcpServers": servers}))
    assert command(home, "mcpx", "daemon", "start").returncode == 0
    for name in SERVERS:
        assert command(home, "mcpx", "inspect", name).returncode == 0  # once it has listed its tools
    yield home
    assert command(home, "mcpx", "daemon", "stop").returncode == 0


def command(home, *words):
    assert words[0] == "mcpx"
    words = [client.CONSOLE_SCRIPT, *words[1:]]
    return run(words, home, MCPX_CONFIG="mcpx.json", MCPX_STATE_DIR=str(home / "state"), MCPX_LOG="error")


@pytest.mark.parametrize("block", pages.blocks("console"), ids=lambda block: block.place)
def test_commands_print_what_the_page_says(block, folder):
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        done = command(folder, *shlex.split(line))
        shown = "\n".join(row.rstrip() for row in (done.stdout + done.stderr).splitlines())
        pattern = re.escape(expected.strip()).replace(re.escape(ANY), ".*")
        assert re.fullmatch(pattern, shown.strip(), re.DOTALL), f"{line}\n{shown}"


def test_there_are_commands_to_run():
    assert len(pages.blocks("console")) > 2

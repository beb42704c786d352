"""Completion in a real bash, of names from a daemon and without one; and its installation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import environment, run_cli, write_config

UNTIL = {"type": "object", "properties": {"until": {"type": "string"}}, "required": ["until"]}
BIN = Path(sys.executable).parent
BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="bash is completed in bash")
COMPLETES = """
source <(mcpx completion bash)
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_mcpx_completion mcpx 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
TRIES = 5


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a configuration whose servers were listed once."""
    folder = tmp_path_factory.mktemp("home")
    tools = [{"name": "work", "inputSchema": UNTIL}, "show"]
    servers = {"progress": entry(offers={"tools": tools}), "plain": {"command": "none"}}
    write_config(folder, servers)
    assert run_cli(folder, "inspect", "progress", MCPX_CONFIG=str(folder / "config.json")).returncode == 0
    return folder


@pytest.fixture(params=["with a daemon", "without one"])
def place(home, request):
    config = str(home / "config.json")
    if request.param == "with a daemon":
        assert run_cli(home, "daemon", "start", "--config", config).returncode == 0
    yield home
    if request.param == "with a daemon":
        assert run_cli(home, "daemon", "stop", "--config", config).returncode == 0


def environ(folder: Path, **more: str) -> dict[str, str]:
    path = f"{BIN}:{os.environ['PATH']}"
    return environment(folder, PATH=path, MCPX_CONFIG=str(folder / "config.json"), **more)


def completed(folder: Path, words: str) -> list[str]:
    """What Tab offers; pressed again where that is nothing, for a busy machine may want more time."""
    return next(filter(None, (pressed(folder, words) for _ in range(TRIES))), [])


def pressed(folder: Path, words: str) -> list[str]:
    done = subprocess.run(
        [str(BASH), "--norc", "-c", COMPLETES.format(words=words)],
        env=environ(folder),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@needs_bash
def test_servers_tools_and_arguments_are_completed(place):
    assert completed(place, "mcpx exec p") == ["progress", "plain"]
    assert completed(place, "mcpx inspect progress ''") == ["work", "show"]
    assert completed(place, "mcpx exec progress wo") == ["work"]
    assert completed(place, "mcpx exec progress work u") == ["until="]
    assert pressed(place, "mcpx exec progress work until '=' x ''") == []
    assert pressed(place, "mcpx exec --config /no/such plain ''") == []


@needs_bash
def test_commands_and_options_are_completed(home):
    assert {"status", "stats"} <= {*completed(home, "mcpx sta")}
    assert completed(home, "mcpx status --wa") == ["--watch"]
    assert completed(home, "mcpx daemon sto") == ["stop"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_it_is_installed_once_and_taken_out_again(tmp_path, shell):
    start_file = {"bash": ".bashrc", "zsh": ".zshrc"}.get(shell)
    target = tmp_path / "dotfiles"
    if start_file is not None:
        target.write_text("alias x=y")
        (tmp_path / start_file).symlink_to(target)
    more = {"HOME": str(tmp_path), "SHELL": f"/usr/bin/{shell}", "ZDOTDIR": ""}
    assert run_cli(tmp_path, "completion", "--install", **more).returncode == 1
    done = run_cli(tmp_path, "completion", "--install", "--yes", **more)
    assert done.returncode == 0, done.stderr
    (script,) = [path for path in tmp_path.rglob("*") if path.name.startswith(("completion.", "mcpx.fish"))]
    assert script.read_text() == run_cli(tmp_path, "completion", shell).stdout
    if start_file is not None:
        first, line = target.read_text().splitlines()
        assert first == "alias x=y"
        assert str(script) in line
    assert "nothing to do" in run_cli(tmp_path, "completion", "--install", **more).stdout
    assert run_cli(tmp_path, "completion", "--uninstall", "--yes", **more).returncode == 0
    assert not script.exists()
    if start_file is not None:
        assert target.read_text() == "alias x=y\n"
        assert (tmp_path / start_file).is_symlink()


@needs_bash
def test_a_bash_that_reads_its_start_file_completes(home, tmp_path):
    more = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    assert run_cli(tmp_path, "completion", "--install", "--yes", **more).returncode == 0
    done = subprocess.run(
        [str(BASH), "--rcfile", str(tmp_path / ".bashrc"), "-ic", "complete -p mcpx"],
        env=environ(home, HOME=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout == "complete -F _mcpx_completion mcpx\n"


def test_an_unknown_shell_is_asked_for(tmp_path):
    done = run_cli(tmp_path, "completion", SHELL="/bin/tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "which shell? Say one of bash, zsh, fish" in done.stderr

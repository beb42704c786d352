"""Errors end with what cures them: a command that exists, with options that it takes."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from mcpx.cli.main import cli
from tests.mcpx.cli.setup.ten_clients import mcpx

GOOD = '{"mcpServers": {"git": {"command": "git-mcp"}, "off": {"command": "x", "disabled": true}}}'
BROKEN = '{"mcpServers": {"git": {"command": "x"}'
NEEDING = (
    *("check", "ui --print", "inspect", "inspect git", "exec git log", "resources", "prompts", "logs git"),
    *(
        "login git",
        "logout git",
        "approve",
        "daemon start",
        "daemon restart",
        "daemon install",
        "restart git",
    ),
    *("reload", "cluster status", "serve --transport http", "status git"),
)
"""Commands that need a configuration that can be used, or a daemon."""
ERRORS = {
    None: (*NEEDING, "remove git", "enable git", "disable git", "setup", "install"),
    BROKEN: (*NEEDING, "status", "add x y", "remove git", "enable git", "setup cursor", "import"),
    GOOD: (
        *("restart git", "reload", "status gti", "logs git", "logs gti", "remove gti", "enable nothing-like"),
        *("login gti", "add git other", "inspect gti", "exec gti x", "token revoke x", "cluster status"),
    ),
}


def commands_in(text: str) -> list[list[str]]:
    """What stands behind the last colon that a command follows, as words; none if none does."""
    found = []
    for part in text.replace("`", "").split("mcpx ")[1:]:
        words = part.partition(";")[0].partition(", ")[0].partition(" (")[0]
        found.append(shlex.split(words))
    return [words for words in found if words and words[0] in cli.list_commands(click.Context(cli))]


def is_taken(words: list[str]) -> bool:
    """Whether the command line names a command and gives it options that it has."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        known = command.get_command(click.Context(command), words[0])
        if known is None:
            return False
        command, words = known, words[1:]
    options = {name for each in command.params if isinstance(each, click.Option) for name in each.opts}
    return all(word in options | {"--", "--help"} for word in words if word.startswith("-"))


@pytest.mark.parametrize(
    ("configuration", "command"),
    [(configuration, command) for configuration, commands in ERRORS.items() for command in commands],
)
def test_an_error_ends_with_a_command_that_there_is(
    tmp_path: Path, configuration: str | None, command: str
) -> None:
    file = tmp_path / ".config/mcpx/config.json"
    if configuration is not None:
        file.parent.mkdir(parents=True)
        file.write_text(configuration)
    done = mcpx(tmp_path, *command.split())
    assert done.exit_code in {1, 2}, done.output
    said = done.stderr.strip().splitlines()[-1]
    cures = commands_in(said)
    assert cures, said
    assert all(map(is_taken, cures)), cures
    assert "Errno" not in done.output

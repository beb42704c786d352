"""Every block of code in the pages is what it says: configurations are read, command lines are understood."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from contextlib import suppress

import click
import msgspec
import pytest

from mcpx.attach.command import USAGE
from mcpx.cli.main import cli
from mcpx.core.config import parse
from mcpx.core.daemon.status import Status
from tests.docs import pages

OTHERS = {"claude", "eval", "pip", "pipx", "ray", "uv", "uvx", "systemctl", "journalctl", "loginctl"}
"""Programs of others that a reader is told to run."""


def each(kind):
    return pytest.mark.parametrize("block", pages.blocks(kind), ids=lambda block: block.place)


def test_every_block_is_of_a_kind_that_is_tested():
    strange = [f"{block.place}: {block.kind}" for block in pages.blocks() if block.kind not in pages.KINDS]
    assert strange == []


@each("json config")
def test_a_configuration_is_one(block):
    config = parse(block.text, where=block.place, environ={"SEARCH_TOKEN": "x", "LAB_TOKEN": "x"})
    assert config.notices == ()
    assert [server.disabled for server in config.servers.values()] == [None] * len(config.servers)


def test_the_transports_of_the_example_are_those_it_speaks_of():
    (text,) = [block.text for block in pages.blocks("json config") if '"old"' in block.text]
    servers = parse(text, where="configuration.md", environ={"SEARCH_TOKEN": "x"}).servers
    assert [server.transport.kind for server in servers.values()] == ["stdio", "http", "sse"]
    assert servers["old"].call_limits.call_timeout == 30


@each("json client")
def test_a_clients_file_starts_mcpx_as_it_can_be_started(block):
    check_entry(json.loads(block.text))


@each("toml client")
def test_a_clients_toml_file_starts_mcpx_as_it_can_be_started(block):
    check_entry(tomllib.loads(block.text))


def check_entry(document):
    """The one server in a client's file is MCPX: a command that it has, or its URL."""
    ((_, servers),) = document.items()
    ((_, entry),) = servers.items()
    if "url" in entry:
        assert entry["url"] == "http://127.0.0.1:8765/mcp"
        assert entry["headers"]["Authorization"].startswith("Bearer ")
        return
    command = entry["command"]
    words = command if isinstance(command, list) else [command, *entry["args"]]
    assert words[0] == "/absolute/path/to/mcpx"
    understand(words[1:])


@each("json status")
def test_a_status_has_every_field_and_no_other(block):
    status = msgspec.json.decode(block.text, type=Status)
    assert msgspec.to_builtins(status) == json.loads(block.text)


@each("sh")
def test_a_command_line_can_be_given(block):
    for line in block.text.splitlines():
        words = [
            word
            for word in shlex.split(line, comments=True)
            if "=" not in word.partition("/")[0] or " " in word
        ]
        program = words[0]
        if program.startswith("scripts/"):
            assert os.access(pages.ROOT / program, os.X_OK), line
        elif program == "mcpx":
            understand(words[1:])
        elif program == "claude":
            assert words[words.index("--") + 1] == "/absolute/path/to/mcpx"
            understand(words[words.index("--") + 2 :])
        else:
            assert program in OTHERS, line


@pytest.mark.parametrize("path", pages.PATHS, ids=pages.name)
def test_a_command_in_a_sentence_has_such_options(path):
    """What it is given may be left out there."""
    for line in re.findall(r"`mcpx ([a-z][^`\n]*)`", pages.prose(path)):
        words = [word for word in shlex.split(line) if word not in {"...", "[SHELL]", "--help"}]
        with suppress(click.MissingParameter, click.BadOptionUsage, click.exceptions.NoArgsIsHelpError):
            understand([*words, "NAME"] if words == ["attach", "--peer"] else words)


def understand(words):
    """Have the words read by the command's own parser; nothing is run. Raises click.UsageError."""
    if words[0] == "attach":
        assert len(words) % 2 == 1, words
        assert all(option in USAGE for option in words[1::2]), words
        return
    if words == ["--version"]:
        return
    command, context = cli, click.Context(cli, info_name="mcpx")
    while isinstance(command, click.Group) and words and not _runs_alone(command, words):
        named = command.get_command(context, words[0])
        assert named is not None, words
        command, words = named, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    command.parse_args(context, list(words))


def _runs_alone(group, words):
    """Whether a group runs by itself, without one of its commands."""
    return group.invoke_without_command and (not words or words[0].startswith("-"))


@pytest.mark.parametrize("words", [["exec"], ["status", "--no-such"], ["no-such"], ["serve", "--port", "x"]])
def test_a_command_line_that_cannot_be_given_is_found(words):
    with pytest.raises((click.UsageError, AssertionError)):
        understand(words)

"""What `${...}` becomes in the strings of a server, and what happens when it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.config import Http, ServerConfig, Stdio, parse

ENVIRON = {"HOME": "/home/me", "A": "apple", "EMPTY": "", "TRICK": "${A}", "_x1": "under"}


def server(**entry: Any) -> ServerConfig:
    text = json.dumps({"mcpServers": {"s": entry}})
    return parse(text, where="c.json", environ=ENVIRON, folder=Path("/etc/mcpx")).servers["s"]


def argument(text: str) -> str:
    found = server(command="x", args=[text])
    assert isinstance(found.transport, Stdio)
    assert found.disabled is None
    return found.transport.args[0]


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("", ""),
        ("plain $A $ {A} }", "plain $A $ {A} }"),
        ("${A}", "apple"),
        ("<${A}|${_x1}>", "<apple|under>"),
        ("${env:A}", "apple"),
        ("${A:-default}", "apple"),
        ("${NOPE:-default}", "default"),
        ("${env:NOPE:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("[${EMPTY}]", "[]"),
        ("[${NOPE:-}]", "[]"),
        ("${NOPE:-a:-b}", "a:-b"),
        ("${NOPE:-two\nlines}", "two\nlines"),
        ("${NOPE:-${A}}/${NOPE:-${NO2:-deep}}", "apple/deep"),
        ("${TRICK}", "${A}"),
        ("${userHome}/x", "/home/me/x"),
        ("${workspaceFolder:-/tmp}", "${project:-/tmp}"),
        ("${workspaceFolder:web:-/tmp}", "/tmp"),
        ("${input:key:-none}", "none"),
        ("$${A}", "${A}"),
        ("$$${A} $${A}${A}", "$${A} ${A}apple"),
        ("${A", "${A"),
        ("${A} ${", "apple ${"),
        ("${1A} ${} ${A-x} ${A}", "${1A} ${} ${A-x} apple"),
    ],
)
def test_references_are_replaced(written: str, becomes: str) -> None:
    assert argument(written) == becomes


def test_every_string_of_an_entry_is_expanded() -> None:
    stdio = server(command="/bin/${A}", args=["${A}"], env={"K": "${A}"}, cwd="/srv/${A}").transport
    assert stdio == Stdio(command="/bin/apple", args=("apple",), env={"K": "apple"}, cwd="/srv/apple")
    http = server(url="https://${A}.com/mcp", headers={"X": "Bearer ${A}"}).transport
    assert http == Http(url="https://apple.com/mcp", headers={"X": "Bearer apple"})


def test_an_unset_variable_disables_that_server_alone_and_says_which_and_where() -> None:
    text = json.dumps(
        {
            "mcpServers": {
                "gh": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN}"}},
                "two": {"command": "${NOPE}", "args": ["${NOPE}${NOPE}", "ok", "${NO2} ${A}"]},
                "ok": {"command": "x"},
            }
        }
    )
    servers = parse(text, where="c.json", environ=ENVIRON).servers
    assert servers["gh"].disabled == (
        "environment variable GITHUB_TOKEN is not set (used in $.mcpServers.gh.env.TOKEN)"
    )
    assert servers["two"].disabled == (
        "environment variable NOPE is not set (used in $.mcpServers.two.command); "
        "environment variable NOPE is not set (used in $.mcpServers.two.args[0]); "
        "environment variable NO2 is not set (used in $.mcpServers.two.args[2])"
    )
    assert servers["two"].transport == Stdio(command="${NOPE}", args=("${NOPE}${NOPE}", "ok", "${NO2} apple"))
    assert servers["ok"].disabled is None


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            {"command": "${V}"},
            "expected a string, got an empty one (in $.mcpServers.s.command, after expansion)",
        ),
        (
            {"url": "${V}/mcp"},
            "expected a URL that starts with http:// or https:// (in $.mcpServers.s.url, after expansion)",
        ),
        (
            {"url": "http://a", "headers": {"K": "é${V}"}},
            (
                "a header can hold printable ASCII only, and no line break (in $.mcpServers.s.headers.K,"
                " after expansion)"
            ),
        ),
    ],
)
def test_a_variable_that_holds_nonsense_disables_the_server(entry: dict[str, Any], reason: str) -> None:
    text = json.dumps({"mcpServers": {"s": entry}})
    assert parse(text, where="c.json", environ={"V": ""}).servers["s"].disabled == reason


def test_values_of_variables_are_in_no_message() -> None:
    entries = {"a": {"url": "${SECRET}"}, "b": {"url": "http://x", "headers": {"K": "${SECRET}"}}}
    config = parse(json.dumps({"mcpServers": entries}), where="c", environ={"SECRET": "hunter2\nhunter2"})
    assert config.servers["a"].disabled
    assert config.servers["b"].disabled
    told = [server.disabled or "" for server in config.servers.values()]
    assert "hunter2" not in " ".join([*told, *config.notices])


def test_a_line_break_at_the_end_of_a_secret_is_forgiven_in_a_header() -> None:
    text = json.dumps({"mcpServers": {"s": {"url": "http://x", "headers": {"K": "Bearer ${T}"}}}})
    assert parse(text, where="c", environ={"T": "t\n"}).servers["s"].transport == Http(
        url="http://x", headers={"K": "Bearer t"}
    )


def test_braces_that_name_no_variable_are_left_and_reported() -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "sh", "args": ["-c", "echo ${x%%y}"]}}})
    config = parse(text, where="c", environ={})
    assert config.servers["s"].transport == Stdio(command="sh", args=("-c", "echo ${x%%y}"))
    assert config.notices == (
        "$.mcpServers.s.args[1]: a ${...} that names no variable stays as written; $${ says so on purpose",
    )


def test_defaults_nested_without_end_stop_somewhere() -> None:
    deep = "${N:-" * 5000 + "x" + "}" * 5000
    assert argument(deep) == "${N:-" * 4992 + "x" + "}" * 4992


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("~", "/home/me"),
        ("~/bin/s", "/home/me/bin/s"),
        ("~other/s", "~other/s"),
        ("a~/s", "a~/s"),
        ("${NOPE:-~/s}", "/home/me/s"),
    ],
)
def test_a_tilde_at_the_start_of_a_command_is_the_home_folder(written: str, becomes: str) -> None:
    assert server(command=written).transport == Stdio(command=becomes)


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("~/w", "/home/me/w"),
        ("work", "/etc/mcpx/work"),
        ("../work/.", "/etc/work"),
        (".", "/etc/mcpx"),
        ("/srv", "/srv"),
    ],
)
def test_a_relative_working_folder_starts_at_the_file(written: str, becomes: str) -> None:
    assert server(command="x", cwd=written).transport == Stdio(command="x", cwd=becomes)

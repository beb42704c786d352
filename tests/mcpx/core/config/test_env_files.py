"""Values from outside a configuration: files of variables, the login shell, the keychain, commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.config import Config, Http, ServerConfig, Stdio, load, read_config, redactor_of
from mcpx.core.config.env_files import EnvFileError, parse_env_file
from mcpx.core.config.servers import commands_in
from mcpx.core.running import secrets

ENVIRON = {"HOME": "/home/me", "SHELL": "/bin/false", "PATH": "/usr/bin:/bin", "A": "ambient"}


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", {})


def read(folder: Path, servers: dict[str, Any], *, resolve: bool = True, **settings: Any) -> Config:
    file = folder / "config.json"
    file.write_text(json.dumps({**settings, "mcpServers": servers}))
    return load(file, environ=ENVIRON, resolve=resolve)


def one(folder: Path, entry: dict[str, Any], **settings: Any) -> ServerConfig:
    return read(folder, {"s": entry}, **settings).servers["s"]


def env(server: ServerConfig) -> dict[str, str]:
    assert isinstance(server.transport, Stdio)
    assert server.disabled is None
    return server.transport.env


def private(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o600)


@pytest.mark.parametrize("key", ["env_file", "envFile"])
def test_a_server_is_started_with_its_file_and_its_entry_may_name_what_is_in_it(
    tmp_path: Path, key: str
) -> None:
    private(tmp_path / ".env", "A=file\nB=file\nC='secret of mine'")
    server = one(tmp_path, {"command": "x", key: ".env", "env": {"B": "entry", "D": "${A}-${C}"}})
    assert env(server) == {"A": "file", "B": "entry", "C": "secret of mine", "D": "file-secret of mine"}
    assert redactor_of(server)("it is secret of mine") == "it is ***C***"
    assert read(tmp_path, {"s": {"command": "x", key: ".env"}}).notices == ()


def test_of_several_files_the_last_counts_and_they_may_name_each_other(tmp_path: Path) -> None:
    private(tmp_path / "one", "A=1\nB=1")
    private(tmp_path / "two", "B=${A}2")
    assert env(one(tmp_path, {"command": "x", "env_file": ["one", "${NOPE:-two}"]})) == {"A": "1", "B": "12"}
    found = one(tmp_path, {"command": "x", "env_file": ["one", "two"], "env": {"C": "${B}"}})
    assert env(found)["C"] == env(found)["B"]


def test_a_server_behind_a_url_takes_headers_from_a_file(tmp_path: Path) -> None:
    private(tmp_path / ".env", "KEY=k")
    entry = {"url": "https://a/mcp", "env_file": f"{tmp_path}/.env", "headers": {"X": "${KEY}"}}
    assert one(tmp_path, entry).transport == Http(url="https://a/mcp", headers={"X": "k"})


def test_a_file_for_all_is_named_and_not_handed_over(tmp_path: Path) -> None:
    private(tmp_path / ".env", "A=file\nKEY=k")
    found = read(
        tmp_path, {"s": {"command": "x", "env": {"B": "${A}"}}, "t": {"command": "x"}}, env_file=".env"
    )
    assert (env(found.servers["s"]), env(found.servers["t"])) == ({"B": "file"}, {})
    assert found.notices == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "no such file: {}"),
        ("A=1\nsecret", "{}: line 2: expected NAME=VALUE"),
        (b"A=\xff", "{}: not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_disables_its_server_alone(
    tmp_path: Path, content: Any, problem: str
) -> None:
    file = tmp_path / "x.env"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = read(tmp_path, {"s": {"command": "x", "env_file": "x.env"}, "t": {"command": "x"}})
    assert found.servers["s"].disabled == f"{problem.format(file)} (in $.mcpServers.s.env_file)"
    assert found.servers["t"].disabled is None
    for_all = read(tmp_path, {"t": {"command": "x"}}, env_file=["x.env"])
    assert for_all.servers["t"].disabled is None
    assert for_all.notices == (f"$.env_file: {problem.format(file)}",)


def test_a_folder_or_a_pipe_is_no_file_of_variables(tmp_path: Path) -> None:
    (disabled,) = [one(tmp_path, {"command": "x", "env_file": "."}).disabled]
    assert disabled is not None
    assert "is no file of variables" in disabled


def test_a_file_that_everybody_can_read_is_noted(tmp_path: Path) -> None:
    private(tmp_path / ".env", "A=1")
    (tmp_path / ".env").chmod(0o644)
    (notice,) = read(tmp_path, {"s": {"command": "x", "env_file": ".env"}}).notices
    file = tmp_path / ".env"
    text = f"every user of this machine can read {file}; type: chmod 600 {file}"
    assert notice == f"$.mcpServers.s.env_file: {text}"


def test_a_value_of_another_kind_is_a_mistake_of_that_server(tmp_path: Path) -> None:
    assert "expected a string" in str(one(tmp_path, {"command": "x", "env_file": 1}).disabled)


# --- secrets


def test_a_command_gives_a_secret_that_is_kept_out_of_what_is_shown(tmp_path: Path) -> None:
    entry = {
        "command": "x",
        "env": {"K": '${cmd:printf "%s" "secret {of} $A"}'},
        "args": ["--t=${cmd:echo ${A}} "],
    }
    server = one(tmp_path, entry)
    assert env(server) == {"K": "secret {of} ambient"}
    assert server.transport.args == ("--t=ambient ",)  # type: ignore[union-attr]
    assert redactor_of(server)("it is secret {of} ambient") == "it is ***cmd***"


@pytest.mark.parametrize(
    "more",
    [
        {"aliases": ["PWN"]},
        {"description": "PWN"},
        {"tools": {"deny": ["PWN"]}},
        {"annotations": {"PWN": {}}},
    ],
    ids=str,
)
def test_no_command_is_run_where_references_are_text(tmp_path: Path, more: dict[str, Any]) -> None:
    marker = tmp_path / "PWNED"
    entry = json.loads(json.dumps({"command": "x", **more}).replace("PWN", f"${{cmd:touch {marker}}}"))
    assert one(tmp_path, entry).disabled is None
    assert not marker.exists()
    assert commands_in(entry) == []


def test_what_cannot_be_had_disables_the_server_alone_and_names_the_program(tmp_path: Path) -> None:
    servers = {"s": {"command": "x", "env": {"K": "${cmd:false hidden}"}}, "t": {"command": "x"}}
    found = read(tmp_path, servers)
    text = 'the command "false ..." ended with exit code 1'
    assert found.servers["s"].disabled == f"{text} (used in $.mcpServers.s.env.K)"
    assert found.servers["t"].disabled is None


def test_the_keychain_gives_one_or_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def look_up(names: list[str], _environment: object) -> None:
        asked.append(names)
        secrets._known[secrets.Reference("keychain", "A B")] = "secret-of-keychain"
        secrets._known[secrets.Reference("keychain", "none")] = secrets.SecretProblem("not there")

    monkeypatch.setattr(secrets, "_look_up", look_up)
    url = "https://a/${keychain:none:-${userHome}}/mcp"
    server = one(tmp_path, {"url": url, "headers": {"X": "Bearer ${keychain:A B}"}})
    assert server.transport == Http(url="https://a//home/me/mcp", headers={"X": "Bearer secret-of-keychain"})
    assert sorted(asked[0]) == ["A B", "none"]
    assert redactor_of(server)("secret-of-keychain") == "***A B***"
    assert one(tmp_path, {"command": "x", "args": ["${keychain:none}"]}).disabled == (
        "not there (used in $.mcpServers.s.args[0])"
    )


def test_nothing_is_run_for_a_server_that_is_switched_off_or_for_a_mere_look(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    entry = {"url": f"${{cmd:touch {ran}; echo https://a/}}", "headers": {"X": "${keychain:none}"}}
    read(tmp_path, {"s": {**entry, "disabled": True}})
    assert one(tmp_path, entry, resolve=False).disabled is None
    assert not ran.exists()
    assert one(tmp_path, {"url": entry["url"]}).transport == Http(url="https://a/")


def test_the_login_shell_gives_variables_unless_it_is_turned_off(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("export A=login\n")
    file = tmp_path / "config.json"
    environ = ENVIRON | {"HOME": str(tmp_path), "SHELL": "/bin/sh"}
    for settings, value in (({}, "login"), ({"login_shell": False}, "ambient")):
        file.write_text(json.dumps({**settings, "mcpServers": {"s": {"command": "x", "env": {"B": "${A}"}}}}))
        config = load(file, environ=environ)
        assert env(config.servers["s"]) == {"B": value}
        assert config.environment is not None
        assert config.environment.shell == ("/bin/sh" if value == "login" else None)
    assert env(load(file, environ=environ, resolve=False).servers["s"]) == {"B": "ambient"}


def test_secrets_are_fetched_for_the_servers_that_are_meant_alone(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    servers = {name: {"command": "x", "args": [f"${{cmd:echo {name} | tee -a {ran}}}"]} for name in "st"}
    (tmp_path / "config.json").write_text(json.dumps({"mcpServers": servers}))
    found = read_config(tmp_path / "config.json").parse(environ=ENVIRON, secrets_of=["t"])
    assert ran.read_text() == "t\n"
    assert found.servers["t"].transport == Stdio(command="x", args=("t",))


# --- the form of `.env`, as other programs read it


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("A=1", {"A": "1"}),
        ("\ufeffA=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("# note\n\n  A = 1  # note\n", {"A": "1"}),
        ("export A=1\n\texport  B=2", {"A": "1", "B": "2"}),
        ("A=\nB=''\nC=\"\"", {"A": "", "B": "", "C": ""}),
        ("A=a b=c#d", {"A": "a b=c#d"}),
        ("A='$x ${B} \\n # \"'  # note", {"A": '$x ${B} \\n # "'}),
        ('A="a\\nb \\"c\\" \\$d \\\\ # e"', {"A": 'a\nb "c" $d \\ # e'}),
        ('A="-----BEGIN\nx\n-----END"\nB=1', {"A": "-----BEGIN\nx\n-----END", "B": "1"}),
        ("A=1\nB=${A}/${HOME}/${NOPE}/${NOPE:-d}", {"A": "1", "B": "1//home//d"}),
        ("A='$b'\nB=\"${A}\"\nC=$A", {"A": "$b", "B": "$b", "C": "$A"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A.b-c=1", {"A.b-c": "1"}),
        ("A=C:\\Users\\me", {"A": "C:\\Users\\me"}),
    ],
)
def test_values_are_read_as_shells_and_editors_do(text, found):
    assert parse_env_file(text, {"HOME": "/home"}) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A=1\nsecret-word", "line 2: expected NAME=VALUE"),
        ("A=1\n\n1A=secret", "line 3: expected NAME=VALUE"),
        ('A="secret\nmore', "line 1: the quote is not closed"),
        ("A='x' secret", "line 1: there is more after the closing quote"),
        ("A=sec\0ret", "line 1: the value holds a character that is not text"),
    ],
)
def test_a_mistake_is_named_by_its_line_and_shows_no_value(text, problem):
    with pytest.raises(EnvFileError) as failure:
        parse_env_file(text, {})
    assert str(failure.value) == problem

"""Configurations as the clients of this world write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.config import Config, Http, Sse, Stdio, parse
from mcpx.core.config.projects import in_project


def read(document: dict[str, Any], **environ: str) -> Config:
    return parse(json.dumps(document), where="c.json", environ=environ, folder=Path("/etc/mcpx"))


def one(**entry: Any) -> Config:
    return read({"mcpServers": {"s": entry}})


def test_a_desktop_client_config_works_as_it_is() -> None:
    config = read(
        {
            "globalShortcut": "Ctrl+Space",
            "mcpServers": {
                "filesystem": {
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"],
                },
                "github": {"command": "docker", "args": ["run", "-i"], "env": {"TOKEN": "t", "PORT": "1"}},
            },
        }
    )
    assert list(config.servers) == ["filesystem", "github"]
    assert config.servers["filesystem"].transport == Stdio(
        command="npx", args=("-y", "@modelcontextprotocol/server-filesystem", "/data")
    )
    assert config.servers["github"].transport == Stdio(
        command="docker", args=("run", "-i"), env={"TOKEN": "t", "PORT": "1"}
    )
    assert all(server.disabled is None for server in config.servers.values())
    assert config.notices == ('"globalShortcut" is not used by MCPX (in $)',)


@pytest.mark.parametrize("word", ["http", "streamable-http", "streamableHttp", "streamable_http", "HTTP"])
def test_a_terminal_client_config_with_a_typed_url_works(word: str) -> None:
    config = one(type=word, url="https://example.com/mcp", headers={"Authorization": "Bearer x"})
    expected = Http(url="https://example.com/mcp", headers={"Authorization": "Bearer x"})
    assert config.servers["s"].transport == expected
    assert config.servers["s"].transport.kind == "http"
    assert config.notices == ()


def test_a_typed_command_and_a_typed_sse_server_work() -> None:
    stdio = one(type="stdio", command="uvx", args=[], env={}).servers["s"].transport
    sse = one(type="sse", url="https://example.com/events").servers["s"].transport
    assert (stdio, stdio.kind) == (Stdio(command="uvx"), "stdio")
    assert (sse, sse.kind) == (Sse(url="https://example.com/events"), "sse")


def test_an_untyped_url_is_http_unless_its_path_ends_in_sse() -> None:
    assert isinstance(one(url="https://example.com/mcp").servers["s"].transport, Http)
    assert isinstance(one(url="https://example.com/sse/?k=1").servers["s"].transport, Sse)
    assert isinstance(one(type="http", url="https://example.com/sse").servers["s"].transport, Http)


def test_the_words_of_other_clients_for_a_url_work() -> None:
    assert one(serverUrl="https://a/mcp").servers["s"].transport == Http(url="https://a/mcp")
    assert one(httpUrl="https://a/sse").servers["s"].transport == Http(url="https://a/sse")


def test_an_editor_config_works_with_its_inputs_and_odd_env_values() -> None:
    config = read(
        {
            "inputs": [{"id": "key", "type": "promptString"}],
            "servers": {
                "pg": {
                    "type": "stdio",
                    "command": "npx",
                    "cwd": "${workspaceFolder}/db",
                    "env": {"PGPORT": 5432, "RATIO": 0.5, "UNSET": None, "HOME2": "${env:HOME}"},
                },
                "gh": {
                    "type": "http",
                    "url": "https://x/mcp",
                    "headers": {"Authorization": "Bearer ${input:key}"},
                },
                "fine": {"command": "${userHome}/bin/s", "dev": {"watch": "*"}},
            },
        },
        HOME="/home/me",
    )
    pg = config.servers["pg"]
    assert isinstance(pg.transport, Stdio)
    assert pg.transport.env == {"PGPORT": "5432", "RATIO": "0.5", "HOME2": "/home/me"}
    assert (pg.disabled, pg.transport.cwd, pg.sessions) == (None, "${project}/db", "per_project")
    assert config.servers["gh"].disabled == (
        '"${input:key}" has no value outside an editor (used in $.servers.gh.headers.Authorization)'
    )
    assert config.servers["fine"].disabled is None
    assert config.servers["fine"].transport == Stdio(command="/home/me/bin/s")
    assert config.notices == (
        '"inputs" is not used by MCPX (in $); nobody can be asked; use environment variables',
        '"dev" is not used by MCPX (in $.servers.fine)',
    )


def test_all_forms_together_are_merged_and_keep_their_order() -> None:
    config = read(
        {
            "mcp_servers": [{"name": "d", "command": "d", "args": ["1"]}],
            "mcp": {"inputs": [], "servers": {"c": {"command": "c"}}},
            "servers": {"b": {"command": "b"}},
            "mcpServers": {"a": {"command": "a"}, "A": {"command": "A"}},
        }
    )
    assert list(config.servers) == ["a", "A", "b", "c", "d"]
    assert [server.name for server in config.servers.values()] == ["a", "A", "b", "c", "d"]
    assert config.servers["d"].transport == Stdio(command="d", args=("1",))


def test_a_server_that_is_switched_off_stays_listed() -> None:
    off = "disabled in the configuration"
    assert one(command="a", disabled=True).servers["s"].disabled == off
    assert one(command="a", enabled=False).servers["s"].disabled == off
    assert one(command="a", disabled=True, args=["${NOPE}"]).servers["s"].disabled == off
    assert one(command="a", disabled=False, enabled=True).servers["s"].disabled is None


def test_keys_of_other_clients_are_reported_once_however_many_servers_carry_them() -> None:
    entry = {"command": "a", "alwaysAllow": ["x"], "timeout": 60}
    config = read({"mcpServers": dict.fromkeys("abcde", entry)})
    places = "$.mcpServers.a, $.mcpServers.b, $.mcpServers.c and 2 more"
    assert config.notices == (
        f'"alwaysAllow" is not used by MCPX (in {places})',
        f'"timeout" is not used by MCPX (in {places}); use "call_timeout", in seconds',
    )
    assert config.servers["a"].call_limits.call_timeout == 300.0


OTHERS = [
    "alwaysAllow", "autoApprove", "autoConnect", "autoStart", "description", "dev", "disabledTools",
    "displayName", "enabledTools", "excludeTools", "gallery", "icon", "id", "includeTools",
    "initTimeout", "inputs", "metadata", "name", "note", "permissions", "preferences",
    "sandbox", "scope", "stderr", "tags", "timeout", "trust", "version",
]  # fmt: skip


def test_keys_that_are_right_for_other_clients_are_not_taken_for_misspellings() -> None:
    config = one(command="a", **dict.fromkeys(OTHERS, 1))
    assert [notice.split(" (")[0] for notice in config.notices] == [
        f'"{key}" is not used by MCPX' for key in OTHERS
    ]


@pytest.mark.parametrize(
    ("key", "meant"),
    {
        "argz": "args", "arg": "args", "agrs": "args", "arguments": "args", "enviroment": "env", "ENV": "env",
        "envs": "env", "environment": "env", "comand": "command", "Command": "command", "cmd": "command",
        "uri": "url", "URL": "url", "header": "headers", "cdw": "cwd", "workingDirectory": "cwd",
        "disabeld": "disabled",
    }.items(),
)  # fmt: skip
def test_a_short_key_is_known_by_one_wrong_letter_and_by_other_words(key: str, meant: str) -> None:
    notice = one(command="a", **{key: 1}).notices[0]
    assert notice.endswith(f'unknown key, has no effect; did you mean "{meant}"?')


def test_a_file_of_other_settings_has_one_line_for_all_of_them() -> None:
    others = {f"foreign{number}": number for number in range(30)}
    config = read(others | {"context_servers": {"s": {"source": "custom", "command": "a"}}})
    assert list(config.servers) == ["s"]
    assert config.notices == (
        '"source" is not used by MCPX (in $.context_servers.s)',
        '"foreign0", "foreign1", "foreign2" and 27 more keys are not used by MCPX (in $)',
    )


def test_the_files_of_more_clients_work_as_they_are() -> None:
    documents: list[dict[str, Any]] = [
        {"mcp": {"s": {"type": "stdio", "command": "a", "args": ["b"]}}},
        {"amp.mcpServers": {"s": {"command": "a", "args": ["b"]}}},
        {"mcpServers": [{"name": "s", "command": "a", "args": ["b"]}]},
        {"mcp_servers": {"s": {"command": "a", "args": ["b"]}}},
        {"mcpServers": {"s": {"command": "a", "args": ["b"]}}, "projects": {"/x": {"mcpServers": {"t": 1}}}},
    ]
    for document in documents:
        assert read(document).servers["s"].transport == Stdio(command="a", args=("b",))
    assert read(documents[-1]).notices == (
        '"projects" is not used by MCPX (in $); the servers of single projects are not read',
    )


def test_a_misspelt_key_is_a_notice_with_the_likely_one() -> None:
    config = read(
        {
            "toon_compresion_enabled": False,
            "http": {"prot": 1, "ports": 1},
            "restart": {"park-afterr": 1},
            "mcpServers": {"s": {"command": "a", "callTimeout": 5, "restart": {"healthyafter": 2}}},
        }
    )
    meant = "unknown key, has no effect; did you mean"
    assert config.notices == (
        f'$.toon_compresion_enabled: {meant} "toon_compression_enabled"?',
        f'$.restart["park-afterr"]: {meant} "park_after"?',
        f'$.http.prot: {meant} "port"?',
        f'$.http.ports: {meant} "port"?',
        f'$.mcpServers.s.callTimeout: {meant} "call_timeout"?',
        f'$.mcpServers.s.restart.healthyafter: {meant} "healthy_after"?',
    )
    assert config.toon_compression_enabled is True


def test_keys_that_mean_nothing_where_they_stand_are_notices() -> None:
    config = read(
        {
            "mcpServers": {
                "web": {"url": "http://a", "env": {"A": 1}, "max_starting": 2},
                "cmd": {"command": "a", "headers": {"X": "y"}},
            }
        }
    )
    assert config.notices == (
        "$.mcpServers.web.max_starting: this setting works at the top level only",
        "$.mcpServers.web.env: has no effect on a server that is reached by a URL",
        "$.mcpServers.cmd.headers: has no effect on a server that is reached by a command",
    )


def test_comments_by_convention_and_a_schema_reference_pass_in_silence() -> None:
    config = read({"$schema": "x", "_comment": 1, "//": 2, "mcpServers": {"s": {"command": "a", "_why": 3}}})
    assert config.notices == ()


def test_a_byte_order_mark_is_tolerated() -> None:
    text = '{"mcpServers": {"s": {"command": "a"}}}'
    for data in (text.encode("utf-8-sig"), "\ufeff" + text):
        assert list(parse(data, where="c", environ={}).servers) == ["s"]


def test_values_that_may_be_secret_are_not_in_the_repr() -> None:
    config = read(
        {
            "mcpServers": {
                "a": {"command": "x", "args": ["--key=s3cret"], "env": {"TOKEN": "s3cret"}},
                "b": {"url": "https://u:s3cret@x/", "headers": {"Authorization": "s3cret"}},
                "c": {"type": "sse", "url": "https://x/?k=s3cret", "headers": {"Authorization": "s3cret"}},
            }
        }
    )
    assert "s3cret" not in repr(config)
    assert "TOKEN" in repr(config)
    assert repr(config).count("Authorization") == 2


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://box.example/mcp", True),
        ("HTTP://192.0.2.1:8000/sse", True),
        ("https://box.example/mcp", False),
        ("http://127.0.0.1:8000/mcp", False),
        ("http://localhost/mcp", False),
        ("http://[::1]:9/mcp", False),
    ],
)
def test_headers_that_go_unencrypted_to_another_machine_are_remarked_on(url, told):
    entry = {"url": url, "headers": {"Authorization": "Bearer secret"}}
    notices = parse(json.dumps({"mcpServers": {"a": entry}}), where="test").notices
    assert any("sent unencrypted" in notice for notice in notices) is told
    assert "secret," not in " ".join(notices)


def test_a_command_with_a_url_is_a_server_over_http_whose_program_is_started() -> None:
    server = one(
        command="serve",
        args=["--port", "${port}"],
        env={"TOKEN": "${T}"},
        url="http://127.0.0.1:${port}/mcp",
        headers={"Origin": "http://127.0.0.1:${port}"},
        limits={"nice": 5},
        inherit=["A"],
    ).servers["s"]
    transport = server.transport
    assert isinstance(transport, Http)
    assert server.disabled == "environment variable T is not set (used in $.mcpServers.s.env.TOKEN)"
    assert (transport.kind, transport.names_port, transport.auth) == ("http", True, None)
    located = transport.on_port(4711)
    assert located.url == "http://127.0.0.1:4711/mcp"
    assert located.headers == {"Origin": "http://127.0.0.1:4711"}
    assert located.program is not None
    assert located.program.args == ("--port", "4711")
    assert (located.program.limits.nice, located.program.inherit) == (5, ("A",))


def test_a_port_is_a_variable_where_mcpx_starts_nothing_behind_the_url() -> None:
    known = read({"mcpServers": {"s": {"url": "http://localhost:${port}/mcp"}}}, port="81").servers["s"]
    assert known.transport == Http(url="http://localhost:81/mcp")
    both = read({"mcpServers": {"s": {"command": "a", "url": "http://localhost:81/sse"}}}).servers["s"]
    assert both.transport == Sse(url="http://localhost:81/sse", program=Stdio(command="a"))
    assert both.disabled is None


def test_a_program_behind_a_url_may_be_that_of_a_project() -> None:
    server = one(
        command="serve", args=["${port}"], cwd="${project}", url="http://localhost:${port}/${project}"
    ).servers["s"]
    assert (server.sessions, server.idle_stop) == ("per_project", 900.0)
    transport = in_project(server.transport, "/a b", {"X": "1"})
    assert isinstance(transport, Http)
    assert transport.url == "http://localhost:${port}//a%20b"
    assert transport.program == Stdio(command="serve", args=("${port}",), cwd="/a b", env={"X": "1"})

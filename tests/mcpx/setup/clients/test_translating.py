"""An entry of each client, as an entry of MCPX's configuration; and what is named on the way."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from mcpx.core.config import parse
from mcpx.core.config.expand import Values, expand, secrets_in
from mcpx.setup.clients import CLIENTS, client_named
from mcpx.setup.clients.translating import Server, _texts_in, translate
from mcpx.setup.clients.variables import NotImportedError


def server(client: str, given: object, **inputs: dict[str, Any]) -> Server:
    return translate(
        "s", given, client_named(client), {name.replace("_", "-"): each for name, each in inputs.items()}
    )


SAME = {"command": "npx", "args": ["-y", "a"], "env": {"K": "v"}}
TRANSLATED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("claude-desktop", SAME, SAME),
    ("claude-code", {"type": "stdio", **SAME}, SAME),
    ("claude-code", {"type": "http", "url": "https://h/mcp"}, {"url": "https://h/mcp"}),
    ("claude-code", {"type": "sse", "url": "https://h/events"}, {"url": "https://h/events", "type": "sse"}),
    ("claude-code", {"type": "http", "url": "https://h/sse"}, {"url": "https://h/sse", "type": "http"}),
    ("claude-code", {"command": "a", "timeout": 5000}, {"command": "a", "call_timeout": 5}),
    ("cursor", {"url": "https://h/sse"}, {"url": "https://h/sse"}),
    ("cursor", {"command": "a", "envFile": "/e/.env"}, {"command": "a", "env_file": "/e/.env"}),
    ("cursor", {"command": "${userHome}/a"}, {"command": "${userHome}/a"}),
    (
        "vscode",
        {"type": "stdio", "command": "a", "env": {"K": "${env:X}", "N": 8, "O": None, "B": True}},
        {"command": "a", "env": {"K": "${X}", "N": "8", "O": None, "B": "true"}},
    ),
    ("vscode", {"command": "a", "args": ["a${pathSeparator}b${/}c"]}, {"command": "a", "args": ["a/b/c"]}),
    (
        "windsurf",
        {"serverUrl": "https://h/mcp", "headers": {"A": "Bearer ${env:T}"}},
        {"url": "https://h/mcp", "headers": {"A": "Bearer ${T}"}},
    ),
    (
        "gemini",
        {"httpUrl": "https://h/sse", "timeout": 1500},
        {"url": "https://h/sse", "type": "http", "call_timeout": 1.5},
    ),
    (
        "gemini",
        {"command": "a", "env": {"K": "$TOKEN", "L": "${OTHER}", "P": "a$B-c"}},
        {"command": "a", "env": {"K": "${TOKEN}", "L": "${OTHER}", "P": "a${B}-c"}},
    ),
    ("copilot", {"type": "local", **SAME, "tools": ["*"]}, SAME),
    ("cline", {"command": "a", "timeout": 60, "disabled": False}, {"command": "a", "call_timeout": 60}),
    ("cline", {"type": "streamableHttp", "url": "https://h/mcp"}, {"url": "https://h/mcp"}),
    ("cline", {"command": "a", "disabled": True}, {"command": "a", "disabled": True}),
    ("zed", {"source": "custom", "enabled": False, **SAME}, {**SAME, "disabled": True}),
    ("zed", {"command": {"path": "npx", "args": ["-y", "a"], "env": {"K": "v"}}, "settings": {}}, SAME),
    (
        "opencode",
        {"type": "local", "command": ["npx", "-y", "a"], "environment": {"K": "{env:V}"}, "enabled": True},
        {"command": "npx", "args": ["-y", "a"], "env": {"K": "${V}"}},
    ),
    (
        "opencode",
        {"type": "remote", "url": "https://h/sse", "headers": {"A": "{env:T}"}, "timeout": 9000},
        {"url": "https://h/sse", "headers": {"A": "${T}"}, "connect_timeout": 9},
    ),
    (
        "goose",
        {
            "name": "s",
            "type": "stdio",
            "cmd": "npx",
            "args": ["-y", "a"],
            "envs": {"K": "v"},
            "timeout": 300,
            "enabled": True,
            "bundled": None,
            "description": "d",
        },
        {**SAME, "call_timeout": 300},
    ),
    (
        "goose",
        {
            "type": "streamable_http",
            "uri": "https://h/mcp",
            "envs": {"T": "t"},
            "headers": {"A": "Bearer ${T}"},
        },
        {"url": "https://h/mcp", "headers": {"A": "Bearer t"}},
    ),
    (
        "continue",
        {
            "name": "s",
            "type": "streamable-http",
            "url": "https://h/mcp",
            "requestOptions": {"headers": {"A": "b"}},
            "connectionTimeout": 4000,
        },
        {"url": "https://h/mcp", "headers": {"A": "b"}, "connect_timeout": 4},
    ),
    (
        "codex",
        {
            **SAME,
            "cwd": "/w",
            "env_vars": ["X", {"name": "Y", "source": "local"}],
            "startup_timeout_sec": 20,
            "tool_timeout_sec": 30.5,
            "enabled": False,
        },
        {
            "command": "npx",
            "args": ["-y", "a"],
            "env": {"K": "v", "X": "${X:-}", "Y": "${Y:-}"},
            "cwd": "/w",
            "connect_timeout": 20,
            "call_timeout": 30.5,
            "disabled": True,
        },
    ),
    (
        "codex",
        {
            "url": "https://h/mcp",
            "bearer_token_env_var": "T",
            "http_headers": {"A": "b"},
            "env_http_headers": {"C": "D"},
        },
        {"url": "https://h/mcp", "headers": {"A": "b", "C": "${D}", "Authorization": "Bearer ${T}"}},
    ),
    (
        "crush",
        {"type": "stdio", "command": "a", "timeout": 15, "env": {"K": "$V"}},
        {"command": "a", "call_timeout": 15, "env": {"K": "${V}"}},
    ),
    ("kimi", {"url": "https://h/mcp", "transport": "http"}, {"url": "https://h/mcp"}),
]


@pytest.mark.parametrize(("client", "given", "entry"), TRANSLATED)
def test_an_entry_is_translated_with_nothing_to_say(
    client: str, given: dict[str, Any], entry: dict[str, Any]
) -> None:
    assert server(client, given) == Server("s", entry, (), ())


@pytest.mark.parametrize("entry", [entry for _, _, entry in TRANSLATED])
def test_what_comes_out_is_understood_by_the_configuration(entry: dict[str, Any]) -> None:
    known = {key: value for key, value in entry.items() if key != "env_file"}
    text = json.dumps({"mcpServers": {"s": known}})
    loaded = parse(
        text, where="c.json", environ={"X": "x", "T": "t", "V": "v", "D": "d", "TOKEN": "t", "OTHER": "o"}
    )
    assert not loaded.notices


NAMED: list[tuple[str, dict[str, Any], str]] = [
    (
        "cline",
        {"autoApprove": ["a"], "alwaysAllow": ["b"]},
        "left out: autoApprove, alwaysAllow (the client asks",
    ),
    ("windsurf", {"disabledTools": ["a"]}, "left out: disabledTools (MCPX offers all tools"),
    (
        "gemini",
        {"trust": True, "includeTools": ["a"]},
        "left out: trust (the client asks before exec as a whole)",
    ),
    ("copilot", {"tools": ["one"]}, "left out: tools (MCPX offers all tools"),
    ("codex", {"enabled_tools": ["a"], "scopes": ["x"]}, "left out: enabled_tools ("),
    ("goose", {"available_tools": ["a"]}, "left out: available_tools ("),
    ("vscode", {"gallery": "https://g", "version": "1"}, "left out: gallery, version"),
    ("zed", {"remote": True}, "left out: remote"),
    ("goose", {"env_keys": "K"}, "left out: env_keys"),
    ("codex", {"env_vars": "K", "http_headers": 3}, "left out: env_vars, http_headers"),
    (
        "continue",
        {"requestOptions": {"verifySsl": False, "proxy": "p"}},
        "left out: requestOptions.verifySsl, ",
    ),
    ("cursor", {"timeout": "soon"}, "left out: timeout"),
    ("cursor", {"timeout": -1}, "left out: timeout"),
    ("cursor", {"timeout": 10**400}, "left out: timeout"),
    ("cursor", {"timeout": float("nan")}, "left out: timeout"),
    ("codex", {"startup_timeout_sec": 0}, "left out: startup_timeout_sec"),
    ("cursor", {"env": ["K=V"]}, "env is left out: it is not an object"),
    ("cursor", {"env": {"A=B": "v"}}, "a name or value in env is left out"),
    ("cursor", {"env": {"A": {"b": 1}}}, "a name or value in env is left out"),
    ("cursor", {"disabled": "yes"}, "left out: disabled"),
    ("cursor", {"something": 1}, "left out: something"),
]


@pytest.mark.parametrize(("client", "more", "note"), NAMED)
def test_what_mcpx_does_not_have_is_named(client: str, more: dict[str, Any], note: str) -> None:
    command = {"cmd": "a"} if client == "goose" else {"command": "a"}
    found = server(client, {**command, **more})
    assert any(each.startswith(note) for each in found.notes), found.notes
    assert found.entry["command"] == "a"


def test_a_command_beside_the_url_that_the_client_prefers_is_named() -> None:
    found = server("gemini", {"httpUrl": "https://h/mcp", "command": "old"})
    assert found == Server("s", {"url": "https://h/mcp"}, ("left out: command",), ())


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/mcp", "http://[::1]:8000/mcp"])
def test_a_command_beside_a_url_of_this_machine_is_the_program_behind_it(url: str) -> None:
    entry = server("cursor", {"command": "a", "args": ["b"], "url": url}).entry
    assert (entry["command"], entry["args"], entry["url"]) == ("a", ["b"], url)


def test_a_key_that_says_nothing_is_not_named() -> None:
    given = {"command": "a", "autoApprove": [], "trust": False, "disabledTools": [], "note": "", "icon": None}
    assert server("cline", given).notes == ()


NEEDS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "vscode",
        {"env": {"K": "${input:api-key}"}},
        {"env": {"K": "${API_KEY}"}, "disabled": True},
        'the editor asks for "api-key": set API_KEY',
    ),
    (
        "vscode",
        {"args": ["--root", "${workspaceFolderBasename}/x"]},
        {"args": ["--root", "${workspaceFolderBasename}/x"], "disabled": True},
        '"${workspaceFolderBasename}" is known to the editor only',
    ),
    (
        "cursor",
        {"cwd": "${workspaceFolder:web}"},
        {"cwd": "${workspaceFolder:web}", "disabled": True},
        '"${workspaceFolder:web}" is known',
    ),
    (
        "goose",
        {"env_keys": ["TOKEN"]},
        {"env": {"TOKEN": "${TOKEN}"}, "disabled": True},
        "Goose keeps TOKEN in its keychain: set TOKEN",
    ),
    (
        "continue",
        {"env": {"K": "${{ secrets.MY_KEY }}"}},
        {"env": {"K": "${MY_KEY}"}, "disabled": True},
        'the client keeps "MY_KEY"',
    ),
    (
        "opencode",
        {"environment": {"K": "{file:~/.key}"}},
        {"env": {"K": "${KEY}"}, "disabled": True},
        'the client reads "~/.key"',
    ),
]


@pytest.mark.parametrize(("client", "more", "entry", "need"), NEEDS)
def test_what_must_be_done_before_a_server_works_is_said(
    client: str, more: dict[str, Any], entry: dict[str, Any], need: str
) -> None:
    found = server(client, {"cmd" if client == "goose" else "command": "a", **more})
    assert found.entry == {"command": "a", **entry}
    assert len(found.needs) == 1
    assert found.needs[0].startswith(need)


def test_a_command_may_stand_beside_its_folder() -> None:
    assert server("cursor", {"command": "./run"}).needs[0].startswith("command is a path from where")
    for given in ({"command": "./run", "cwd": "/srv"}, {"command": "C:\\a\\b"}, {"command": "~/run"}):
        assert server("cursor", given).needs == ()


def test_an_input_with_a_default_that_is_no_secret_keeps_it() -> None:
    given = {"command": "a", "args": ["${input:the-url}", "${input:the-key}"]}
    found = server(
        "vscode", given, the_url={"default": "http://x"}, the_key={"default": "s3cret", "password": True}
    )
    assert found.entry["args"] == ["${THE_URL:-http://x}", "${THE_KEY}"]
    assert len(found.needs) == 1
    assert "s3cret" not in str(found)


TEXTS = [
    ("cursor", "${cmd:touch PWNED}"),
    ("claude-desktop", "${TOKEN}"),
    ("claude-code", "${keychain:x}"),
    ("claude-code", "${env:X}"),
    ("claude-code", "${VAR:-${cmd:touch PWNED}}"),
    ("claude-code", "a${VAR:-b${cmd:touch PWNED}c"),
    ("claude-code", "${VAR:-${VAR:-${cmd:touch PWNED}}}"),
    ("gemini", "$${cmd:touch PWNED}"),
    ("gemini", "${A}${cmd:x}${B:-${C}}$D"),
    ("vscode", "${env:A:-${cmd:touch PWNED}}"),
    ("vscode", "${ENV:A}${ cmd:x}${Cmd:x}"),
    ("vscode", "${cmd:echo ${env:A} }"),
    ("opencode", "{env:A}${cmd:touch PWNED}"),
    ("continue", "${{ secrets.A }}${cmd:x}${{ secrets.A:-${cmd:y} }}"),
    ("windsurf", "${command:a:-${cmd:touch PWNED}}"),
    ("vscode", "${workspaceFolder:-${cmd:touch PWNED}}"),
    ("vscode", "${workspaceFolder:a:-${cmd:touch PWNED}}"),
    ("vscode", "${input:a:-${cmd:touch PWNED}}"),
    ("vscode", "${input:${cmd:touch PWNED}}"),
    ("roo", "${pathSeparator}${cmd:touch PWNED}"),
    ("kimi", "${cm${A}d:x}"),
]


@pytest.mark.parametrize(("client", "text"), TEXTS)
def test_no_text_of_a_clients_file_is_a_secret_or_a_command(client: str, text: str) -> None:
    key = "cmd" if client == "goose" else "command"
    given = {"env": {"K": text}, "args": ["--k", text], "cwd": f"/{text}", "envFile": f"/{text}"}
    remote = {"url": f"https://h/{text}", "headers": {"K": text}, "oauth": {"clientId": text}}
    for entry in (server(client, {key: text, **given}).entry, server(client, remote).entry):
        written = [value for value in _texts_in(entry) if "${" in value]
        assert [each for value in written for each in secrets_in(value)] == []


@pytest.mark.parametrize(
    ("client", "given"),
    [
        ("codex", {"command": "a", "env_vars": ["X:-${cmd:touch PWNED}"]}),
        ("codex", {"url": "https://h/mcp", "bearer_token_env_var": "X:-${cmd:touch PWNED}"}),
        ("codex", {"url": "https://h/mcp", "env_http_headers": {"A": "cmd:touch PWNED"}}),
        ("goose", {"cmd": "a", "env_keys": ["cmd:touch PWNED"]}),
        ("crush", {"type": "stdio", "command": "a", "env": {"K": "$(touch PWNED)"}}),
        ("gemini", {"command": "a", "env": {"K": "$${X}"}}),
    ],
)
def test_a_name_that_is_no_variables_and_what_has_no_spelling_are_left_out(
    client: str, given: dict[str, Any]
) -> None:
    with pytest.raises(NotImportedError):
        server(client, given)


def test_a_header_of_goose_takes_its_own_variables_and_nothing_else_comes_to_life() -> None:
    given = {
        "type": "streamable_http",
        "uri": "https://h/mcp",
        "envs": {"T": "${cmd:touch PWNED}", "T2": "t"},
        "env_keys": ["KEY"],
        "headers": {"A": "Bearer ${T} $T2 ${KEY} ${cmd:x}"},
    }
    headers = server("goose", given).entry["headers"]
    assert headers == {"A": "Bearer $${cmd:touch PWNED} t ${KEY} $${cmd:x}"}


def test_text_that_mcpx_would_read_stays_text_and_is_named() -> None:
    found = server("cursor", {"command": "a", "env": {"K": "${cmd:touch x}", "L": "${TOKEN}"}})
    assert found.entry["env"] == {"K": "$${cmd:touch x}", "L": "$${TOKEN}"}
    assert expand(found.entry["env"]["K"], Values({}, "/")).text == "${cmd:touch x}"
    assert [note.partition(" is plain text to Cursor")[0] for note in found.notes] == [
        "${cmd:...}",
        "${TOKEN}",
    ]
    assert "touch" not in str(found.notes)


REGISTERED = "MCPX signs in as its client: allow that to return to http://127.0.0.1:{}/callback"
SIGN_INS: list[tuple[str, dict[str, Any], Any]] = [
    ("cursor", {"auth": {"CLIENT_ID": "${env:ID}", "CLIENT_SECRET": "${env:KEY}", "scopes": ["a"]}},
     {"client_id": "${ID}", "client_secret": "${KEY}", "scopes": ["a"]}),
    ("claude-code", {"oauth": {"clientId": "c", "callbackPort": 3118, "scopes": "a b"}},
     {"client_id": "c", "callback_port": 3118, "scopes": "a b"}),
    ("gemini", {"oauth": {"enabled": True, "clientId": "$ID", "clientSecret": "$KEY", "scopes": ["a"]}},
     {"client_id": "${ID}", "client_secret": "${KEY}", "scopes": ["a"]}),
    ("vscode", {"oauth": {"clientId": "c"}}, {"client_id": "c"}),
    ("zed", {"oauth": {"client_id": "c"}}, {"client_id": "c"}),
    ("kiro", {"oauth": {"clientId": "c", "redirectUri": "http://localhost:7778/oauth/callback"}},
     {"client_id": "c", "callback_port": 7778}),
    ("opencode", {"oauth": {"clientId": "{env:ID}", "scope": "a b"}},
     {"client_id": "${ID}", "scopes": "a b"}),
    ("codex", {"oauth": {"client_id": "c"}, "scopes": ["a"]}, {"client_id": "c", "scopes": ["a"]}),
]  # fmt: skip


@pytest.mark.parametrize(("client", "given", "auth"), SIGN_INS)
def test_how_a_client_signs_in_is_taken_over(
    client: str, given: dict[str, Any], auth: dict[str, Any]
) -> None:
    found = server(client, {"url": "https://h/mcp", **given})
    assert found.entry == {"url": "https://h/mcp", "auth": auth}
    assert found.notes == ()
    assert found.needs == (REGISTERED.format(auth.get("callback_port", 8767)),)
    read = parse(json.dumps({"mcpServers": {"s": found.entry}}), where="c", environ={"ID": "i", "KEY": "k"})
    assert read.servers["s"].disabled is None
    assert read.notices == ()


def test_a_server_that_the_client_signs_in_to_as_the_server_says_needs_nothing() -> None:
    for client, given in (
        ("gemini", {"oauth": {"enabled": True}, "authProviderType": "dynamic_discovery"}),
        ("codex", {"scopes": ["a"]}),
        ("claude-code", {"oauth": {}}),
        ("cursor", {"auth": "oauth"}),
    ):
        assert (server(client, {"url": "https://h/mcp", **given}).needs, given) == ((), given)
    found = server("opencode", {"type": "remote", "url": "https://h/mcp", "oauth": False})
    assert (found.entry, found.needs) == ({"url": "https://h/mcp", "auth": False}, ())


def test_what_the_client_has_beyond_mcpx_is_named_and_a_header_counts_before_a_sign_in() -> None:
    theirs = {"clientId": "c", "tokenUrl": "https://as/t", "clientSecret": {"a": 1}, "more": 1}
    found = server("gemini", {"httpUrl": "https://h/mcp", "oauth": theirs})
    left_out = "left out of oauth: tokenUrl, clientSecret, more (MCPX signs in as the server says)"
    assert (found.entry["auth"], found.notes) == ({"client_id": "c"}, (left_out,))
    found = server(
        "cursor", {"url": "https://h", "auth": {"CLIENT_ID": "c"}, "headers": {"Authorization": "x"}}
    )
    assert "auth" not in found.entry
    assert (found.notes, found.needs) == (("left out: auth",), ())
    found = server("cursor", {"url": "https://h", "auth": "a-token"})
    assert (found.entry, found.notes) == ({"url": "https://h"}, ("left out: auth",))


def test_a_sign_in_that_is_the_clients_own_needs_a_header() -> None:
    needs = ("the client signs in to it in a way of its own: give it a header",)
    assert server("claude-code", {"url": "https://h/mcp", "headersHelper": "/bin/h"}).needs == needs
    given = {"httpUrl": "https://h/mcp", "authProviderType": "google_credentials"}
    assert server("gemini", given).needs == needs


def test_certificates_are_taken_over() -> None:
    certificate = {"cert": "/c/client.pem", "key": "client.key", "passphrase": "word"}
    given = {
        "url": "https://h",
        "requestOptions": {"caBundlePath": "/c/ca.pem", "clientCertificate": certificate},
    }
    found = server("continue", given)
    tls = {"ca": "/c/ca.pem", "cert": "/c/client.pem", "key": "client.key"}
    assert found.entry == {"url": "https://h", "tls": tls, "disabled": True}
    assert found.notes == ("left out: requestOptions.clientCertificate.passphrase",)
    assert found.needs == ("tls.key is a path from where the client is started: write the whole path",)


NO_SERVER: list[tuple[str, object, str]] = [
    ("cursor", "npx", "it is not an object"),
    ("cursor", {}, "it has neither a command nor a URL"),
    ("cursor", {"command": ""}, "it has neither"),
    ("cursor", {"command": 3, "args": {}}, "its arguments are no list"),
    ("cursor", {"command": "a", "args": [{}]}, "its command or its arguments are not text"),
    ("cursor", {"command": "a\0b"}, "a character that is no text"),
    ("cursor", {"command": "a", "env": {"K": "\ud800"}}, "a character that is no text"),
    ("cursor", {"url": "ftp://h"}, "its URL does not start with http"),
    ("cursor", {"type": "ws", "url": "ws://h"}, "MCPX does not have its transport"),
    ("zed", {"source": "extension", "settings": {}}, "an extension of Zed starts it"),
    ("goose", {"type": "builtin", "name": "developer"}, "a part of Goose"),
    ("goose", {"type": "platform", "name": "todo"}, "a part of Goose"),
    ("continue", {"uses": "org/block"}, "a block of the Continue hub"),
    ("opencode", {"type": "local", "command": []}, "its command or its arguments are not text"),
]


@pytest.mark.parametrize(("client", "given", "reason"), NO_SERVER)
def test_what_is_no_server_for_mcpx_says_why(client: str, given: object, reason: str) -> None:
    with pytest.raises(NotImportedError, match=reason):
        server(client, given)


@pytest.mark.parametrize("name", ["", " ", "a\nb"])
def test_a_name_that_no_server_can_have_is_refused(name: str) -> None:
    with pytest.raises(NotImportedError, match="its name"):
        translate(name, SAME, client_named("cursor"))


WRONG_KINDS: list[Any] = [None, True, 3, 1.5, "text", [], ["x"], [{}], {}, {"x": 1}, {"x": None}]
KEYS = [
    "command",
    "cmd",
    "args",
    "env",
    "envs",
    "environment",
    "env_keys",
    "env_vars",
    "envFile",
    "cwd",
    "url",
    "uri",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "type",
    "transport",
    "disabled",
    "enabled",
    "timeout",
    "connectionTimeout",
    "requestOptions",
    "startup_timeout_sec",
    "tools",
    "settings",
    "source",
    "oauth",
    "auth",
    "scopes",
    "tls",
    "authProviderType",
]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_value_of_any_kind_at_any_key_is_taken_or_named_and_never_a_fault(client) -> None:
    for base, key, value in product(({"command": "a"}, {"url": "https://h/mcp"}), KEYS, WRONG_KINDS):
        with suppress(NotImportedError):
            translate("s", {**base, key: value}, client)

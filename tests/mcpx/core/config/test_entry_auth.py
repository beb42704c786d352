"""`auth` of a server's entry: what it may be, as whom it is written, and what contradicts itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.config import Config, Http, ServerConfig, parse, redactor_of
from mcpx.core.config.server_config import OAuth

URL = "https://x.example/mcp"
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ\n-----END PRIVATE KEY-----\n"


def config(entry: dict[str, Any], folder: Path | None = None, **environ: str) -> Config:
    text = json.dumps({"mcpServers": {"s": {"url": URL} | entry}})
    return parse(text, where="c", environ={"HOME": "/home/me", **environ}, folder=folder)


def server(entry: dict[str, Any], folder: Path | None = None, **environ: str) -> ServerConfig:
    return config(entry, folder, **environ).servers["s"]


def auth(value: Any, key: str = "auth", **environ: str) -> OAuth | None:
    found = server({key: value}, **environ)
    assert found.disabled is None, found.disabled
    assert isinstance(found.transport, Http)
    return found.transport.auth


@pytest.mark.parametrize("value", [None, True, "oauth", {}, {"enabled": True}])
def test_a_server_is_signed_in_to_where_nothing_else_is_said(value: object) -> None:
    assert auth(value) == OAuth()


@pytest.mark.parametrize("value", [False, "none", {"enabled": False, "clientId": "i"}])
def test_one_that_says_so_is_not(value: object) -> None:
    assert auth(value) is None


OURS = {"client_id": "i", "client_secret": "s", "scopes": ["a", "b"], "callback_port": 3118}
SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    ("auth", OURS),
    ("auth", {"CLIENT_ID": "i", "CLIENT_SECRET": "s", "scopes": ["a", "b"], "callback_port": 3118}),
    ("oauth", {"clientId": "i", "clientSecret": "s", "scopes": "a b", "callbackPort": 3118}),
    ("oauth", {"clientId": "i", "clientSecret": "s", "scope": " a  b", "callback-port": 3118.0}),
    (
        "oauth",
        {"client_id": "i", "client_secret": "s", "oauthScopes": ["a b"], "redirectUri": "localhost:3118"},
    ),
    ("oauth", {**OURS, "callback_port": None, "redirectUri": "http://127.0.0.1:3118/mcp/oauth/callback"}),
]


@pytest.mark.parametrize(("key", "value"), SPELLINGS)
def test_other_clients_spellings_mean_the_same(key: str, value: dict[str, Any]) -> None:
    assert auth(value, key) == OAuth(client_id="i", client_secret="s", scopes=("a", "b"), callback_port=3118)


@pytest.mark.parametrize(
    "url",
    [
        "https://as.example/.well-known/oauth-authorization-server/tenant",
        "https://as.example/tenant/.well-known/openid-configuration",
    ],
)
def test_the_address_of_the_metadata_says_the_issuer(url: str) -> None:
    assert auth({"authServerMetadataUrl": url}, "oauth") == OAuth(issuer="https://as.example/tenant")


def test_what_other_clients_have_beyond_that_is_noted() -> None:
    theirs = {
        "clientId": "i",
        "tokenUrl": "https://as/token",
        "audiences": ["a"],
        "redirectUri": "cursor://x",
    }
    found = config({"oauth": {**theirs, "anything": 1}})
    assert found.servers["s"].transport == Http(url=URL, auth=OAuth(client_id="i"))
    unused = ["tokenUrl", "audiences", "redirectUri", "anything"]
    assert [notice.split(" (")[0] for notice in found.notices] == [
        f'"{key}" is not used by MCPX' for key in unused
    ]


def test_every_string_may_hold_variables_and_all_of_them_are_secrets(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(PEM)
    given = {
        "client_id": "${ID}", "scopes": ["${SCOPE}", "b"], "grant": "${GRANT}", "private_key": "${KEY}.pem",
        "algorithm": "${ALGORITHM}", "issuer": "https://${HOST}",
    }  # fmt: skip
    environ = {"ID": "client-one", "SCOPE": "files:read x", "GRANT": "client_credentials", "KEY": "key"}
    environ |= {"ALGORITHM": "EdDSA", "HOST": "as.example"}
    found = server({"auth": given}, tmp_path, **environ)
    assert found.transport == Http(
        url=URL,
        auth=OAuth(
            client_id="client-one",
            scopes=("files:read", "x", "b"),
            grant="client_credentials",
            private_key=PEM,
            algorithm="EdDSA",
            issuer="https://as.example",
        ),
    )
    assert redactor_of(found)(f"client-one: {PEM.splitlines()[1]}") == "***ID***: ***private_key***"
    assert "client-one" in repr(found.transport.auth)
    assert PEM not in repr(found)


@pytest.mark.parametrize("key", ["client_id", "client_secret", "scopes", "issuer", "private_key"])
def test_a_variable_that_is_not_set_disables_the_server(key: str) -> None:
    found = server({"auth": {"client_id": "i", key: "${NONE}"}})
    assert found.disabled == f"environment variable NONE is not set (used in $.mcpServers.s.auth.{key})"


def test_a_secret_that_is_not_fetched_is_no_problem() -> None:
    found = server({"auth": {"client_id": "i", "client_secret": "${keychain:S}"}})
    assert found.disabled is None
    found = server({"auth": {"client_id": "i", "private_key": "${cmd:pass key}"}})
    assert found.disabled is None


def test_a_key_starts_at_the_folder_of_the_file_or_at_home(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text(PEM)
    for written in ("key.pem", "./key.pem", "~/key.pem", str(tmp_path / "key.pem"), PEM):
        found = server({"auth": {"client_id": "i", "private_key": written}}, tmp_path, HOME=str(tmp_path))
        assert found.transport == Http(url=URL, auth=OAuth(client_id="i", private_key=PEM))


KEY_FILES = [
    (None, "neither the PEM text of a key nor the path of a file"),
    ("rubbish", "the file of the private key is no PEM file"),
    ("-----BEGIN CERTIFICATE-----\n", "this holds no private key"),
    ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "the private key has a passphrase; give one without"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
        "the private key has a passphrase; give one without",
    ),
]


@pytest.mark.parametrize(("content", "reason"), KEY_FILES)
def test_a_key_that_cannot_be_read_is_the_reason_that_disables(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_text(content)
    found = server({"auth": {"client_id": "i", "private_key": "key.pem"}}, tmp_path)
    assert found.disabled == f"{reason} (in $.mcpServers.s.auth.private_key)"


@pytest.mark.parametrize("key", ["MC4CAQAwBQYDK2VwBCIEIJ" * 3, "x" * 5000, "a\tb"])
def test_a_key_in_another_form_is_not_shown_as_a_path(key: str) -> None:
    for written, tls in ((key, "${KEY}"), ("${KEY}", "${KEY}/c.pem")):
        found = server({"auth": {"client_id": "i", "private_key": written}, "tls": {"ca": tls}}, KEY=key)
        assert found.disabled is not None
        assert key not in found.disabled
        assert "private_key" in found.disabled
        assert f"{tls} " in found.disabled or "control character" in found.disabled


BASIC = "client_secret_basic"
MACHINE = {"grant": "client_credentials"}
MISTAKES: list[tuple[Any, str]] = [
    ({"client_secret": "s"}, '"client_secret" without "client_id": whose is it?'),
    ({"private_key": PEM}, '"private_key" without "client_id": whose is it?'),
    (MACHINE, '"grant": "client_credentials" needs a "client_id"'),
    (
        MACHINE | {"client_id": "i"},
        '"grant": "client_credentials" needs a "client_secret" or a "private_key"',
    ),
    (
        {"client_id": "i", "client_metadata_url": "https://h/c.json"},
        'both "client_id" and "client_metadata_url"',
    ),
    ({"client_metadata_url": "http://h/c.json"}, "expected a URL that starts with https:// and has a path"),
    ({"client_metadata_url": "https://h/"}, "expected a URL that starts with https:// and has a path"),
    ({"client_id": "i", "client_secret": "s", "private_key": PEM}, 'both "client_secret" and "private_key"'),
    ({"client_id": "i", "token_auth": BASIC}, '"token_auth": "client_secret_basic" without "client_secret"'),
    (
        {"client_id": "i", "client_secret": "s", "token_auth": "none"},
        '"token_auth": "none" with "client_secret"',
    ),
    ({"issuer": "http://as.example"}, "expected a URL that starts with https://"),
    ({"issuer": "https://user:pass@as.example"}, "expected a URL that starts with https://"),
    ({"algorithm": "none"}, "expected one of RS256, RS384"),
    ({"algorithm": "HS256"}, "expected one of RS256, RS384"),
    ({"grant": "password"}, 'expected one of "authorization_code", "client_credentials"'),
    ({"callback_host": "0.0.0.0"}, 'expected one of "127.0.0.1", "localhost"'),
    ({"scopes": 'a"b'}, "expected scopes without odd characters"),
    ({"scopes": [1]}, "expected a string, got a number"),
    ({"scopes": 1}, "expected an array of strings, got a number"),
    ({"client_id": ""}, "expected a string, got an empty one"),
    ({"client_id": 7}, "expected a string, got a number"),
    ({"client_id": "a\nb"}, "the string holds a control character"),
    ({"callback_port": "1"}, "expected a whole number from 1 to 65535, got a string"),
    ({"person": "i"}, "unknown key; the keys are client_id"),
    ({"client_ID": "i", "clientId": "j"}, '"clientId" says again what "client_ID" says'),
    ({"clinet_id": "i"}, 'unknown key; did you mean "client_id"?'),
    ("tok-123456789", 'got a string; a token belongs into "headers"'),
    (3, 'expected an object, "oauth", "none", true or false, got a number'),
]


@pytest.mark.parametrize(("value", "problem"), MISTAKES)
def test_what_cannot_be_meant_disables_the_server_and_shows_no_value(value: Any, problem: str) -> None:
    reason = server({"auth": value}).disabled
    assert reason is not None
    assert problem in reason
    assert "$.mcpServers.s.auth" in reason
    assert "tok-" not in reason


def test_a_server_gets_a_header_or_a_sign_in() -> None:
    headers = {"authorization": "Bearer ${T:-x}"}
    for value in ({}, True, "oauth"):
        reason = server({"auth": value, "headers": headers}).disabled or ""
        assert reason.startswith('contradicts the header "Authorization"')
    assert server({"headers": headers}).disabled is None
    assert server({"auth": False, "headers": headers}).disabled is None
    reason = server({"auth": {}, "oauth": {}}).disabled or ""
    assert reason.startswith('both "auth" and "oauth": one is enough')


def test_a_mistake_shows_no_value_that_came_out_of_a_variable() -> None:
    for key in ("grant", "algorithm", "issuer", "token_auth", "client_metadata_url"):
        reason = server({"auth": {key: "${SECRET}"}}, SECRET="s3cret-value").disabled or ""
        assert "after expansion" in reason
        assert "s3cret" not in reason


def test_without_https_it_is_said_that_there_is_none() -> None:
    said = "no sign-in goes unencrypted to another machine; use https://"
    for url, auth, notices in [
        ("http://x/mcp", {"client_id": "i"}, (f"$.mcpServers.s.auth: {said}",)),
        ("http://127.0.0.1/mcp", {"client_id": "i"}, ()),
        ("http://x/mcp", False, ()),
    ]:
        assert config({"url": url, "auth": auth}).notices == notices
    assert config({"url": "http://x/mcp"}).notices == ()


def test_on_a_server_with_a_command_it_has_no_effect() -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", "auth": {"client_id": "i"}, "tls": {"ca": "c"}}}})
    found = parse(text, where="c", environ={})
    assert found.servers["s"].disabled is None
    assert [notice.split(": ")[0] for notice in found.notices] == [
        "$.mcpServers.s.tls",
        "$.mcpServers.s.auth",
    ]

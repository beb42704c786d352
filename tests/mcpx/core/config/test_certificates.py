"""`tls` of a server's entry: its files are looked at when the configuration is read."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.config import Http, ServerConfig, Sse, parse
from mcpx.core.config.certificates import CertificateProblem, ssl_context
from mcpx.core.config.server_config import Tls
from tests.mcpx.authority import Authority


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    for name in ("client", "other"):
        cert, key = authority.issue(name)
        (folder / f"{name}.both").write_bytes(cert.read_bytes() + key.read_bytes())
    authority.issue("locked", passphrase=b"word")
    (folder / "rubbish").write_text("rubbish")
    (folder / "broken").write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    (folder / "broken.key").write_text("-----BEGIN PRIVATE KEY-----\nnothing\n-----END PRIVATE KEY-----\n")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return folder


def server(files: Path, tls: Any, url: str = "https://x/mcp", **environ: str) -> ServerConfig:
    text = json.dumps({"mcpServers": {"s": {"url": url, "tls": tls}}})
    return parse(text, where="c", environ={"HOME": str(files), **environ}, folder=files).servers["s"]


@pytest.mark.parametrize(
    "given",
    [
        {"cert": "client.crt", "key": "client.key", "ca": "ca.pem"},
        {"cert": "./client.crt", "key": "~/client.key", "ca": "${HOME}/ca.pem"},
        {"cert": "${NAME}.crt", "key": "folder/../client.key", "ca": "ca.pem", "//": "mine"},
    ],
)
def test_paths_are_absolute_once_they_are_read(files: Path, given: dict[str, str]) -> None:
    found = server(files, given, NAME="client")
    paths = {key: str(files / name) for key, name in [("cert", "client.crt"), ("key", "client.key")]}
    assert found.disabled is None
    assert found.transport == Http(url="https://x/mcp", tls=Tls(**paths, ca=str(files / "ca.pem")))


def test_each_part_may_be_left_out_and_a_key_may_be_in_the_file_of_the_certificate(files: Path) -> None:
    for tls in (
        {"ca": "ca.pem"},
        {"cert": "client.both"},
        {"cert": "client.crt", "key": "client.key", "ca": None},
        {},
    ):
        assert server(files, tls).disabled is None
    assert server(files, None).transport == Http(url="https://x/mcp")
    found = server(files, {"ca": "ca.pem"}, "https://x/sse")
    assert found.transport == Sse(url="https://x/sse", tls=Tls(ca=str(files / "ca.pem")))


REASONS: list[tuple[dict[str, str], str, str]] = [
    ({"ca": "none.pem"}, "ca", "no such file: {}/none.pem"),
    ({"ca": "folder"}, "ca", "{}/folder is no file of certificates or keys"),
    ({"ca": "pipe"}, "ca", "{}/pipe is no file of certificates or keys"),
    ({"ca": "rubbish"}, "ca", "{}/rubbish is no PEM file"),
    ({"ca": "broken"}, "ca", "{}/broken holds no certificate that can be read"),
    ({"ca": "client.key"}, "ca", "{}/client.key holds no certificate that can be read"),
    ({"cert": "none.crt", "key": "client.key"}, "cert", "no such file: {}/none.crt"),
    ({"cert": "client.crt", "key": "none.key"}, "key", "no such file: {}/none.key"),
    ({"cert": "client.key", "key": "client.key"}, "cert", "{}/client.key holds no certificate"),
    ({"cert": "client.crt", "key": "client.crt"}, "key", "{}/client.crt holds no private key"),
    ({"cert": "client.crt"}, "cert", '{}/client.crt holds no private key; name the file of the key in "key"'),
    (
        {"cert": "client.crt", "key": "other.key"},
        "key",
        "the private key in {0}/other.key does not belong to the certificate in {0}/client.crt",
    ),
    (
        {"cert": "locked.crt", "key": "locked.key"},
        "key",
        "the private key in {}/locked.key has a passphrase; write it to a file without one",
    ),
    (
        {"cert": "client.crt", "key": "broken.key"},
        "cert",
        "{}/client.crt: certificate or key cannot be read",
    ),
]


@pytest.mark.parametrize(("given", "key", "reason"), REASONS)
def test_what_cannot_be_used_is_the_reason_that_disables(
    files: Path, given: dict[str, str], key: str, reason: str
) -> None:
    assert server(files, given).disabled == f"{reason.format(files)} (in $.mcpServers.s.tls.{key})"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"key": "client.key"}, '"key" without "cert": the certificate is missing'),
        ({"certificate": "client.crt"}, "unknown key; the keys are cert, key, ca"),
        ({"ca": ""}, "expected a string, got an empty one"),
        ({"ca": ["ca.pem"]}, "expected a string, got an array"),
        ({"ca": "-----BEGIN CERTIFICATE-----"}, "expected the path of a file, got what should be in it"),
        ("ca.pem", "expected an object, got a string"),
    ],
)
def test_a_mistake_disables_too(files: Path, given: Any, problem: str) -> None:
    assert (server(files, given).disabled or "").startswith(f"{problem} (in $.mcpServers.s.tls")


def test_a_variable_that_is_not_set_is_the_only_reason(files: Path) -> None:
    reason = "environment variable CA is not set (used in $.mcpServers.s.tls.ca)"
    assert server(files, {"ca": "${CA}", "cert": "client.crt", "key": "client.key"}).disabled == reason
    assert server(files, {"ca": "${keychain:CA}"}).disabled is None


def test_without_https_it_is_said_to_have_no_effect(files: Path) -> None:
    text = json.dumps({"mcpServers": {"s": {"url": "http://127.0.0.1/mcp", "tls": {"ca": "ca.pem"}}}})
    config = parse(text, where="c", environ={}, folder=files)
    assert config.notices == ("$.mcpServers.s.tls: has no effect on a server that is reached by http://",)


def test_own_authorities_are_trusted_alone_and_names_are_checked(files: Path) -> None:
    context = ssl_context(Tls(ca=str(files / "ca.pem")))
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert len(context.get_ca_certs()) == 1
    with pytest.raises(CertificateProblem, match="no such file"):
        ssl_context(Tls(ca=str(files / "none")))

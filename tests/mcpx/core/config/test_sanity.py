"""Certificates and keys as `mcpx check` and `mcpx doctor` see them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import mcpx.core.config.findings
from mcpx.core.config.findings import examine
from mcpx.core.running.keychain import NOT_INSTALLED
from tests.mcpx.authority import Authority


def remarks(folder: Path, entry: dict[str, Any], **settings: Any) -> list[tuple[str, str | None, str]]:
    file = folder / "c.json"
    file.write_text(json.dumps({"mcpServers": {"s": {"url": "https://x/mcp", **entry}}, **settings}))
    found = examine(file, environ={"PATH": "/bin"}, resolve=False)
    return [(each.level, each.path, each.text) for each in found.findings]


def day(days: int) -> str:
    return f"{dt.datetime.now(dt.UTC) + dt.timedelta(days=days):%Y-%m-%d}"


def test_a_certificate_that_has_expired_or_soon_will_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for name, days, said in [("old", -3, "has expired"), ("soon", 5, "expires"), ("good", 30, None)]:
        cert, key = authority.issue(name, days=days)
        key.chmod(0o600)
        text = f"a certificate in {cert} {said} on {day(days)}"
        expected = [("warning", "$.mcpServers.s.tls.cert", text)] if said else []
        assert remarks(tmp_path, {"tls": {"cert": str(cert), "key": str(key), "ca": "ca.pem"}}) == expected


def test_a_key_that_everybody_can_read_is_named(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).issue("client")
    key.chmod(0o644)
    text = f"every user of this machine can read the key in {key}; type: chmod 600 {key}"
    found = remarks(tmp_path, {"tls": {"cert": "client.crt", "key": "client.key"}})
    assert found == [("warning", "$.mcpServers.s.tls.key", text)]
    assert cert.exists()


KEYS = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("algorithm", KEYS)
def test_a_key_signs_with_an_algorithm_of_its_kind(tmp_path: Path, key: str, algorithm: str) -> None:
    pem = KEYS[key].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    auth = {"client_id": "i", "private_key": pem.decode(), "algorithm": algorithm}
    found = remarks(tmp_path, {"auth": auth})
    if key == algorithm:
        assert found == []
    else:
        [(level, path, text)] = found
        assert (level, path) == ("warning", "$.mcpServers.s.auth.private_key")
        assert text.startswith(f"{algorithm} is not for a key of ")


def test_a_key_that_is_none_is_named(tmp_path: Path) -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    [(_, _, text)] = remarks(tmp_path, {"auth": {"client_id": "i", "private_key": pem}})
    assert text == "the private key cannot be read"


def test_a_keychain_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert remarks(tmp_path, {}, token_store="keychain") == []
    monkeypatch.setattr(mcpx.core.config.findings, "find_spec", lambda _name: None)
    assert remarks(tmp_path, {}, token_store="keychain") == [("warning", "$.token_store", NOT_INSTALLED)]
    assert remarks(tmp_path, {}, token_store="file") == []

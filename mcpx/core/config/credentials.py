"""Certificates and keys of servers as they are today: expired, readable by others, or of the wrong kind.

Called for `mcpx check` and `mcpx doctor`, beside `mcpx.core.config.sanity`. Whether they can be used at all
is seen when the configuration is read (`mcpx.core.config.certificates`). Reads files.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from mcpx.core.config.auth import OAuth, Tls
from mcpx.core.config.certificates import CertificateProblem, read_pem
from mcpx.core.config.model import Http, ServerConfig, Sse
from mcpx.core.config.sanity import Remarks

SOON: Final = timedelta(days=14)
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "Ed25519 or Ed448"}
"""By the beginning of an algorithm, the kind of its keys."""
_CURVES: Final = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}


def odd_credentials(server: ServerConfig) -> Remarks:
    """What is odd with a server's certificates and keys, by the keys inside its entry."""
    transport = server.transport
    if server.disabled is not None or not isinstance(transport, Http | Sse):
        return
    if transport.tls is not None:
        yield from _odd_certificates(transport.tls)
    if transport.auth is not None and (odd := _odd_key(transport.auth)):
        yield ("auth", "private_key"), odd


def _odd_certificates(tls: Tls) -> Remarks:
    for key in ("cert", "ca"):
        if (path := getattr(tls, key)) is not None and "${" not in path:
            for odd in _expired(key, path):
                yield ("tls", key), odd
    key, path = ("key", tls.key) if tls.key else ("cert", tls.cert)
    if path is not None and _is_read_by_all(path):
        advice = f"type: chmod 600 {shlex.quote(path)}"
        yield ("tls", key), f"every user of this machine can read the key in {path}; {advice}"


def _expired(key: str, path: str) -> Iterator[str]:
    from cryptography import x509  # noqa: PLC0415 - 30 ms, for who has certificates

    try:
        certificates = x509.load_pem_x509_certificates(read_pem(key, path).encode())
    except (ValueError, CertificateProblem):  # the reason why the server is disabled
        return
    now = datetime.now(UTC)
    for end in sorted({each.not_valid_after_utc for each in certificates}):
        if end < now:
            yield f"a certificate in {path} has expired on {end:%Y-%m-%d}"
        elif key == "cert" and end < now + SOON:
            yield f"a certificate in {path} expires on {end:%Y-%m-%d}"


def _is_read_by_all(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _odd_key(auth: OAuth) -> str | None:
    """What is wrong with the key that a client signs with, if there is one and its value is known."""
    wanted = _KINDS.get(auth.algorithm[:2])
    if wanted is None or "PRIVATE KEY" not in (auth.private_key or ""):
        return None
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - as above

    try:
        key = load_pem_private_key((auth.private_key or "").encode(), None)
    except (ValueError, TypeError):
        return "the private key cannot be read"
    kinds = {
        "RSA": rsa.RSAPrivateKey,
        "EC": ec.EllipticCurvePrivateKey,
        "Ed25519 or Ed448": (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey),
    }
    if not isinstance(key, kinds[wanted]):  # type: ignore[arg-type]
        return f"{auth.algorithm} is not for a key of this kind, but for one of {wanted}"
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name != _CURVES[auth.algorithm]:
        return (
            f"{auth.algorithm} is not for a key of {key.curve.name}, but for one of {_CURVES[auth.algorithm]}"
        )
    return None

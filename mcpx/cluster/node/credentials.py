"""What a cluster's nodes prove themselves with: one certificate and key, and one token for gateways.

Made once for a cluster and kept by whoever made them. The certificate is its own issuer and holds no name
that is checked: gateways accept it because it is the very one that they know.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Final

import msgspec

_FROM: Final = datetime(2020, 1, 1, tzinfo=UTC)  # machines whose clocks are wrong are to work, too
_UNTIL: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # "no well-defined end" (RFC 5280, 4.1.2.5)
TOKEN_BYTES: Final = 32


class Credentials(msgspec.Struct, frozen=True):
    """A token, and a certificate with its key in PEM."""

    token: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Credentials()"


def make_credentials() -> Credentials:
    """New ones; takes a millisecond, and 20 the first time for the import."""
    from cryptography import x509  # noqa: PLC0415 - only who makes a cluster needs it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mcpx cluster")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    return Credentials(secrets.token_urlsafe(TOKEN_BYTES), shown.decode(), private.decode())

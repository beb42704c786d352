"""A node's start: its credentials, the line that it is started with, and the line that it answers.

Imported by the actor on each machine too, so it needs nothing but msgspec. The nodes of a cluster share one
certificate, key and token, made once for a cluster. The certificate is its own issuer and holds no name that
is checked: gateways accept it because it is the very one that they know.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
HELLO_TIMEOUT_S: Final = 5.0
REPORT_INTERVAL_S: Final = 1.0
LINGER_S: Final = 120.0  # for a server that nobody uses: a gateway that is started again finds it running
_FROM: Final = datetime(2020, 1, 1, tzinfo=UTC)  # machines whose clocks are wrong are to work, too
_UNTIL: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # "no well-defined end" (RFC 5280, 4.1.2.5)
TOKEN_BYTES: Final = 32


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a node; the defaults will do."""

    max_message_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 64 << 20
    shutdown_grace_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    linger_s: Annotated[float, Meta(ge=0, le=86_400)] = LINGER_S
    hello_timeout_s: Annotated[float, Meta(gt=0, le=60)] = HELLO_TIMEOUT_S
    report_interval_s: Annotated[float, Meta(gt=0, le=60)] = REPORT_INTERVAL_S


class NodeStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one line on a node's standard input, which then stays open: its end is the end of the node.

    `host` is the address to listen on, `certificate` and `key` are PEM, `state` is the folder of this node
    alone, which is made; the actor sets it, on the machine that it is about.
    """

    name: Name
    host: str
    token: Annotated[str, Meta(min_length=16)]
    certificate: str
    key: str
    state: str
    settings: NodeSettings = NodeSettings()

    def __repr__(self) -> str:
        return f"NodeStart(name={self.name!r}, host={self.host!r}, state={self.state!r})"


class NodeReady(msgspec.Struct, frozen=True, kw_only=True):
    """The one line on a node's standard output, once it listens; or `error`, and then it ends."""

    host: str = ""
    port: int = 0
    pid: int = 0
    version: str = ""
    error: str | None = None


class NodeAddress(msgspec.Struct, frozen=True):
    """The address of a node's listener, with the node's pid and version of MCPX."""

    host: str
    port: int
    pid: int
    version: str


class Credentials(msgspec.Struct, frozen=True):
    """A token, and a certificate with its key in PEM."""

    token: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Credentials()"


def make_credentials() -> Credentials:
    """Make new credentials: a millisecond, and 20 the first time for the import."""
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

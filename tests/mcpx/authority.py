"""A certificate authority of a test's own: PEM files of its certificate, and of those that it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NOW = dt.datetime.now(dt.UTC)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


class Authority:
    """Signs certificates for 127.0.0.1, into a folder. `ca` is the path of its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = new_key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._signed(self._name, self._key, days=30, is_ca=True))

    def issue(self, name: str, *, days: int = 30, passphrase: bytes | None = None) -> tuple[Path, Path]:
        """The paths of a certificate, which is valid for so many days, and of its key."""
        key, subject = new_key(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert, file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert.write_bytes(self._signed(subject, key, days=days))
        file.write_bytes(key_pem(key, passphrase))
        return cert, file

    def server_context(self, *, wants_client: bool) -> ssl.SSLContext:
        """A context of a server at 127.0.0.1 that may want a certificate of this authority from clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server"))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int, is_ca: bool = False
    ) -> bytes:
        end = _NOW + dt.timedelta(days=days)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(_NOW, end) - dt.timedelta(days=1))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

"""The certificates of an entry's `tls`, in an `ssl` context, and what is wrong with them.

Called when a configuration is read (`certificate_problem`), when a connection is opened (`ssl_context`), and
by `mcpx check`. The files are read each time, so that new ones are taken at the next
connection. Nobody is asked for a passphrase. `ssl` is imported by who has such an entry.
"""

from __future__ import annotations

import functools
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcpx.core.config.server_config import Tls

if TYPE_CHECKING:
    import ssl

MAX_PEM_BYTES: Final = 1 << 20
_MISMATCH: Final = "KEY_VALUES_MISMATCH"


class CertificateProblem(Exception):
    """A file of certificates or keys that cannot be used, which the text names. `key` is that of `tls`."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def certificate_problem(tls: Tls) -> CertificateProblem | None:
    """Return the problem with the files that `tls` names; None if a connection can use them."""
    import ssl  # noqa: PLC0415 - 10 ms, for who has certificates

    try:
        context = _trusting(tls.ca) if tls.ca else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _show_certificate(context, tls)
    except CertificateProblem as problem:
        return problem
    return None


def ssl_context(tls: Tls | None = None) -> ssl.SSLContext:
    """The certificates that a server is known by, and the one that it is shown.

    Without certificates of its own it is one context for all: 20 ms, the first time.

    Raises:
        CertificateProblem: Those of `tls` cannot be used.
    """
    if tls is None or tls == Tls():
        return _usual_context()
    import httpx2  # noqa: PLC0415 - for who opens a connection

    context = httpx2.create_ssl_context() if tls.ca is None else _trusting(tls.ca)
    _show_certificate(context, tls)
    return context


@functools.cache
def _usual_context() -> ssl.SSLContext:
    import httpx2  # noqa: PLC0415 - for who opens a connection

    return httpx2.create_ssl_context()


def _trusting(ca: str) -> ssl.SSLContext:
    """A new context that trusts the certificates in that file alone."""
    import ssl  # noqa: PLC0415 - as above

    read_pem("ca", ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca)
    except (ssl.SSLError, OSError):
        raise CertificateProblem("ca", f"{ca} holds no certificate that can be read") from None
    return context


def _show_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Have a context show the client's certificate, if `tls` names one."""
    import ssl  # noqa: PLC0415 - as above

    if tls.cert is None:
        return
    texts = {"cert": read_pem("cert", tls.cert)}
    if tls.key:
        texts["key"] = read_pem("key", tls.key)
    if "-----BEGIN CERTIFICATE-----" not in texts["cert"]:
        raise CertificateProblem("cert", f"{tls.cert} holds no certificate")
    where = "key" if tls.key else "cert"
    file = tls.key or tls.cert
    if "PRIVATE KEY-----" not in texts[where]:
        other = "" if tls.key else '; name the file of the key in "key"'
        raise CertificateProblem(where, f"{file} holds no private key{other}")
    passphrase = _Passphrase()
    try:
        context.load_cert_chain(tls.cert, tls.key, password=passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        if passphrase.was_asked:
            text = f"the private key in {file} has a passphrase; write it to a file without one"
            raise CertificateProblem(where, text) from None
        if getattr(error, "reason", None) == _MISMATCH:
            text = f"the private key in {file} does not belong to the certificate in {tls.cert}"
            raise CertificateProblem(where, text) from None
        raise CertificateProblem("cert", f"{tls.cert}: certificate or key cannot be read") from None


class _Passphrase:
    """Knows none: without it, OpenSSL would ask at the terminal."""

    def __init__(self) -> None:
        self.was_asked = False

    def __call__(self) -> str:
        self.was_asked = True
        return ""


def read_pem(key: str, path: str, *, shown: str | None = None) -> str:
    """The text of a PEM file; `key` is where it is named, `shown` how errors name it, if not by its path.

    Raises:
        CertificateProblem: It is missing, cannot be read, or is no PEM file.
    """
    file, name = Path(path), shown or path
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_PEM_BYTES:
            raise CertificateProblem(key, f"{name} is no file of certificates or keys")
        text = file.read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        raise CertificateProblem(key, f"no such file: {name}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CertificateProblem(key, f"{name} cannot be read: {reason or 'not a path'}") from None
    if "-----BEGIN " not in text:
        raise CertificateProblem(key, f"{name} is no PEM file")
    return text

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


class CertificateProblem(Exception):
    """A file of certificates or keys that cannot be used, which the text names. `key` is that of `tls`."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def certificate_problem(tls: Tls) -> CertificateProblem | None:
    """Return the problem with the files that `tls` names; None if a connection can use them."""
    try:
        _show_certificate(_context(tls.ca), tls)
    except CertificateProblem as problem:
        return problem
    return None


def ssl_context(tls: Tls | None = None) -> ssl.SSLContext:
    """Return the context of a connection: whom it trusts, and the certificate that it shows.

    Without certificates of its own it is one context for all: 20 ms, the first time.

    Raises:
        CertificateProblem: Those of `tls` cannot be used.
    """
    if tls is None or tls == Tls():
        return _usual_context()
    context = _system_context() if tls.ca is None else _context(tls.ca)
    _show_certificate(context, tls)
    return context


def _system_context() -> ssl.SSLContext:
    import httpx2  # noqa: PLC0415 - for who opens a connection

    return httpx2.create_ssl_context()


_usual_context = functools.cache(_system_context)


def _context(ca: str | None) -> ssl.SSLContext:
    """Return a new context that trusts the certificates in that file alone; without a file, none."""
    import ssl  # noqa: PLC0415 - 10 ms, for who has certificates

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is not None:
        read_pem("ca", ca)
        try:
            context.load_verify_locations(ca)
        except OSError:  # SSLError too
            raise CertificateProblem("ca", f"{ca} holds no certificate that can be read") from None
    return context


def _show_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Have a context show the client's certificate, if `tls` names one."""
    if tls.cert is None:
        return
    held = read_pem("cert", tls.cert)
    if "-----BEGIN CERTIFICATE-----" not in held:
        raise CertificateProblem("cert", f"{tls.cert} holds no certificate")
    where, file = ("key", tls.key) if tls.key else ("cert", tls.cert)
    if "PRIVATE KEY-----" not in (read_pem("key", tls.key) if tls.key else held):
        other = "" if tls.key else '; name the file of the key in "key"'
        raise CertificateProblem(where, f"{file} holds no private key{other}")
    asked = []

    def passphrase() -> str:  # none: without this, OpenSSL would ask at the terminal
        asked.append(file)
        return ""

    try:
        context.load_cert_chain(tls.cert, tls.key, password=passphrase)
    except (OSError, ValueError) as error:
        if asked:
            text = f"the private key in {file} has a passphrase; write it to a file without one"
            raise CertificateProblem(where, text) from None
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            text = f"the private key in {file} does not belong to the certificate in {tls.cert}"
            raise CertificateProblem(where, text) from None
        raise CertificateProblem("cert", f"{tls.cert}: certificate or key cannot be read") from None


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

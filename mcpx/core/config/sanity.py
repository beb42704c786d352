"""A configuration against the machine that it is on: commands, folders, certificates, readers of the file.

Called for `mcpx check` and `mcpx doctor`; starts nothing. The file is as it is: what is found here is no
mistake in it, and may be right on another machine. Whether certificates can be used at all is seen when the
configuration is read (`mcpx.core.config.certificates`).
"""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from mcpx.core.config.certificates import CertificateProblem, read_pem
from mcpx.core.config.document import quote
from mcpx.core.config.model import Config
from mcpx.core.config.projects import names_project
from mcpx.core.config.redaction import MIN_SECRET_LEN
from mcpx.core.config.server_config import Http, OAuth, Placed, ServerConfig, Sse, Stdio, Tls

_SECRET_NAME: Final = re.compile(
    r"token|secret|passw|auth(?!or(?:_|$))|cookie|credential|key$|pat$", re.IGNORECASE
)
_SECRET_OPTION: Final = re.compile(r"--?[\w-]*(?:token|secret|passw|key)[\w-]*=(.+)", re.IGNORECASE)
_PASSWORD_IN_URL: Final = re.compile(r"\w+://[^/@:]*:[^/@]+@")
_NAMES_SHOWN: Final = 5

Remarks = Iterator[tuple[tuple[str, ...], str]]
"""Keys inside a server's entry, and what is odd there."""
SOON: Final = timedelta(days=14)
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "Ed25519 or Ed448"}
"""By the beginning of an algorithm, the kind of its keys."""
_CURVES: Final = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}


def odd_commands(server: ServerConfig, config: Config) -> Remarks:
    """Yield what keeps a child process from being started: its command, its working folder."""
    transport = server.transport.program
    if server.disabled is not None or transport is None:
        return
    folder = "/" if transport.cwd is None or names_project(transport) else transport.cwd
    if not Path(folder).is_dir():
        yield ("cwd",), f"{'not a folder' if Path(folder).exists() else 'no such folder'}: {folder}"
    environment = config.environment
    if environment is None or environment.find(
        transport.command, path=transport.env.get("PATH"), folder=transport.cwd
    ):
        return
    yield ("command",), _not_found(transport, environment.path, environment.source)


def _not_found(transport: Stdio, path: str, source: str) -> str:
    command = transport.command
    words = _words(command)
    if others := words[1:]:
        return (
            f"this is a whole command line; write {quote(words[0])} here, and its other"
            f' {len(others)} word{"s" if others[1:] else ""} as items of "args"'
        )
    if "/" in command:
        file = Path(transport.cwd or "", command)
        return f"not a program that can be run: {command}" if file.exists() else f"no such file: {command}"
    if "PATH" in transport.env:
        return f"command not found: {command}; searched: {transport.env['PATH']} (the PATH of its env)"
    return f"command not found: {command}; searched: {path} (from {source})"


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return command.split()


def readable_secrets(config: Config) -> str | None:
    """A note on a file that other users can read, and that secrets stand in; None for any other."""
    file = Path(config.source)
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except (OSError, ValueError):
        return None
    names = [
        f"{server.name}: {name}" for server in config.servers.values() for name in literal_secrets(server)
    ]
    if not mode & 0o044 or not names:
        return None
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return (
        f"other users can read this file (mode {mode:o}), and secrets stand in it"
        f" ({', '.join(names[:_NAMES_SHOWN])}{more}); type: chmod 600 {shlex.quote(str(file))}"
    )


def literal_secrets(server: ServerConfig) -> list[str]:
    """The names of what is secret by its name, and stands in the entry itself; values are not returned."""
    transport = server.transport
    expanded = [value for _, value in server.variables.values if value]
    program = transport.stdio if isinstance(transport, Placed) else transport.program
    named: list[tuple[str, str]] = []
    if program is not None:
        options = (_SECRET_OPTION.fullmatch(word) for word in program.args)
        named = [*program.env.items(), *((one[0].partition("=")[0], one[1]) for one in options if one)]
    if isinstance(transport, Http | Sse):
        has_password = _PASSWORD_IN_URL.match(transport.url)
        named += [
            *transport.headers.items(),
            *([("url with a password", transport.url)] if has_password else []),
            *([("client_secret", transport.auth.client_secret or "")] if transport.auth else []),
        ]
    secret = ((name, value) for name, value in named if _SECRET_NAME.search(name))
    return [name for name, value in secret if _is_literal(value, expanded)]


def _is_literal(value: str, expanded: list[str]) -> bool:
    """Return True for a value of a secret's length into which no variable or secret was put."""
    return len(value) >= MIN_SECRET_LEN and "${" not in value and not any(each in value for each in expanded)


# --- certificates and keys as they are today


def odd_credentials(server: ServerConfig) -> Remarks:
    """Yield what is odd with a server's certificates and keys, by the keys inside its entry."""
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
    """Return the problem with the key that a client signs with, if there is one and its value is known."""
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

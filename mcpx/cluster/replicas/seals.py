"""Seals: what a client brings back, signed, with the URL of the replica that holds what it stands for. Pure.

`mcpx-at-KIND.URL.MAC.TEXT` around a state or an id, `ID~URL~MAC` for the id of a kept result, which models
copy. MAC is HMAC-SHA256 (of the kept ones the first half) over the kind, the URL and the text, under the
secret of all replicas. The URL counts only where the MAC is right: nobody else can have a request passed on
anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum
from typing import Final

import msgspec

from mcpx.core.policy.questions import PREFIX as APPROVAL
from mcpx.core.protocol.result_address import read_address
from mcpx.core.servers.relay.suspended import PREFIX as HELD
from mcpx.errors import CallError, MCPXError

PREFIX: Final = "mcpx-at-"
SHORT_MAC_BYTES: Final = 16
_SEALED: Final = re.compile(rf"{PREFIX}([a-z])\.([\w-]{{1,512}})\.([\w-]{{43}})\.(.*)", re.DOTALL | re.ASCII)
_KEPT: Final = re.compile(r"([0-9a-f]+)~([\w-]{1,512})~([\w-]{22})", re.ASCII)


class Kind(StrEnum):
    """What is sealed."""

    APPROVAL = "a"
    """The state of a question of MCPX's own: nothing was sent yet."""
    HELD = "h"
    """The state of a call that a server has asked in: it was sent."""
    STATE = "s"
    """The state of a server that wants input."""
    STATELESS = "n"
    """The same, of one that has given no state; or of a link to sign in by."""
    TASK = "t"
    KEPT = "k"


class AlteredError(MCPXError):
    """Something was brought back that was not given out so."""


class Sealed(msgspec.Struct, frozen=True):
    """What was sealed, and where it is held."""

    kind: Kind
    url: str
    text: str


class Seals:
    """The seals of one replica, which others read."""

    def __init__(self, url: str, secret: str) -> None:
        self.url = url
        self._secret = secret.encode()
        self._encoded = _encode(url.encode())

    def mac(self, *parts: bytes) -> bytes:
        """The signature of these parts, each of which may hold anything."""
        signed = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            signed.update(len(part).to_bytes(8) + part)
        return signed.digest()

    # --- states and ids of tasks

    def seal_state(self, state: str | None) -> str:
        """A state for a client, of a result that wants input."""
        if state is None:
            return self._seal(Kind.STATELESS, "")
        kind = Kind.STATE
        if state.startswith(HELD):
            kind = Kind.HELD
        elif state.startswith(APPROVAL):
            kind = Kind.APPROVAL
        return self._seal(kind, state)

    def seal_task(self, task_id: str) -> str:
        """The id of a task for a client."""
        return self._seal(Kind.TASK, task_id)

    def _seal(self, kind: Kind, text: str) -> str:
        mac = self.mac(b"seal", kind.encode(), self.url.encode(), _plain(text))
        return f"{PREFIX}{kind}.{self._encoded}.{_encode(mac)}.{text}"

    def open(self, sealed: str) -> Sealed:
        """What a client has brought back.

        Raises:
            AlteredError: No replica has given it out.
        """
        found = _SEALED.fullmatch(sealed)
        if found is None or found[1] not in set(Kind):
            raise AlteredError("it was not given out here, or was altered")
        kind, url, text = Kind(found[1]), _decode(found[2]), found[4]
        expected = self.mac(b"seal", kind.encode(), url, _plain(text))
        if not _is_written(found[2], url) or not _is_written(found[3], expected):
            raise AlteredError("it was not given out here, or was altered")
        return Sealed(kind, url.decode(), text)

    # --- kept results

    def seal_kept(self, result_id: str) -> str:
        """The id of a kept result, for a client without a session."""
        return f"{result_id}~{self._encoded}~{_encode(self._kept_mac(result_id, self.url.encode()))}"

    def holder_of(self, uri: str) -> Sealed | None:
        """Who keeps the result of an address; None for any other URI, and for one that is not sealed.

        Raises:
            AlteredError: No replica has given it out.
        """
        try:
            address = read_address(uri)
        except CallError:
            return None  # whoever serves it says what is wrong
        found = None if address is None else _KEPT.fullmatch(address.id)
        if found is None:
            return None
        url = _decode(found[2])
        if not _is_written(found[2], url) or not _is_written(found[3], self._kept_mac(found[1], url)):
            raise AlteredError("it was not given out here, or was altered")
        return Sealed(Kind.KEPT, url.decode(), found[0])

    def _kept_mac(self, result_id: str, url: bytes) -> bytes:
        return self.mac(b"kept", url, result_id.encode())[:SHORT_MAC_BYTES]


def _is_written(text: str, data: bytes) -> bool:
    """Whether the text is the data, in the one way to write it. Takes as long wherever they differ."""
    return hmac.compare_digest(text.encode(), _encode(data).encode())


def _plain(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """The bytes; of what is none, something that is no signature and no URL of ours."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""

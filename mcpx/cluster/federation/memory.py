"""What was known last of each peer's servers, kept in a file, so that they are there at the next start.

One file for each peer, in the folder of the configuration. An entry that reaches its MCPX in another way
than when the file was written is a new peer. A file that cannot be read counts as none; one that cannot be
written costs only what is remembered.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from mcpx.cluster.federation.expansion import Known
from mcpx.core.config import PeerConfig
from mcpx.paths import digest, ensure_folder, replace_file

log = structlog.get_logger()
FOLDER: Final = "peers"
MAX_FILE_BYTES: Final = 16 << 20


class _Kept(msgspec.Struct, frozen=True):
    reached: str
    known: Known


class PeerMemory:
    """The files. `folder` is that of the configuration. The methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def read(self, peer: PeerConfig) -> Known | None:
        """What is kept of a peer."""
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            path = self._path(peer)
            if path.stat().st_size <= MAX_FILE_BYTES:
                kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
                return kept.known if kept.reached == _reached(peer) else None
        return None

    def write(self, peer: PeerConfig, known: Known) -> None:
        """Keep what is known of a peer."""
        try:
            ensure_folder(self._folder)
            replace_file(self._path(peer), msgspec.json.encode(_Kept(_reached(peer), known)))
        except OSError as error:
            log.warning("peer.not_remembered", peer=peer.name, reason=error.strerror)

    def _path(self, peer: PeerConfig) -> Path:
        return self._folder / f"{digest(peer.name)}.json"


def _reached(peer: PeerConfig) -> str:
    """How a peer is reached, as a digest: the text may hold secrets."""
    return digest(msgspec.json.encode(peer.transport).decode(errors="replace"))

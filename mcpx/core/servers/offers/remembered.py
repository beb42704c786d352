"""`catalogues` in the state folder: what each server offered last, for the start of the next MCPX.

One file a server, named by the digest of what the server is (`server_identity`): a catalogue is never given
to a server that is another one, and MCPX processes with the same server share it. Each writes whole files, so
the last one wins. A file's time of change is when its catalogue was last known to be right, its time of
access when it was last wanted; what nobody has wanted for 30 days goes, and what is over the bounds of the
folder, the oldest first. A file that is not exactly what MCPX writes, or that others could have written, is
removed, and never used.

The methods of `CatalogueFiles` block; `CatalogueStore` calls them in a thread where that matters.

Entries are written as the protocol has them, and are read as those of a server are (`offers.entries`), so
that what is read is as clean as what a server lists. The secrets of the server's entry, which a server may
quote, are replaced by numbers; only a redactor of the same entry can put them back.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import structlog

from mcpx.core.catalog.lists import LISTS
from mcpx.core.catalog.model import JSON, AboutServer, Catalogue, Entry
from mcpx.core.config import Redactor, ServerConfig, redactor_of
from mcpx.core.config.projects import stand_in
from mcpx.core.servers.offers.entries import InvalidEntry, read_entry
from mcpx.core.store.folders import distrust_folder, ensure_folder
from mcpx.core.store.private_files import PARTIAL_SUFFIX, ForeignFileError, open_own_file, replace_file
from mcpx.paths import state_folder

log = structlog.get_logger()

FORMAT: Final = 1
"""Of the bytes. A change that older versions would misread is a new one."""

DescriptionKey = tuple[str, str | None, int | None, str | None]
"""URI, MIME type, size and time of change of a resource: what its content is known by."""
Descriptions = dict[DescriptionKey, str | None]
"""Descriptions made of the contents of resources; None where that failed."""

E = TypeVar("E", bound=Entry)
MAX_FILE_BYTES: Final = 8 << 20  # of one catalogue; larger ones are not kept
MAX_FOLDER_BYTES: Final = 128 << 20
MAX_FILES: Final = 1_000
MAX_UNUSED_S: Final = 30 * 86400.0
MAX_TEMPORARY_S: Final = 3600.0  # age of a file that its writer has not finished; it was killed
_SUFFIX: Final = ".json"


class UnreadableCatalogue(ValueError):
    """The bytes are no catalogue."""


class _Stored(msgspec.Struct, kw_only=True):
    about: AboutServer
    tools: list[JSON]
    resources: list[JSON]
    templates: list[JSON]
    prompts: list[JSON]
    skills: list[JSON] = []
    descriptions: list[tuple[DescriptionKey, str | None]] = []


def encode_catalogue(catalogue: Catalogue, descriptions: Descriptions, redactor: Redactor) -> bytes:
    """The bytes of a catalogue, without the secrets that `redactor` knows."""
    stored = _Stored(
        about=AboutServer(**{name: getattr(catalogue, name) for name in AboutServer.__struct_fields__}),
        descriptions=list(descriptions.items()),
        **{
            kind.field: [each.to_protocol() for each in kind.entries_of(catalogue)] for kind in LISTS.values()
        },
    )
    try:
        written = msgspec.json.encode(stored)
    except UnicodeEncodeError:  # half a character, as some servers cut their texts
        written = json.dumps(msgspec.to_builtins(stored)).encode()
    return redactor.replace_by_numbers(written)


def decode_catalogue(
    data: bytes, server: str, redactor: Redactor, *, listed_at: float
) -> tuple[Catalogue, Descriptions]:
    """The catalogue of the server of that name, from last time, and the descriptions that were made.

    Raises:
        UnreadableCatalogue: The bytes are none, or were written for another entry.
    """
    try:
        stored = msgspec.convert(_loads(redactor.replace_numbers(data)), _Stored)
        lists = {
            kind.field: kind.kept(_read(kind.info, server, getattr(stored, kind.field)))
            for kind in LISTS.values()
        }
        about = {name: getattr(stored.about, name) for name in AboutServer.__struct_fields__}
        catalogue = Catalogue(generation=0, listed_at=listed_at, **lists, **about)
    except (ValueError, LookupError, RecursionError) as error:  # msgspec's and InvalidEntry are the first
        raise UnreadableCatalogue(str(error)) from None
    return catalogue, dict(stored.descriptions)


def _loads(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # half a character
        return json.loads(data)


def _read(kind: type[E], server: str, entries: Sequence[JSON]) -> list[E]:
    read = [read_entry(kind, server, entry) for entry in entries]
    if any(cuts for _, cuts in read):
        raise InvalidEntry("a text in it is too long")
    return [entry for entry, _ in read]


class Remembered(msgspec.Struct, frozen=True):
    """The last catalogue of a server, known to be right at `listed_at` (since the epoch)."""

    catalogue: Catalogue
    """Its generation is 0."""
    listed_at: float
    descriptions: Descriptions = {}
    """Made for resources, as they are in the catalogue."""


class _Head(msgspec.Struct):
    """The first line of a file; `digest` is that of the rest."""

    format: int
    server: str
    digest: str


class CatalogueFiles:
    """The files in one state folder, the usual one by default."""

    def __init__(self, state: Path | None = None) -> None:
        self.folder = (state or state_folder()) / "catalogues"
        self._too_large: set[str] = set()  # as was logged
        self._distrusted: str | None = None  # likewise

    def load(self, server: ServerConfig, identity: str) -> Remembered | None:
        """Load what the server of that identity offered last, if it is known."""
        path = self._path(identity)
        try:
            if not self._is_trusted():
                return None
            data, listed_at = _read_file(path, identity)
            catalogue, descriptions = decode_catalogue(
                data, server.name, redactor_of(server), listed_at=listed_at
            )
        except FileNotFoundError:
            return None
        except (OSError, UnreadableCatalogue) as error:
            self._reject(path, error, server.name)
            return None
        self.touch(identity, right=False)
        return Remembered(catalogue, listed_at, descriptions)

    def listed_at(self, identity: str) -> float | None:
        """When the catalogue of the server of that identity was last known to be right, by its file alone."""
        try:
            return min(self._path(identity).lstat().st_mtime, time.time())
        except OSError:  # there is none
            return None

    def write(
        self, server: ServerConfig, identity: str, catalogue: Catalogue, descriptions: Descriptions
    ) -> None:
        """Keep a catalogue that the server of that identity has listed just now.

        Raises:
            OSError: That is not possible.
        """
        data = encode_catalogue(catalogue, descriptions, redactor_of(server))
        path = self._path(identity)
        if len(data) > MAX_FILE_BYTES:
            if identity not in self._too_large:
                self._too_large.add(identity)
                log.warning("catalogue.too_large", server=server.name, bytes=len(data), limit=MAX_FILE_BYTES)
            path.unlink(missing_ok=True)
            return
        ensure_folder(self.folder)
        if not self._is_trusted():
            return
        head = msgspec.json.encode(_Head(FORMAT, identity, hashlib.sha256(data).hexdigest())) + b"\n"
        if _is_there(path, head, len(head) + len(data)):
            os.utime(path, follow_symlinks=False)
        else:
            replace_file(path, head + data)
            self.prune()

    def touch(self, identity: str, *, right: bool) -> None:
        """Note that the server is wanted, and whether what is kept of it is `right` at this moment."""
        path, now = self._path(identity), time.time()
        with suppress(OSError):  # there is none, or it cannot be changed: a write says so
            os.utime(path, (now, now if right else path.lstat().st_mtime), follow_symlinks=False)

    def prune(self) -> None:
        """Remove what nobody has wanted for long, what is too much, and what a killed process has begun."""
        now, kept_bytes = time.time(), 0
        for number, (used, size, path) in enumerate(sorted(self._entries(), reverse=True), start=1):
            kept_bytes += size
            limit = MAX_TEMPORARY_S if path.suffix == PARTIAL_SUFFIX else MAX_UNUSED_S
            if now - used > limit or kept_bytes > MAX_FOLDER_BYTES or number > MAX_FILES:
                path.unlink(missing_ok=True)

    def _entries(self) -> list[tuple[float, int, Path]]:
        """When each file was last wanted, its size, and its path."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            if path.suffix in {_SUFFIX, PARTIAL_SUFFIX}:
                try:
                    status = path.lstat()
                except FileNotFoundError:  # another process has removed it
                    continue
                found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        return found

    def _path(self, identity: str) -> Path:
        return self.folder / (identity + _SUFFIX)

    def _is_trusted(self) -> bool:
        """True if no other user can have written in the folder; if one can, that is logged once.

        Raises:
            FileNotFoundError: There is no folder.
        """
        problem = distrust_folder(self.folder)
        if problem is not None and problem != self._distrusted:
            self._distrusted = problem
            log.warning("catalogue.not_believed", path=str(self.folder), reason=problem)
        return problem is None

    @staticmethod
    def _reject(path: Path, error: OSError | UnreadableCatalogue, server: str) -> None:
        """Log a file that cannot be used; remove it, unless only this process cannot read it now."""
        reason, removed = str(error), False
        if isinstance(error, OSError):
            reason = error.strerror or reason
        if not isinstance(error, OSError):
            with suppress(OSError):  # a folder of that name, or one that cannot be changed
                path.unlink()
                removed = True
        log.warning("catalogue.unreadable", server=server, path=str(path), reason=reason, removed=removed)


def may_sleep(server: ServerConfig, listed_at: float | None) -> bool:
    """True if a server need not run before it is needed: its catalogue was right at that time."""
    if server.sessions == "per_project" or stand_in(server):
        return True  # without a project it cannot run
    if server.start == "eager" or listed_at is None:
        return False
    return server.start == "on_demand" or time.time() - listed_at < server.remembered_for


def _read_file(path: Path, identity: str) -> tuple[bytes, float]:
    """The catalogue in a file, and its time of change.

    Raises:
        OSError: It cannot be read.
        UnreadableCatalogue: It is not what MCPX has written for this server, or another user may have.
    """
    try:
        with open_own_file(path) as file:
            changed_at = os.fstat(file.fileno()).st_mtime
            line, _, data = file.read(MAX_FILE_BYTES + 1024).partition(b"\n")
    except ForeignFileError as error:
        raise UnreadableCatalogue(f"it is {error.strerror}") from None
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (ValueError, RecursionError):
        raise UnreadableCatalogue("it does not begin as a catalogue") from None
    if head.format != FORMAT:
        raise UnreadableCatalogue(f"it has format {head.format}, not {FORMAT}")
    if head.server != identity:
        raise UnreadableCatalogue("it belongs to another server")
    if head.digest != hashlib.sha256(data).hexdigest():
        raise UnreadableCatalogue("it is not whole")
    return data, min(changed_at, time.time())


def _is_there(path: Path, head: bytes, size: int) -> bool:
    """True if the file begins so, and is as long."""
    try:
        with open_own_file(path) as file:
            return os.fstat(file.fileno()).st_size == size and file.read(len(head)) == head
    except OSError:
        return False

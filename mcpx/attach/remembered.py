"""The last answers of a daemon to a client program, kept in `attach` in the configuration's folder.

A shim answers from it while its daemon is being started. There is one file for each client program (what it
says of itself and what it is capable of), state of the configuration file, endpoint, and version of MCPX.
Files are private, bounded, and replaced whole: of two shims that write the same one, the last wins. A file
that is not as it was written is removed and not used. If none can be written, the next start is slower, and
nothing else.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from mcpx.attach.pending import LISTS, OPENINGS, REMEMBERED, VERSION_KEY, PendingRequest, decode_object
from mcpx.core.store.folders import distrust_folder, ensure_folder
from mcpx.core.store.paths import DaemonPaths
from mcpx.core.store.private_files import PARTIAL_SUFFIX, ForeignFileError, read_own_file, replace_file
from mcpx.core.system.endpoint import PROBE_KEY
from mcpx.paths import digest
from mcpx.version import __version__

FOLDER: Final = "attach"
FORMAT: Final = 1  # of the files
MAX_IDENTITY_CHARS: Final = 8192
MAX_FILE_BYTES: Final = 4 << 20
MAX_ANSWERS: Final = 64  # in a file: pages of lists count each
MAX_FILES: Final = 32
MAX_FOLDER_BYTES: Final = 16 << 20
MAX_UNUSED_S: Final = 30 * 86400.0
MAX_PARTIAL_AGE_S: Final = 3600.0  # of a file whose shim was killed while it wrote
_IDENTITY: Final = (
    VERSION_KEY,
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
)


class _File(msgspec.Struct, gc=False):
    """`key` is all that the file is for; `answers` are results by method and parameters."""

    key: str
    answers: dict[str, msgspec.Raw]


def identify(request: PendingRequest, opening: PendingRequest | None) -> str | None:
    """Return the client program's own description; None if there is none, or too much, or for a probe.

    It says so in `opening`, the `initialize` of its session, or since 2026-07-28 in each request.
    """
    said = decode_object((opening or request).params)
    meta = said.pop("_meta", None)
    if isinstance(meta, dict) and PROBE_KEY in meta:
        return None
    if opening is None:
        said = {key: meta.get(key) for key in _IDENTITY} if isinstance(meta, dict) else {}
        if said.get(VERSION_KEY) is None:
            return None
    text = _text(said)
    return text if len(text) <= MAX_IDENTITY_CHARS else None


class RememberedAnswers:
    """The answers to one client program: to the first that is given to `find` or `note`.

    `endpoint` is the greeting at the daemon. Only `find`, `write` and `drop` use files; none of them raises.
    """

    def __init__(self, paths: DaemonPaths, endpoint: bytes) -> None:
        self._config = paths.config
        self._endpoint = endpoint.decode()
        self._folder = paths.folder / FOLDER
        self._config_state = self._look_at_config()
        self._takes_notes = True
        self._client: str | None = None
        self._found: dict[str, msgspec.Raw] | None = None  # what the file held; None before it is read
        self._written: dict[str, int] = {}  # hashes of what it holds
        self._noted: dict[str, bytes] = {}  # empty for one that is too long to be kept

    @property
    def has_notes(self) -> bool:
        """True if there is something for `write`."""
        return bool(self._noted)

    def find(self, client: str, request: PendingRequest) -> msgspec.Raw | None:
        """The last answer to such a request of that client program; None if it is not known."""
        if request.method not in REMEMBERED or not self._is_of(client):
            return None
        if self._found is None:
            self._found = self._load()
        return self._found.get(_question(request))

    def daemon_answers(self, paths: DaemonPaths, version: object) -> None:
        """Take notes of that daemon, if it is of this version; `find` will not be used again."""
        self._folder = paths.folder / FOLDER
        self._found = {}
        self._noted.clear()
        if (state := self._look_at_config()) != self._config_state:
            self._config_state = state
            self._written.clear()
        self._takes_notes = version == __version__

    def note(self, client: str, request: PendingRequest, result: msgspec.Raw) -> None:
        """Note what the daemon has answered, for `write`."""
        if request.method in REMEMBERED and self._takes_notes and self._is_of(client):
            self._noted[_question(request)] = bytes(result) if len(result) < MAX_FILE_BYTES else b""

    def write(self) -> None:
        """Bring the file up to date with what was noted, unless the configuration has changed meanwhile."""
        noted, self._noted = self._noted, {}
        changed = {
            key: given
            for key, given in noted.items()
            if self._written.get(key) != hash(given) and (not given or _is_json(given))
        }
        if not changed or self._look_at_config() != self._config_state:
            return
        before = {key: bytes(given) for key, given in self._load().items()}
        after = _updated(before, changed)
        self._written = {key: hash(given) for key, given in (before | after | changed).items()}
        try:
            if after == before:
                os.utime(self._path())  # it is in use
            else:
                self._replace(after)
                self._sweep()
        except OSError as error:
            self._takes_notes = False
            sys.stderr.write(f"mcpx: {self._folder}: {error.strerror}; the next start will be slower\n")

    def drop(self) -> None:
        """Remove the file: the daemon refuses this client."""
        self._noted.clear()
        self._written.clear()
        if self._client is not None:
            with suppress(OSError):
                self._path().unlink()

    def _is_of(self, client: str) -> bool:
        if self._client is None:
            self._client = client
        return self._client == client and self._config_state is not None

    def _look_at_config(self) -> list[int] | None:
        """Identity, time and size of the configuration file; None if there is none."""
        try:
            found = os.stat(self._config)
        except OSError:
            return None
        return [found.st_ino, found.st_mtime_ns, found.st_size]

    # --- files

    def _key(self) -> str:
        return _text([FORMAT, __version__, self._config, self._config_state, self._endpoint, self._client])

    def _path(self) -> Path:
        return self._folder / f"{digest(self._key())}.json"

    def _load(self) -> dict[str, msgspec.Raw]:
        """The answers in the file; none if it is missing. One that is not in order is removed."""
        path = self._path()
        try:
            trusted = distrust_folder(self._folder) is None
            data = read_own_file(path, MAX_FILE_BYTES, or_roots=True) if trusted else b""
        except ForeignFileError:
            data = b""
        except OSError:
            return {}
        if (read := _decode(data)) is not None and read.key == self._key():
            return read.answers
        with suppress(OSError):
            path.unlink()
        return {}

    def _replace(self, answers: dict[str, bytes]) -> None:
        ensure_folder(self._folder)
        replace_file(self._path(), _encode(self._key(), answers), synced=False)

    def _sweep(self) -> None:
        """Remove the files that nobody uses, and the oldest of too many."""
        with os.scandir(self._folder) as entries:
            found = [(each.stat(follow_symlinks=False), each.path) for each in entries]
        found.sort(key=lambda each: -each[0].st_mtime)
        now, size = time.time(), 0
        for number, (about, path) in enumerate(found):
            size += about.st_size
            lifetime = MAX_PARTIAL_AGE_S if path.endswith(PARTIAL_SUFFIX) else MAX_UNUSED_S
            if number >= MAX_FILES or size > MAX_FOLDER_BYTES or now - about.st_mtime > lifetime:
                with suppress(OSError):
                    os.unlink(path)


def _question(request: PendingRequest) -> str:
    """The method and the parameters, without what accompanies every request."""
    params = decode_object(request.params)
    params.pop("_meta", None)
    if request.method in OPENINGS:  # what it says is in the key of the file
        params = {}
    return f"{request.method} {_text(params)}"


def _updated(before: dict[str, bytes], changed: dict[str, bytes]) -> dict[str, bytes]:
    """The answers with the changed ones, as many as a file may hold.

    Further pages belong to the first page before them: they go with it.
    """
    for method in LISTS:
        first = f"{method} {{}}"
        if first in changed and changed[first] != before.get(first):
            before = {key: given for key, given in before.items() if not key.startswith(f"{method} ")}
    after = {key: given for key, given in (before | changed).items() if given}
    while len(after) > MAX_ANSWERS or _size(after) > MAX_FILE_BYTES:
        del after[max(after, key=lambda key: len(after[key]))]
    return after


def _size(answers: dict[str, bytes]) -> int:
    return sum(2 * len(key) + len(given) for key, given in answers.items()) + 65536  # the key is shorter


def _encode(key: str, answers: dict[str, bytes]) -> bytes:
    return msgspec.json.encode(_File(key, {each: msgspec.Raw(given) for each, given in answers.items()}))


def _decode(contents: bytes) -> _File | None:
    """A file's contents; None if they are not in order. They are one line, as each answer must be."""
    if len(contents) > MAX_FILE_BYTES or b"\n" in contents:
        return None
    try:
        contents.decode()  # answers are not looked into
        return msgspec.json.decode(contents, type=_File)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _is_json(answer: bytes) -> bool:
    """Return True if it can be read: a large answer has passed unread."""
    try:
        msgspec.json.decode(answer, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()

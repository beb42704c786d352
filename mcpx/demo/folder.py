"""A folder of documents seen as `file://` URIs: what is in it, and nothing that is not.

Owns the one rule that matters: a URI is answered only if it names a visible file inside the folder, after
percent-decoding and after following links. Called by `mcpx.demo.knowledge`. Reads the disk afresh each time
and writes nothing.
"""

from __future__ import annotations

import mimetypes
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec
from mcp.shared.path_security import PathEscapeError, safe_join

if TYPE_CHECKING:
    from pathlib import Path

# The platform's own table differs from machine to machine: the common text types are settled here.
_MIME_TYPES: Final = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
}


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the folder. `name` is its path inside the folder, `size` is in bytes."""

    path: Path
    uri: str
    name: str
    mime_type: str
    size: int


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a document that holds what was searched for; lines count from 1."""

    uri: str
    name: str
    line: int
    text: str


def documents(root: Path) -> list[Document]:
    """Every file that is offered, by name. Hidden files and links that lead outside are not.

    Raises:
        OSError: The folder cannot be read.
    """
    root = root.resolve()
    found = (_document(root, path.relative_to(root).as_posix()) for path in sorted(root.rglob("*")))
    return [document for document in found if document is not None]


def find(root: Path, uri: str) -> Document | None:
    """The document of that URI; `None` for every URI that does not name one, whatever the reason.

    Traversal (plain or percent-encoded), a path elsewhere, another scheme or host, a hidden file and a link
    out of the folder all look the same to the caller: not there.
    """
    root = root.resolve()
    name = _name_of(root, uri)
    return None if name is None else _document(root, name)


def read(document: Document) -> str | bytes:
    """Read the whole content: text where it is UTF-8, bytes otherwise.

    Raises:
        OSError: It cannot be read.
    """
    content = document.path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


def marks(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return modification time, size and inode of each document, by its URI.

    Raises:
        OSError: The folder cannot be read.
    """
    found = {}
    for document in documents(root):
        with suppress(FileNotFoundError):  # removed between the two looks
            status = document.path.stat()
            found[document.uri] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def search(root: Path, query: str) -> list[Match]:
    """Find every line of every text document that holds `query`, without regard to case.

    Raises:
        OSError: The folder cannot be read.
    """
    wanted = query.casefold()
    return [
        Match(uri=document.uri, name=document.name, line=number, text=line)
        for document in documents(root)
        for number, line in enumerate(_lines(document), start=1)
        if wanted in line.casefold()
    ]


def _lines(document: Document) -> list[str]:
    content = read(document)
    return content.splitlines() if isinstance(content, str) else []


def _name_of(root: Path, uri: str) -> str | None:
    """The path inside `root` that a `file://` URI spells; not yet checked against the disk."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
        return None
    prefix, path = f"{root.as_posix().rstrip('/')}/", unquote(parts.path)
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def _document(root: Path, name: str) -> Document | None:
    """The document of that name, if it is a visible file and really inside `root` (which is resolved)."""
    if any(part.startswith(".") for part in name.split("/")):
        return None  # hidden, or a step up
    try:
        name.encode("utf-8")  # a name that is not text cannot be sent
        target = safe_join(root, name)
        if not target.is_file():
            return None
        size = target.stat().st_size
    except (PathEscapeError, UnicodeEncodeError, OSError, RuntimeError):  # RuntimeError: links in a circle
        return None
    uri = (root / name).as_uri()
    return Document(path=target, uri=uri, name=name, mime_type=_mime_type(target), size=size)


def _mime_type(path: Path) -> str:
    known = _MIME_TYPES.get(path.suffix.lower())
    return known or mimetypes.guess_type(path.name)[0] or "application/octet-stream"

"""Results of servers, printed for people and programs, or saved as the files that they hold."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcpx.cli.printing import echo, print_json
from mcpx.errors import MCPXError

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON


def show_result(shaped: JSON, *, as_json: bool = False) -> None:
    """Print a result: its texts, and a line for each other block; an error on standard error."""
    if as_json:
        print_json(shaped)
        return
    for block in shaped["content"]:
        echo(text_of(block), err=shaped["isError"])


def text_of(block: JSON) -> str:
    """A block as it is printed."""
    return str(block["text"]) if block.get("type") == "text" else _media(block)


def _media(block: JSON) -> str:
    """Describe a block that is not text."""
    inner = block.get("resource", block)
    size = len(inner.get("data") or inner.get("blob") or "") * 3 // 4
    about = [block.get("type"), inner.get("mimeType"), inner.get("uri"), f"{size} bytes" if size else None]
    return f"[{', '.join(str(part) for part in about if part)}; --out FILE saves it]"


class _Part(NamedTuple):
    """One file's worth of a result."""

    content: bytes
    mime_type: str


def save_result(shaped: JSON, out: str, *, name: str, as_json: bool = False) -> None:
    """Write what a result holds to a file, a folder (as `name`), or standard output (`-`).

    Images, audio and blobs are decoded. Of several, the second is written as `FILE-2`, and so on; texts
    beside them are printed.

    Raises:
        MCPXError: The result holds several and standard output takes one, or it cannot be decoded.
        OSError: It cannot be written.
    """
    blocks = shaped["content"]
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    parts = [_decoded(block) for block in blocks if block.get("type") != "text"]
    if not parts:
        text = "\n".join(texts) if texts else json.dumps(shaped.get("structuredContent") or {})
        parts, texts = [_Part(text.encode("utf-8", "backslashreplace"), "text/plain")], []
    if out == "-":
        if len(parts) > 1:
            raise MCPXError(f"the result holds {len(parts)} files; name a file or a folder with --out")
        sys.stdout.buffer.write(parts[0].content)
        sys.stdout.flush()
        return
    saved = []
    for number, part in enumerate(parts, 1):
        path = _path(out, name, part, number)
        path.write_bytes(part.content)
        saved.append({"file": str(path), "mime_type": part.mime_type, "bytes": len(part.content)})
    if as_json:
        print_json({"saved": saved, "texts": texts})
        return
    for text in texts:
        echo(text)
    for each in saved:
        echo(f"wrote {each['file']} ({each['mime_type']}, {each['bytes']} bytes)", err=True)


def _path(out: str, name: str, part: _Part, number: int) -> Path:
    """The file for a part."""
    path = Path(out)
    if out.endswith(os.sep) or path.is_dir():
        safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).lstrip(".")
        path /= (safe or "result") + (mimetypes.guess_extension(part.mime_type) or "")
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def _decoded(block: JSON) -> _Part:
    """The file in a block that is not text."""
    inner = block.get("resource", block)
    mime_type = str(inner.get("mimeType") or "application/octet-stream").partition(";")[0]
    if isinstance(inner.get("text"), str):
        return _Part(inner["text"].encode("utf-8", "backslashreplace"), mime_type)
    data = inner.get("data") or inner.get("blob")
    if data is None:  # a link
        return _Part(json.dumps(block, indent=2, ensure_ascii=False).encode(), "application/json")
    try:
        return _Part(base64.b64decode(data, validate=True), mime_type)
    except (binascii.Error, ValueError) as error:
        raise MCPXError(f"the server's {block.get('type')} is not base64: {error}") from None

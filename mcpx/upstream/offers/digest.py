"""What a resource holds now, in sixteen bytes: to tell after a reconnect whether it changed meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import anyio
import msgspec

from mcpx.catalog.model import Catalogue
from mcpx.errors import CallError, Code
from mcpx.upstream.queue import RawReply
from mcpx.upstream.requests import MCPX, ReadResource, Request

PATIENCE_S: Final = 10.0  # for reading one
LARGEST: Final = 1024 * 1024  # bytes by the listing; what is larger is not read for this
GONE: Final = b""

Submit = Callable[[Request, RawReply], None]


class _Contents(msgspec.Struct):
    contents: msgspec.Raw = msgspec.Raw()


async def read_digest(submit: Submit, catalogue: Catalogue | None, uri: str) -> bytes | None:
    """A digest of the content; GONE where the server refuses to give it, None where it cannot be told."""
    listed = catalogue.resources.get(uri) if catalogue else None
    if listed is not None and (listed.size or 0) > LARGEST:
        return None
    reply = RawReply()
    with anyio.move_on_after(PATIENCE_S):
        try:
            submit(ReadResource(uri, origin=MCPX), reply)
            contents = msgspec.json.decode(await reply.wait(), type=_Contents).contents
            return hashlib.blake2b(contents, digest_size=16).digest()
        except msgspec.DecodeError:
            return None
        except CallError as error:
            return GONE if error.code is Code.UPSTREAM_ERROR else None
    return None

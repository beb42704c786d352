"""Pictures in results: which of them a client and its model take, and what is asked of a worker for the rest.

A picture that is too large for the model's provider stays in the conversation, and every later request is
refused with it. So results for a model with pictures in them go through a worker, which leaves alone what
fits, scales what does not, and puts a text in the place of what cannot be shown
(`mcpx.core.calls.results.picture_work`). A note says so, and names the address of the original.

Pure: imported on the event loop and in workers.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

FIT_TASK: Final = "mcpx.core.calls.results.picture_work:fit"
MAX_PIXELS: Final = 89_478_485  # of a picture that is decoded: 340 MB; above, Pillow calls it a bomb
FULL_CHECK_BYTES: Final = 2 << 20  # of a result; what is larger goes to a worker without a closer look
_LEAST_CHARS: Final = 36  # of base64: no picture has fewer than 26 bytes
mentions_picture: Final = re.compile(rb"image").search
"""Search a result for what stands in every type and media type of a picture."""


class PictureLimits(msgspec.Struct, frozen=True, array_like=True):
    """The most that a client takes. Bytes are those of the message: of base64."""

    side: int = 2000
    """Pixels of width and height: what the Messages API of Anthropic takes in a conversation of many pictures
    (docs.claude.com, Vision; with few it is 8,000, but a conversation becomes long)."""
    size: int = 5_000_000
    """Bytes of one picture (as above: 5 MB)."""
    of_result: int | None = None
    """Bytes of a whole result, texts among them; None: as many as it has."""


USUAL: Final = PictureLimits()
"""Limits for a client of which nothing is known."""


class FitJob(msgspec.Struct, frozen=True, array_like=True):
    """Fit the pictures of one result; `result_id` is for the originals, in the order of the notes."""

    limits: PictureLimits
    result_id: str
    as_resource: bool
    """Whether notes tell to read the address as a resource, for clients without the resources tool."""
    decodes: bool = True
    """False where a worker failed at it: every picture is replaced by a note."""


class Fitted(msgspec.Struct, array_like=True):
    """A result whose pictures fit, None where nothing had to change; `originals` are its old blocks."""

    result: bytes | None = None
    originals: list[bytes] = []


class _Held(msgspec.Struct, gc=False):
    blob: msgspec.Raw = msgspec.Raw()
    mime_type: str | None = msgspec.field(name="mimeType", default=None)


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    data: msgspec.Raw = msgspec.Raw()
    resource: _Held | None = None


class _Blocks(msgspec.Struct, gc=False):
    content: list[_Block] = []
    contents: list[_Held] = []


_decode: Final = msgspec.json.Decoder(_Blocks).decode
encode_job: Final = msgspec.msgpack.Encoder().encode
decode_job: Final = msgspec.msgpack.Decoder(FitJob).decode
decode_fitted: Final = msgspec.msgpack.Decoder(Fitted).decode


def is_picture(media_type: str | None) -> bool:
    """Return True if a media type is that of a picture made of pixels."""
    return media_type is not None and media_type.startswith("image/") and "svg" not in media_type


def may_hold_pictures(raw: msgspec.Raw) -> bool:
    """Return True if the result of a tool or of a read, which mentions one, may hold a picture."""
    view = memoryview(raw)
    if len(view) > FULL_CHECK_BYTES:
        return True
    try:
        found = _decode(view)
    except (msgspec.DecodeError, RecursionError):  # it is refused elsewhere
        return False
    return any(map(_holds, found.contents)) or any(map(_is_of_picture, found.content))


def _is_of_picture(block: _Block) -> bool:
    if block.type == "image":
        return len(memoryview(block.data)) >= _LEAST_CHARS
    return block.resource is not None and _holds(block.resource)


def _holds(item: _Held) -> bool:
    return is_picture(item.mime_type) and len(memoryview(item.blob)) >= _LEAST_CHARS

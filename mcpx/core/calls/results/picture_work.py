"""Fit the pictures of one result, in a worker: `fit` is its task. The one module that imports Pillow.

A picture is opened by what it is, not by what it claims to be. One that is whole and within the limits stays
byte for byte as it came; a wrong media type is put right. A larger one is scaled, and encoded again as PNG
where that is within the limits, else as JPEG or WebP of falling quality, then smaller. Of a larger animation
the first frame is left. What cannot be decoded, or has more pixels than `MAX_PIXELS`, is replaced by a text.
A format that is not known here passes as it is.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from PIL import Image, ImageOps, UnidentifiedImageError

from mcpx.core.protocol.result_address import ResultAddress
from mcpx.core.rendering.pictures import (
    MAX_PIXELS,
    FitJob,
    Fitted,
    PictureLimits,
    decode_job,
    is_picture,
)

LENGTH_BYTES: Final = 4  # before the job in a frame, behind which the result stands
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")  # that are read
_OF_MODELS: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_QUALITIES: Final = (85, 70, 50)
_SMALLER: Final = 0.7  # of a side, where no quality is enough
_LEAST_SIDE: Final = 32
_LEAST_BYTES: Final = 64  # of a picture in one of these formats: what is shorter stands for one, in a test
_NOTE_BYTES: Final = 512  # of one note, generously
_MEGABYTE: Final = 1_000_000
_KILOBYTE: Final = 1000
_BASE64: Final = 4 / 3
_UNDECODABLE: Final = (OSError, SyntaxError, ValueError, struct.error, EOFError, IndexError, OverflowError)
Image.MAX_IMAGE_PIXELS = None  # what is too large is refused here, by its header


class _NotShown(Exception):
    """The reason why there is nothing to show, as the end of a sentence."""


class _Picture(NamedTuple):
    """A picture within a block, which is a dictionary; `holder` has its data under `key`."""

    block: dict[str, Any]
    holder: dict[str, Any]
    key: str


class _Made(NamedTuple):
    data: bytes
    media_type: str
    note: str


class _Shown(NamedTuple):
    """A block in place of a picture, if any, and what there is to say of it, if anything."""

    block: dict[str, Any] | None
    note: str


def fit(payload: memoryview) -> bytes:
    """Fit the pictures of a result: from a length, a `FitJob` and the result to a `Fitted`."""
    begins = LENGTH_BYTES + int.from_bytes(payload[:LENGTH_BYTES])
    return msgspec.msgpack.encode(fitted(decode_job(payload[LENGTH_BYTES:begins]), payload[begins:]))


def fitted(job: FitJob, raw: memoryview | bytes) -> Fitted:
    """The result with pictures that fit."""
    members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    key = "content" if "content" in members else "contents"
    blocks = msgspec.json.decode(members.get(key, b"[]"), type=list[msgspec.Raw])
    found = {at: each for at, block in enumerate(blocks) if (each := _picture_in(block, key))}
    sizes = [len(each.holder[each.key]) for each in found.values()]
    room = _room(job.limits, len(raw) - sum(sizes), len(sizes))
    made: list[msgspec.Raw | bytes] = []
    originals: list[bytes] = []
    for at, block in enumerate(blocks):
        made.append(block)
        if (picture := found.get(at)) is None:
            continue
        limits = msgspec.structs.replace(job.limits, size=next(room))
        shown = _shown(job, picture, limits)
        if shown is None:
            continue
        made[-1:] = [] if shown.block is None else [msgspec.json.encode(shown.block)]
        if shown.note:
            originals.append(bytes(block))
            made.append(msgspec.json.encode(_note(shown.note, job, len(originals), picture, key)))
    if made == blocks:
        return Fitted()
    members[key] = msgspec.Raw(b"[" + b",".join(map(bytes, made)) + b"]")
    return Fitted(msgspec.json.encode(members), originals)


def _picture_in(raw: msgspec.Raw, key: str) -> _Picture | None:
    if b"image" not in bytes(raw):
        return None
    block = msgspec.json.decode(raw)
    if not isinstance(block, dict):
        return None
    embedded = block if key == "contents" else block.get("resource")
    if key == "content" and block.get("type") == "image":
        return _Picture(block, block, "data") if isinstance(block.get("data"), str) else None
    if not isinstance(embedded, dict) or not isinstance(embedded.get("blob"), str):
        return None
    return _Picture(block, embedded, "blob") if is_picture(embedded.get("mimeType")) else None


def _room(limits: PictureLimits, others: int, pictures: int) -> Iterator[int]:
    """Give the most bytes of base64 of each picture; together they leave room for all else."""
    for _ in range(pictures):
        if limits.of_result is None:
            yield limits.size
        else:
            left = limits.of_result - others - pictures * _NOTE_BYTES
            yield max(0, min(limits.size, left // pictures))


def _shown(job: FitJob, picture: _Picture, limits: PictureLimits) -> _Shown | None:
    """Fit one picture; None where it is to stay as it is."""
    given = picture.holder[picture.key]
    try:
        made = _made(given, picture.holder.get("mimeType"), limits, decodes=job.decodes)
    except _NotShown as reason:
        return _Shown(None, f"A picture of {_size(len(given))} is not shown: {reason}.")
    if made is None:
        return None
    picture.holder[picture.key] = base64.b64encode(made.data).decode()
    picture.holder["mimeType"] = made.media_type
    return _Shown(picture.block, made.note)


def _note(text: str, job: FitJob, number: int, picture: _Picture, key: str) -> dict[str, Any]:
    """The block that says what became of a picture, and where the original is."""
    address = ResultAddress(job.result_id, block=number)
    how = f"read the resource {address}" if job.as_resource else address.call
    said = f"[{text} The original is kept: {how}]"
    if key == "content":
        return {"type": "text", "text": said}
    return {"uri": picture.block.get("uri", ""), "mimeType": "text/plain", "text": said}


def _made(given: str, claimed: str | None, limits: PictureLimits, *, decodes: bool) -> _Made | None:
    """A picture as it fits; None for one that does already.

    Raises:
        _NotShown: It cannot be shown.
    """
    if not decodes:
        raise _NotShown("it takes too long, or too much memory")
    try:
        data = base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise _NotShown("its data is no base64") from None
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            return _fitting(image, data, claimed, len(given), limits)
    except UnidentifiedImageError:
        if claimed in _OF_MODELS.values() and len(data) >= _LEAST_BYTES:
            raise _NotShown(f"it is no {claimed} that can be read") from None
        return None  # of a format that is not known here, as it may be to the client
    except MemoryError:
        raise _NotShown("it takes too much memory") from None
    except _UNDECODABLE as error:
        raise _NotShown(f"it is broken ({error})") from None


def _fitting(
    image: Image.Image, data: bytes, claimed: str | None, size: int, limits: PictureLimits
) -> _Made | None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _NotShown(f"its {width:,} x {height:,} px are more than {MAX_PIXELS // 1_000_000} million")
    media_type = _OF_MODELS.get(image.format or "")
    if media_type and max(width, height) <= limits.side and size <= limits.size:
        image.load()  # to know that it is whole
        return None if media_type == claimed else _Made(data, media_type, "")
    animated = bool(getattr(image, "is_animated", False))
    scaled = _scaled(image, limits.side)
    encoded, media_type, last = _encoded(scaled, limits, lossless=image.format != "JPEG")
    frames = ", the first picture of an animation," if animated else ""
    note = (
        f"The picture above{frames} was {width:,} x {height:,} px ({_size(size)}), and is shown as"
        f" {last[0]:,} x {last[1]:,} px ({_size(int(len(encoded) * _BASE64))}), to fit."
    )
    return _Made(encoded, media_type, note)


def _scaled(image: Image.Image, side: int) -> Image.Image:
    """The picture, or its first frame, the right way up, with `side` pixels at most, in a plain mode."""
    image.draft("RGB", (side, side))  # of a JPEG, decoded smaller from the start
    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    elif image.mode not in {"RGB", "RGBA", "L"}:
        has_alpha = "transparency" in image.info or image.mode in {"LA", "PA", "La", "RGBa"}
        image = image.convert("RGBA" if has_alpha else "RGB")
    image.thumbnail((side, side), reducing_gap=2.0)
    return ImageOps.exif_transpose(image)


def _encoded(
    image: Image.Image, limits: PictureLimits, *, lossless: bool
) -> tuple[bytes, str, tuple[int, int]]:
    """The smallest loss that is within the limit: data, media type, and pixels.

    Raises:
        _NotShown: Nothing is.
    """
    most = int(limits.size / _BASE64) - LENGTH_BYTES
    lossy = "WEBP" if image.mode == "RGBA" else "JPEG"
    while max(image.size) >= _LEAST_SIDE:
        tries: list[tuple[str, dict[str, int]]] = [("PNG", {})] if lossless else []
        tries += [(lossy, {"quality": quality}) for quality in _QUALITIES]
        for form, options in tries:
            out = io.BytesIO()
            image.save(out, form, **options)
            if out.tell() <= most:
                return out.getvalue(), _OF_MODELS[form], image.size
        lossless = False
        smaller = (max(1, int(each * _SMALLER)) for each in image.size)
        image = image.resize((next(smaller), next(smaller)))
    raise _NotShown(f"there is room for {_size(limits.size)} alone")


def _size(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB" if size >= _MEGABYTE else f"{max(1, size // _KILOBYTE)} kB"

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
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from mcpx.core.protocol.result_address import ResultAddress
from mcpx.core.rendering.pictures import MAX_PIXELS, FitJob, Fitted, PictureLimits, decode_job, is_picture

LENGTH_BYTES: Final = 4  # before the job in a frame, behind which the result stands
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")  # that are read
_OF_MODELS: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
_QUALITIES: Final = (85, 70, 50)
_SMALLER: Final = 0.7  # of a side, where no quality is enough
_LEAST_SIDE: Final = 32
_BEGINNINGS: Final = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_NOTE_BYTES: Final = 512  # of one note, generously
_MEGABYTE: Final = 1_000_000
_KILOBYTE: Final = 1000
_BASE64: Final = 4 / 3
_UNDECODABLE: Final = (OSError, SyntaxError, ValueError, struct.error, EOFError, IndexError, OverflowError)
Image.MAX_IMAGE_PIXELS = None  # what is too large is refused here, by its header


class _NotShown(Exception):
    """The reason why there is nothing to show, as the end of a sentence."""


class _Picture(NamedTuple):
    """A picture within a block: its data and media type, and how to put others in their place."""

    data: str
    media_type: str | None
    uri: str
    """Of the item of a resource; "" where it has none."""
    replace: Callable[[str, str], bytes]
    """Makes the block, in JSON, with other data and another media type; all else stays as it came."""


class _Made(NamedTuple):
    data: bytes
    media_type: str
    note: str


class _Shown(NamedTuple):
    """A block in place of a picture, in JSON, if any, and what there is to say of it, if anything."""

    block: bytes | None
    note: str


class _Holder(msgspec.Struct, gc=False):
    """The members of a block, of an item, or of an embedded resource that are read."""

    type: str = ""
    data: str | None = None
    blob: str | None = None
    uri: str = ""
    mime_type: str | None = msgspec.field(name="mimeType", default=None)
    resource: msgspec.Raw = msgspec.Raw()


_read: Final = msgspec.json.Decoder(_Holder).decode
_encode: Final = msgspec.json.encode
Members = dict[str, msgspec.Raw]


def fit(payload: memoryview) -> bytes:
    """Fit the pictures of a result: from a length, a `FitJob` and the result to a `Fitted`."""
    begins = LENGTH_BYTES + int.from_bytes(payload[:LENGTH_BYTES])
    job, raw = decode_job(payload[LENGTH_BYTES:begins]), payload[begins:]
    try:
        made = fitted(job, raw)
    except (msgspec.DecodeError, RecursionError):  # no result of MCP: who reads it next says so
        made = Fitted()
    return msgspec.msgpack.encode(made)


def fitted(job: FitJob, raw: memoryview | bytes) -> Fitted:
    """The result with pictures that fit."""
    members = msgspec.json.decode(raw, type=Members)
    key = "content" if "content" in members else "contents"
    blocks = msgspec.json.decode(members.get(key, b"[]"), type=list[msgspec.Raw])
    found = {at: each for at, block in enumerate(blocks) if (each := _picture_in(block, key))}
    sizes = [len(each.data) for each in found.values()]
    room = _room(job.limits, len(raw) - sum(sizes), len(sizes))
    made: list[bytes] = []
    originals: list[bytes] = []
    changed = False
    for at, block in enumerate(blocks):
        made.append(bytes(block))
        if (picture := found.get(at)) is None:
            continue
        limits = msgspec.structs.replace(job.limits, size=next(room))
        shown = _shown(job, picture, limits)
        if shown is None:
            continue
        made[-1:] = [] if shown.block is None else [shown.block]
        changed = True
        if shown.note:
            originals.append(bytes(block))
            made.append(_encode(_note(shown.note, job, len(originals), picture.uri, key)))
    if not changed:
        return Fitted()
    members[key] = msgspec.Raw(b"[" + b",".join(made) + b"]")
    return Fitted(_encode(members), originals)


def _picture_in(raw: msgspec.Raw, key: str) -> _Picture | None:
    """The picture in a block of a tool's result, or in an item of a resource's."""
    if b"image" not in bytes(raw):
        return None
    try:
        held = _read(raw)
        if key == "contents":
            return _blob_in(held, partial(_with, raw, "blob"))
        if held.type == "image" and held.data is not None:
            return _Picture(held.data, held.mime_type, "", partial(_with, raw, "data"))
        if held.type == "resource" and held.resource:
            return _blob_in(_read(held.resource), partial(_with_resource, raw, held.resource))
    except msgspec.DecodeError:  # a block that is as no other; it passes
        return None
    return None


def _blob_in(item: _Holder, replace: Callable[[str, str], bytes]) -> _Picture | None:
    if item.blob is None or not is_picture(item.mime_type):
        return None
    return _Picture(item.blob, item.mime_type, item.uri, replace)


def _with(raw: msgspec.Raw, key: str, data: str, media_type: str) -> bytes:
    given = {key: msgspec.Raw(_encode(data)), "mimeType": msgspec.Raw(_encode(media_type))}
    return _encode(msgspec.json.decode(raw, type=Members) | given)


def _with_resource(raw: msgspec.Raw, resource: msgspec.Raw, data: str, media_type: str) -> bytes:
    changed = msgspec.Raw(_with(resource, "blob", data, media_type))
    return _encode(msgspec.json.decode(raw, type=Members) | {"resource": changed})


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
    try:
        made = _made(picture.data, picture.media_type, limits, decodes=job.decodes)
    except _NotShown as reason:
        return _Shown(None, f"A picture of {_size(len(picture.data))} is not shown: {reason}.")
    if made is None:
        return None
    return _Shown(picture.replace(base64.b64encode(made.data).decode(), made.media_type), made.note)


def _note(text: str, job: FitJob, number: int, uri: str, key: str) -> dict[str, Any]:
    """The block that says what became of a picture, and where the original is."""
    address = ResultAddress(job.result_id, block=number)
    how = f"read the resource {address}" if job.as_resource else address.call
    said = f"[{text} The original is kept: {how}]"
    if key == "content":
        return {"type": "text", "text": said}
    return {"uri": uri, "mimeType": "text/plain", "text": said}


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
        return None  # it stands for a picture, perhaps, but is none that anybody could show
    try:
        with _opened(data) as image:
            return _fitting(image, data, claimed, len(given), limits)
    except UnidentifiedImageError:
        if data.startswith(_BEGINNINGS):
            raise _NotShown(f"it begins as a picture, but is no {claimed} that can be read") from None
        return None  # of a format that is not known here, or no picture at all
    except MemoryError:
        raise _NotShown("it takes too much memory") from None
    except _UNDECODABLE as error:
        raise _NotShown(f"it is broken ({error})") from None


def _opened(data: bytes) -> Image.Image:
    """Open a picture; checksums that are wrong count for nothing, as for all who show pictures.

    Raises:
        UnidentifiedImageError: It is of no format that is read here, or cut off in its head.
    """
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        return Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        return Image.open(io.BytesIO(data), formats=_FORMATS)


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

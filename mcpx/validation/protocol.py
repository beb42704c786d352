"""The protocol of the processes that check arguments: frames of a length and MessagePack."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.validation.errors import Problem

DEADLINE_S: Final = 0.5  # for one check; then the call goes out unchecked: the server checks too
LENGTH_BYTES: Final = 4  # before each frame


class Job(msgspec.Struct, frozen=True, array_like=True):
    """Check `arguments` (JSON as it came) against `schema` (JSON); None for a look at the schema alone."""

    schema: bytes
    arguments: bytes | None


class Verdict(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The result of a job. Without problems, the arguments, or the schema, are good."""

    problems: list[Problem] = []
    schema: str = ""
    """With problems, what the tool takes, as a type."""
    unusable: str | None = None
    """Why nothing can be checked with this schema."""
    respelled: bytes = b""
    """The arguments to send in place of those that came, where these fit only with other types."""


encode_job = msgspec.msgpack.Encoder().encode
decode_job = msgspec.msgpack.Decoder(Job).decode
encode_verdict = msgspec.msgpack.Encoder().encode
decode_verdict = msgspec.msgpack.Decoder(Verdict).decode

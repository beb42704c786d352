"""A check of arguments as a job of a worker, and its verdict: MessagePack."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpx.core.validation.errors import Problem

DEADLINE_S: Final = 0.5  # for one check; then the call goes out unchecked: the server checks too


class Check(msgspec.Struct, frozen=True, array_like=True):
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


encode_check = msgspec.msgpack.Encoder().encode
decode_check = msgspec.msgpack.Decoder(Check).decode
encode_verdict = msgspec.msgpack.Encoder().encode
decode_verdict = msgspec.msgpack.Decoder(Verdict).decode

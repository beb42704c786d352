"""The parameters of `tools/call`, decoded just far enough to find the server and the tool.

Structs for the fast path (`mcpx.core.gateway.fast.path`). What they do not take raises
`msgspec.DecodeError`: such a request is left to the SDK's server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Generic, TypeVar

import msgspec
from mcp_types import LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY

from mcpx.core.protocol.messages import members_for_server

NOTHING: Final = msgspec.Raw()


class Arguments(msgspec.Struct, gc=False):
    """The parameters of exec and resources; others are skipped."""

    server_name: str = ""
    tool_name: str = ""
    uri: str = ""
    arguments: msgspec.Raw = NOTHING
    select: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None


class OwnArguments(Arguments, gc=False, forbid_unknown_fields=True):
    """These and no others, which may be arguments of the tool."""


class ClientInfo(msgspec.Struct, gc=False):
    """Name and version of a client of 2026-07-28."""

    name: str = ""
    version: str = ""


class Meta(msgspec.Struct, gc=False, rename={"version": PROTOCOL_VERSION_META_KEY}):
    """The `_meta` of a request: its progress token, and the envelope of 2026-07-28."""

    for_server = b""
    """The other members, as `RequestContext.meta`."""
    version: str = ""
    progressToken: int | str | None = None  # noqa: N815 - the protocol's name
    client_info: ClientInfo | None = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=None)
    capabilities: msgspec.Raw = msgspec.field(
        name="io.modelcontextprotocol/clientCapabilities", default=NOTHING
    )
    log_level: str | None = msgspec.field(name=LOG_LEVEL_META_KEY, default=None)


class Params(msgspec.Struct, gc=False):
    """The params of a request that the fast path may take."""

    name: str
    arguments: OwnArguments = msgspec.field(default_factory=OwnArguments)
    meta: Meta | None = msgspec.field(name="_meta", default=None)
    responses: msgspec.Raw = msgspec.field(name="inputResponses", default=NOTHING)
    state: str | None = msgspec.field(name="requestState", default=None)


class _OwnMeta(Meta, gc=False, forbid_unknown_fields=True):
    """These members and no others, which would be for the server."""


class _UsualParams(Params, gc=False):
    meta: _OwnMeta | None = msgspec.field(name="_meta", default=None)


class _RichMeta(Meta, gc=False):
    for_server: bytes = b""


class _RichParams(Params, gc=False):
    meta: _RichMeta | None = msgspec.field(name="_meta", default=None)


class _GivenMeta(msgspec.Struct, gc=False):
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)


class Named(msgspec.Struct, gc=False):
    """A request that is refused, whatever else it holds."""

    name: str
    arguments: Arguments = msgspec.field(default_factory=Arguments)
    meta: Meta | None = msgspec.field(name="_meta", default=None)


decode: Final[Callable[[msgspec.Raw], Params]] = msgspec.json.Decoder(_UsualParams).decode
"""Decodes the params of a usual request, whose `_meta` holds nothing for the server."""
decode_named: Final = msgspec.json.Decoder(Named).decode
_decode_given_meta: Final = msgspec.json.Decoder(_GivenMeta).decode


# --- native tools


class NativeParams(msgspec.Struct, gc=False):
    """The params of a call of a native tool, whose arguments stay as they are."""

    name: str
    arguments: msgspec.Raw = NOTHING
    meta: Meta | None = msgspec.field(name="_meta", default=None)
    responses: msgspec.Raw = msgspec.field(name="inputResponses", default=NOTHING)
    state: str | None = msgspec.field(name="requestState", default=None)


class _UsualNativeParams(NativeParams, gc=False):
    meta: _OwnMeta | None = msgspec.field(name="_meta", default=None)


class _RichNativeParams(NativeParams, gc=False):
    meta: _RichMeta | None = msgspec.field(name="_meta", default=None)


decode_native: Final[Callable[[msgspec.Raw], NativeParams]] = msgspec.json.Decoder(_UsualNativeParams).decode
"""As `decode`, for any tool."""


# --- reads, as the protocol has them


class ReadParams(msgspec.Struct, gc=False):
    """The params of a `resources/read`."""

    uri: str
    meta: Meta | None = msgspec.field(name="_meta", default=None)
    responses: msgspec.Raw = msgspec.field(name="inputResponses", default=NOTHING)
    state: str | None = msgspec.field(name="requestState", default=None)


class _UsualReadParams(ReadParams, gc=False):
    meta: _OwnMeta | None = msgspec.field(name="_meta", default=None)


class _RichReadParams(ReadParams, gc=False):
    meta: _RichMeta | None = msgspec.field(name="_meta", default=None)


decode_read: Final[Callable[[msgspec.Raw], ReadParams]] = msgspec.json.Decoder(_UsualReadParams).decode


# --- what `_meta` holds for the server

_Rich = TypeVar("_Rich", _RichParams, _RichNativeParams, _RichReadParams)


def _rich_decoder(params_type: type[_Rich]) -> Callable[[msgspec.Raw], _Rich]:
    """Make a decoder for the params of any such request, with what `_meta` holds for the server.

    It raises as `decode` does.
    """
    decode_params = msgspec.json.Decoder(params_type).decode

    def decode_all(raw: msgspec.Raw) -> _Rich:
        params = decode_params(raw)
        if params.meta is not None:
            params.meta.for_server = members_for_server(_decode_given_meta(raw).meta)
        return params

    return decode_all


decode_rich: Final[Callable[[msgspec.Raw], Params]] = _rich_decoder(_RichParams)
decode_rich_native: Final[Callable[[msgspec.Raw], NativeParams]] = _rich_decoder(_RichNativeParams)
decode_rich_read: Final[Callable[[msgspec.Raw], ReadParams]] = _rich_decoder(_RichReadParams)

P = TypeVar("P")


class Decoder(Generic[P]):
    """Decodes usual params, and once there are others, all of them as those.

    A client that sends members for the server in `_meta` sends them with each request.
    """

    def __init__(self, usual: Callable[[msgspec.Raw], P], rich: Callable[[msgspec.Raw], P]) -> None:
        self._decode = usual
        self._rich = rich

    def __call__(self, raw: msgspec.Raw) -> P:
        """Decode the params of a request."""
        try:
            return self._decode(raw)
        except msgspec.ValidationError:
            if self._decode is self._rich:
                raise
        params = self._rich(raw)
        self._decode = self._rich
        return params

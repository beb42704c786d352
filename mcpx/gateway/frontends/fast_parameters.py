"""The parameters of `tools/call`, decoded just far enough to find the server and the tool.

Structs for the fast path (`mcpx.gateway.frontends.fast_path`). What they do not take raises
`msgspec.DecodeError`: such a request is left to the SDK's server.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from mcp_types import LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY

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
    """What a client of 2026-07-28 calls itself."""

    name: str = ""


class Meta(msgspec.Struct, gc=False, rename={"version": PROTOCOL_VERSION_META_KEY}):
    """The `_meta` of a request: its progress token, and the envelope of 2026-07-28."""

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


class Named(msgspec.Struct, gc=False):
    """A request that is refused, whatever else it holds."""

    name: str
    arguments: Arguments = msgspec.field(default_factory=Arguments)
    meta: Meta | None = msgspec.field(name="_meta", default=None)


class NativeParams(msgspec.Struct, gc=False):
    """The params of a call of a native tool, whose arguments stay as they are."""

    name: str
    arguments: msgspec.Raw = NOTHING
    meta: Meta | None = msgspec.field(name="_meta", default=None)
    responses: msgspec.Raw = msgspec.field(name="inputResponses", default=NOTHING)
    state: str | None = msgspec.field(name="requestState", default=None)


decode: Final = msgspec.json.Decoder(Params).decode
decode_named: Final = msgspec.json.Decoder(Named).decode
decode_native: Final = msgspec.json.Decoder(NativeParams).decode

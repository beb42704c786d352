"""The parameters of calls and reads, decoded just far enough to find the server and the tool.

Structs for the fast paths (`mcpx.core.gateway.fast.path`, `mcpx.core.gateway.peer.fast_path`). What
they do not take raises `msgspec.DecodeError`: such a request is left to the SDK's server. Each kind of params
has two forms: the usual one, whose `_meta` holds the protocol's own members alone, and a rich one, which
collects the others for the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Generic, TypeVar, cast

import msgspec

from mcpx.core.protocol.messages import members_for_server
from mcpx.core.system.endpoint import FRESH_KEY
from mcpx.core.wire.envelope import LOG_LEVEL_META_KEY, PROTOCOL_VERSION_META_KEY

NOTHING: Final = msgspec.Raw()


class Arguments(msgspec.Struct, gc=False):
    """The parameters of exec and resources; others are skipped."""

    server_name: str = ""
    tool_name: str = ""
    uri: str = ""
    arguments: msgspec.Raw = NOTHING
    select: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    fresh: bool | None = None


class OwnArguments(Arguments, gc=False, forbid_unknown_fields=True):
    """These and no others, which may be arguments of the tool."""


class ClientInfo(msgspec.Struct, gc=False):
    """Name and version of a client of 2026-07-28."""

    name: str = ""
    version: str = ""


class Meta(msgspec.Struct, gc=False, rename={"version": PROTOCOL_VERSION_META_KEY, "fresh": FRESH_KEY}):
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
    fresh: bool = False


class _OwnMeta(Meta, gc=False, forbid_unknown_fields=True):
    """These members and no others, which would be for the server."""


class _RichMeta(Meta, gc=False):
    for_server: bytes = b""


class _GivenMeta(msgspec.Struct, gc=False):
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)


class Repeated(msgspec.Struct, gc=False, kw_only=True):
    """Members of every request that the fast path may take."""

    meta: Meta | None = msgspec.field(name="_meta", default=None)
    responses: msgspec.Raw = msgspec.field(name="inputResponses", default=NOTHING)
    state: str | None = msgspec.field(name="requestState", default=None)


class Params(Repeated, gc=False):
    """The params of a call of one of the three tools."""

    name: str
    arguments: OwnArguments = msgspec.field(default_factory=OwnArguments)


class NativeParams(Repeated, gc=False):
    """The params of a call of a native tool, whose arguments stay as they are."""

    name: str
    arguments: msgspec.Raw = NOTHING


class ReadParams(Repeated, gc=False):
    """The params of a `resources/read`."""

    uri: str


class Named(msgspec.Struct, gc=False):
    """A request that is refused, whatever else it holds."""

    name: str
    arguments: Arguments = msgspec.field(default_factory=Arguments)
    meta: Meta | None = msgspec.field(name="_meta", default=None)


decode_named: Final = msgspec.json.Decoder(Named).decode
_decode_given_meta: Final = msgspec.json.Decoder(_GivenMeta).decode

P = TypeVar("P", bound=Repeated)
Decode = Callable[[msgspec.Raw], P]


def _decode_with(meta: type[Meta], params_type: type[P]) -> Decode[P]:
    """Make a decoder of such params whose `_meta` is of that type."""
    field = ("meta", meta | None, msgspec.field(name="_meta", default=None))
    form = msgspec.defstruct(
        f"{meta.__name__}{params_type.__name__}", [field], bases=(params_type,), kw_only=True, gc=False
    )
    return cast("Decode[P]", msgspec.json.Decoder(form).decode)


class Forms(Generic[P]):
    """The two forms of one kind of params; both decoders raise `msgspec.DecodeError`."""

    def __init__(self, params_type: type[P]) -> None:
        self.usual = _decode_with(_OwnMeta, params_type)
        self._rich = _decode_with(_RichMeta, params_type)

    def rich(self, raw: msgspec.Raw) -> P:
        """Decode params of either form."""
        params = self._rich(raw)
        if params.meta is not None:
            params.meta.for_server = members_for_server(_decode_given_meta(raw).meta)
        return params


CALLS: Final = Forms(Params)
NATIVE_CALLS: Final = Forms(NativeParams)
READS: Final = Forms(ReadParams)


class Decoder(Generic[P]):
    """Decodes usual params, and once there are others, all of them as those.

    A client that sends members for the server in `_meta` sends them with each request.
    """

    def __init__(self, forms: Forms[P]) -> None:
        self._forms = forms
        self.decode: Decode[P] = forms.usual
        """Decodes most params; those that it does not take go to `otherwise`, with the error."""

    def otherwise(self, raw: msgspec.Raw, error: Exception) -> P:
        """Decode params that `decode` does not take.

        Raises:
            DecodeError: They are no such params.
        """
        if self.decode == self._forms.rich or not isinstance(error, msgspec.ValidationError):
            raise error
        params = self._forms.rich(raw)
        self.decode = self._forms.rich
        return params

    def __call__(self, raw: msgspec.Raw) -> P:
        """Decode the params of a request, of either form."""
        try:
            return self.decode(raw)
        except msgspec.DecodeError as error:
            return self.otherwise(raw, error)

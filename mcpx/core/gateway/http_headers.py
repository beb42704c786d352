"""Headers of requests of 2026-07-28, which repeat what stands in the body, and what the SDK says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from mcp.shared.inbound import (
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
    validate_mcp_param_headers,
    x_mcp_header_map,
)

from mcpx.core.catalog.model import JSON
from mcpx.core.gateway.clients.identity import Bearer
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import HEADER_MISMATCH, MCPError

METHOD: Final = b"mcp-method"
VERSION: Final = b"mcp-protocol-version"
CALL: Final = "tools/call"
_MAX_KNOWN: Final = 4096  # tools


class Request(Protocol):
    """The head of an HTTP request (`mcpx.core.gateway.frontends.http.exchange`)."""

    headers: Mapping[bytes, bytes]

    @property
    def bearer(self) -> Bearer | None: ...
    @property
    def repeated(self) -> bool: ...
    @property
    def pairs(self) -> Iterable[tuple[bytes, bytes]]: ...
    @property
    def is_local(self) -> bool: ...
    def respond(self, status: int, headers: Any = (), pieces: Any = ()) -> None: ...


class RepeatingTools:
    """The tools whose calls have headers that repeat arguments, by their schemas."""

    def __init__(self, schema_of: Callable[[str], Any] | None) -> None:
        self._schema_of = schema_of
        self._known: dict[str, tuple[Any, bool]] = {}  # by tool: its schema, and if it names headers

    def has(self, tool: str) -> bool:
        """Return True if a tool is one of them."""
        schema = None if self._schema_of is None else self._schema_of(tool)
        if schema is None:
            return False
        known = self._known.get(tool)
        if known is None or known[0] is not schema:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[tool] = schema, bool(x_mcp_header_map(schema))
        return known[1]


def route_of(
    request: Request, method: str, params: JSON | None, schema_of: Callable[[str], Any] | None
) -> InboundModernRoute:
    """Return the revision of a request, and what its client says of itself.

    Raises:
        MCPError: Its headers and its body do not agree, or it is no whole request of that revision.
    """
    if request.repeated:
        duplicated = find_duplicated_routing_header(_text(request.pairs))
        if duplicated is not None:
            raise MCPError(HEADER_MISMATCH, f"{duplicated} header appears more than once")
    headers = dict(_text(request.headers.items()))
    route = classify_inbound_request({"method": method, "params": params}, headers=headers)
    rejection = route if isinstance(route, InboundLadderRejection) else None
    if rejection is None and method == CALL and schema_of is not None:
        rejection = _of_arguments(request, params or {}, schema_of)
    if rejection is not None:
        raise MCPError(rejection.code, rejection.message, rejection.data)
    assert isinstance(route, InboundModernRoute)
    return route


def _of_arguments(
    request: Request, params: JSON, schema_of: Callable[[str], Any]
) -> InboundLadderRejection | None:
    """Reject a call whose headers do not repeat its arguments, where its tool wants that."""
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    schema = schema_of(name)
    return None if schema is None else validate_mcp_param_headers(schema, arguments, _Pairs(request))


class _Pairs(dict[str, str]):
    """The headers, of which `items` gives each line."""

    def __init__(self, request: Request) -> None:
        super().__init__(_text(request.headers.items()))
        self._request = request

    def items(self) -> Any:
        """All headers, those that were repeated too."""
        return _text(self._request.pairs)


def _text(pairs: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]


def acknowledge(request: Request) -> None:
    """Accept a notification of 2026-07-28, which nobody hears; refuse one of a revision that there is not."""
    rejection = unsupported_protocol_version_rejection(request.headers.get(VERSION, b"").decode("latin-1"))
    if rejection is None:
        request.respond(202)
        return
    error = {"code": rejection.code, "message": rejection.message, "data": rejection.data}
    headers = ((b"content-type", b"application/json"),)
    request.respond(400, headers, envelope.failure(None, envelope.encode(error)))

"""Failures of the native requests, with the protocol's codes of the client's revision. Pure.

A resource that does not exist is -32002 before 2026-07-28 and -32602 (invalid params) since; the code of an
upstream of the other era is translated. Any other error of an upstream keeps its code, message and data. What
MCPX itself could not do is -32603, with the outcome and the rest of the `CallError` in `data`. Errors about a
resource carry `data.uri`, as the client gave it, cut where it is very long.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcpx.core.policy.server_questions import URL_REQUIRED, with_safe_links
from mcpx.core.text import cut
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import INTERNAL_ERROR, INVALID_PARAMS, MCPError
from mcpx.errors import URI_LEN, CallError, Code

RESOURCE_NOT_FOUND: Final = -32002  # the 2026-07-28 revision has INVALID_PARAMS for it
_UNKNOWN: Final = frozenset({Code.UNKNOWN_SERVER, Code.UNKNOWN_RESOURCE})


class UnknownNameError(MCPError):
    """There is no such prompt or resource."""

    rule: str | None = None
    """The rule by which there is none: for the audit log, and never for the client."""


def no_such_resource(uri: str, problem: str, *, version: str, **details: Any) -> UnknownNameError:
    """The error for a URI that names no resource."""
    return UnknownNameError(_not_found(version), problem, {"uri": cut(uri, URI_LEN), **details})


def about_resource(error: CallError, *, uri: str, own: str, version: str) -> MCPError:
    """A failure with the resource that the client calls `uri`, and its server `own`."""
    upstream = error.details.get("upstream")
    if upstream is not None:
        code = _client_code(upstream, own, version)
        return _of_upstream(code, error, _named(upstream.get("data"), uri, own))
    if error.code in _UNKNOWN:
        return no_such_resource(uri, str(error), version=version, **_without_uri(error.details))
    return MCPError(INTERNAL_ERROR, str(error), {"uri": cut(uri, URI_LEN), **_data(error)})


def as_protocol_error(error: CallError) -> MCPError:
    """A failure with a prompt, a completion or a task."""
    upstream = error.details.get("upstream")
    if upstream is not None:
        return _of_upstream(upstream["code"], error, upstream.get("data"))
    code = INVALID_PARAMS if error.code in _UNKNOWN else INTERNAL_ERROR
    return MCPError(code, str(error), _data(error))


def _of_upstream(code: int, error: CallError, data: Any) -> MCPError:
    """An upstream's error; its data is enclosed, so that members that are null survive."""
    if code == URL_REQUIRED:
        data = with_safe_links(data, error.server)
    enclosed = None if data is None else enclose([msgspec.json.encode(data)])
    return MCPError(code, error.details["upstream"]["message"], enclosed)


def _client_code(upstream: dict[str, Any], own: str, version: str) -> int:
    code: int = upstream["code"]
    if code == RESOURCE_NOT_FOUND:
        return _not_found(version)
    data = upstream.get("data")
    if code == INVALID_PARAMS and isinstance(data, dict) and data.get("uri") == own:
        return _not_found(version)  # how a 2026-07-28 server says that there is no such resource
    return code


def _not_found(version: str) -> int:
    return INVALID_PARAMS if version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND


def _named(data: Any, uri: str, own: str) -> Any:
    """The upstream's `data`, with the URI as the client knows it."""
    if data is None:
        return {"uri": uri}
    if isinstance(data, dict) and data.get("uri", own) == own:
        return {**data, "uri": uri}
    return data


def _data(error: CallError) -> dict[str, Any]:
    data = _without_uri(error.to_dict())
    del data["error"]  # it is the message
    return data


def _without_uri(details: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in details.items() if key != "uri"}

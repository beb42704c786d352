"""True if a request is admitted by the policy of its server; asked by the pipeline, and again of what waited.

The errors are those for what the server does not have: what is not admitted does not exist.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import ToolChange, ToolInfo, is_read_only
from mcpx.core.catalog.snapshot import ServerInfo
from mcpx.core.catalog.uris import UriRejection
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.policy.questions import form_of
from mcpx.core.protocol.requests import (
    CallTool,
    Complete,
    GetPrompt,
    ReadResource,
    Request,
    Subscribe,
    tool_of,
)
from mcpx.core.rendering.suggest import unknown_resource, unknown_tool
from mcpx.core.text import shown_name, shown_server
from mcpx.core.wire.envelope import INVALID_PARAMS
from mcpx.errors import CallError, Code, Outcome


class Reference(msgspec.Struct):
    """Reference of a completion: a prompt by its name, or a resource template by its text."""

    name: str | None = None
    uri: str | None = None


def reference_in(ref: bytes) -> Reference | None:
    """Read the `ref` of a completion; None where it cannot be read."""
    try:
        return msgspec.json.decode(ref, type=Reference)
    except (msgspec.DecodeError, RecursionError):
        return None  # the server says what is wrong with it


def refusal_of(request: Request, policy: ServerPolicy, info: ServerInfo) -> CallError | None:
    """Say why a request is not sent to its server; None where it may be."""
    policy = request.context.policy or policy
    match request:
        case CallTool(name=name):
            if (rule := policy.rule_against_tool(name)) is None:
                refused = policy.refusal(name) or _refusal_of_tier(request, info)
                return refused or _unapproved(request, policy, info) or _outdated(request, policy, info)
            seen = _seen_through(policy, info)
            return _by(rule, unknown_tool(seen, tool_of(request) or name, [seen]))
        case ReadResource(uri=uri) | Subscribe(uri=uri):
            rule = policy.rule_against_resource(uri, listed=uri in info.resources)
            return _no_resource(uri, rule, policy, info)
        case GetPrompt(name=name):
            return _of_prompt(name, policy, info)
        case Complete(ref=ref):
            return _of_completion(ref, policy, info)
        case _:
            return None


def _unapproved(call: CallTool, policy: ServerPolicy, info: ServerInfo) -> CallError | None:
    """Refuse a call without approval: it was not asked about, or the tool is not what it was then."""
    tool = _tool(info, call)
    if tool is None or (rule := policy.must_agree(tool)) is None or call.approved == form_of(tool):
        return None
    named = f"{shown_name(tool.name)} of {shown_server(info.name)}"
    why = "the rules or the tool have changed while this call waited"
    text = f"{named} runs only when a person agrees ({rule}): {why}. Nothing was sent; call it again."
    details = {"rule": rule}
    error = CallError(Code.NOT_APPROVED, text, server=info.name, tool=tool.name, details=details)
    return _by(rule, error)


def _refusal_of_tier(call: CallTool, info: ServerInfo) -> CallError | None:
    tool = _tool(info, call)
    return not_read_only(tool) if call.read_only and tool is not None and not is_read_only(tool) else None


def _outdated(call: CallTool, policy: ServerPolicy, info: ServerInfo) -> CallError | None:
    """Refuse a call that would be sent as another one than the configuration in force makes of it."""
    tool = _tool(_seen_through(policy, info), call)
    if tool is None or _parts(tool.change) == _parts(call.change):
        return None
    named = f"{shown_name(tool_of(call) or '')} of {shown_server(info.name)}"
    text = f"the configuration of {named} has changed while this call waited; nothing was sent: call it again"
    return CallError(Code.INVALID_ARGUMENTS, text, server=info.name, tool=tool_of(call))


def _parts(change: ToolChange | None) -> tuple[object, ...]:
    return () if change is None else change.by


def _tool(info: ServerInfo, call: CallTool) -> ToolInfo | None:
    return None if info.catalogue is None else info.catalogue.tool_of_server(call.name)


def is_safe(tool: ToolInfo) -> bool:
    """True if the tool says of itself that running it twice does no harm."""
    hints = tool.annotations or {}
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


def not_read_only(tool: ToolInfo) -> CallError:
    """`invalid_arguments`: the tool is not one that query runs."""
    name = f"{shown_name(tool.name)} of {shown_name(tool.server_name)}"
    text = (
        f"{name} is not read-only, and query runs no other; nothing was sent."
        " Call it with exec(server_name, tool_name, arguments)"
    )
    return _by("tiers", CallError(Code.INVALID_ARGUMENTS, text, server=tool.server_name, tool=tool.name))


def _no_resource(uri: str, rule: str | None, policy: ServerPolicy, info: ServerInfo) -> CallError | None:
    if rule is None:
        return None
    return _by(rule, unknown_resource(_seen_through(policy, info), uri, UriRejection.NOT_LISTED))


def _of_prompt(name: str, policy: ServerPolicy, info: ServerInfo) -> CallError | None:
    rule = policy.rule_against_prompt(name)
    return None if rule is None else _by(rule, unknown_prompt(info.name, name))


def _of_completion(ref: bytes, policy: ServerPolicy, info: ServerInfo) -> CallError | None:
    if (about := reference_in(ref)) is None:
        return None
    if about.name is not None:
        return _of_prompt(about.name, policy, info)
    if about.uri is None:
        return None
    rule = policy.rule_against_reference(about.uri, listed=about.uri in info.resources)
    return _no_resource(about.uri, rule, policy, info)


def _by(rule: str, error: CallError) -> CallError:
    error.rule = rule
    return error


def unknown_prompt(server: str, name: str) -> CallError:
    """`upstream_error`: as a server says that it has no prompt of that name. Nothing was sent."""
    said = {"code": INVALID_PARAMS, "message": f"Unknown prompt: {shown_name(name)}"}
    return CallError(
        Code.UPSTREAM_ERROR,
        str(said["message"]),
        server=server,
        details={"upstream": said},
        outcome=Outcome.NOT_SENT,
    )


def _seen_through(policy: ServerPolicy, info: ServerInfo) -> ServerInfo:
    """The server as the clients of the policy see it; `info` is seen through the server's own."""
    return replace(info, catalogue=policy.narrowed(info.catalogue))

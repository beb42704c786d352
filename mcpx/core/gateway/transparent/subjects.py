"""The subject of a client's request: the tool, resource, prompt or task that rules are about. Pure.

Parsers differ: of a member that stands twice some take the first and some the last, and some take `Name` for
`name`. So that the server reads the name that was checked by the rules, a request that is held against them
goes on with each such member once, and is refused where it has another spelling of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, get_args

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS
from msgspec.structs import replace

from mcpx.core.policy.policy import Kind
from mcpx.core.servers.passthrough.messages import NOTHING, Members, members_of, value_of
from mcpx.core.wire import envelope

TOOLS_CALL: Final = "tools/call"
LISTEN: Final = "subscriptions/listen"
KINDS: Final = get_args(Kind)
COMPLETE: Final = "completion/complete"
_URIS: Final = "resourceSubscriptions"
_MEMBERS: Final = {
    TOOLS_CALL: "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "prompts/get": "name",
    COMPLETE: "ref",
    LISTEN: "notifications",
    "tasks/get": "taskId",
    "tasks/result": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member that says what each request is about."""
METHODS: Final = frozenset(_MEMBERS)
_GUARDED: Final = METHODS | {
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The names in a request. `members` are those of its params, each once."""

    members: Members = {}
    tool: str | None = None
    resource: str | None = None
    template: str | None = None
    prompt: str | None = None
    task: str | None = None
    subscriptions: tuple[str, ...] = ()
    """The resources whose changes are to be notified (2026-07-28)."""

    def params(self) -> bytes:
        """The params to send: nothing in them can be read in another way."""
        return envelope.encode(self.members)

    def without_subscriptions(self, uris: Collection[str]) -> Subject:
        """A subscriptions/listen without those resources."""
        wanted = members_of(self.members["notifications"])
        kept = tuple(uri for uri in self.subscriptions if uri not in uris)
        wanted[_URIS] = msgspec.Raw(envelope.encode(kept))
        members = self.members | {"notifications": msgspec.Raw(envelope.encode(wanted))}
        return replace(self, members=members, subscriptions=kept)


NAMELESS: Final = Subject()


def is_misspelt(method: str) -> bool:
    """Return True if a lenient server may take a method for one of those that rules are about."""
    return method not in _GUARDED and method.strip().casefold() in _GUARDED


def subject_of(method: str, params: msgspec.Raw | bytes) -> Subject:
    """Read what a request of one of the `METHODS` names.

    Raises:
        MCPError: Its params name nothing, or not in one way only.
    """
    member = _MEMBERS[method]
    members = _unambiguous(params, method, (member,))
    if member == "ref":
        return _reference(members)
    if member == "notifications":
        return _subscriptions(members)
    named = _text(members.get(member), method, member)
    if member == "uri":
        return Subject(members=members, resource=named)
    if member == "taskId":
        return Subject(members=members, task=named)
    if method == TOOLS_CALL:
        return Subject(members=members, tool=named)
    return Subject(members=members, prompt=named)


def kinds_of(method: str) -> tuple[Kind, ...]:
    """Return the kinds of things that requests of a method are about, lists included."""
    kind, _, _ = method.partition("/")
    if kind == "completion":
        return ("prompts", "resources")
    if kind == "prompts":
        return ("prompts",)
    return ("resources",) if kind in {"resources", "subscriptions"} else ("tools",)


def _reference(members: Members) -> Subject:
    """Read what a completion is for, whatever the reference says of its type."""
    ref = _unambiguous(members.get("ref", NOTHING), COMPLETE, ("type", "name", "uri"))
    prompt, template = (
        _text(ref[name], COMPLETE, name) if _is_given(ref, name) else None for name in ("name", "uri")
    )
    if prompt is None and template is None:
        raise _invalid(COMPLETE, "ref must name a prompt or a resource")
    members["ref"] = msgspec.Raw(envelope.encode(ref))
    return Subject(members=members, prompt=prompt, template=template)


def _subscriptions(members: Members) -> Subject:
    wanted = _unambiguous(members.get("notifications", NOTHING), LISTEN, (_URIS,))
    uris = value_of(wanted[_URIS]) if _is_given(wanted, _URIS) else []
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise _invalid(LISTEN, f"{_URIS} must be an array of strings")
    members["notifications"] = msgspec.Raw(envelope.encode(wanted))
    return Subject(members=members, subscriptions=tuple(uris))


def _unambiguous(raw: msgspec.Raw | bytes, method: str, wanted: Iterable[str]) -> Members:
    """The members of an object, each once, none of which may be taken for a wanted one."""
    members = members_of(raw)
    for name in wanted:
        folded = name.casefold()
        if any(each != name and each.casefold() == folded for each in members):
            raise _invalid(method, f"a member may be taken for {name}")
    return members


def _text(raw: msgspec.Raw | None, method: str, member: str) -> str:
    value = value_of(raw)
    if not isinstance(value, str):
        raise _invalid(method, f"{member} must be a string")
    return value


def _is_given(members: Members, name: str) -> bool:
    return name in members and bytes(members[name]) != b"null"


def _invalid(method: str, problem: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"Invalid params of {method}: {problem}")

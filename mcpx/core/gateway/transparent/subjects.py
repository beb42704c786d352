"""What a client's request names: the tool, resource, prompt or task that rules are about. Pure.

Parsers differ: of a member that stands twice some take the first and some the last, and some take `Name` for
`name`. So that the server reads the name that was held against the rules, a request that is held against them
goes on with each such member once, and is refused where it has another spelling of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, get_args

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.policy.policy import Kind, ServerPolicy
from mcpx.core.servers.passthrough.messages import NOTHING, Members, members_of, value_of
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.wire import envelope

# What the server behind a transparent endpoint has listed, there and on its own session.
#
# The clients of an endpoint may be the first, or the only ones, that a server lists anything to.

MAX_LISTED: Final = 10_000  # tools and prompts of pages that clients have got
MAX_TASK_BYTES: Final = 64 << 10  # of a result that is a task
MAX_TASKS: Final = 10_000  # whose tools are known
_TASK_ID: Final = b'"taskId"'


class Offered:
    """What the server of an endpoint offers. `upstream` gives it as it is shown there, or None."""

    def __init__(self, server: str, upstream: Callable[[], VisibleServer | None]) -> None:
        self.server = server
        self.upstream = upstream
        self._tools: dict[
            str, ToolInfo
        ] = {}  # as clients of the endpoint have had them listed, before any rule
        self._prompts: set[str] = set()
        self._tasks: dict[str, str] = {}  # the tool of each

    @property
    def policy(self) -> ServerPolicy | None:
        """The policy of the server."""
        upstream = self.upstream()
        return None if upstream is None else upstream.policy

    @property
    def catalogue(self) -> Catalogue | None:
        """What the server's own session has listed, in this life or the last, as it is shown."""
        upstream = self.upstream()
        return None if upstream is None else upstream.catalogue

    @property
    def is_listed(self) -> bool:
        """Whether the server's own session has listed in this life."""
        known = self.catalogue
        return known is not None and known.generation > 0

    # --- tools and prompts

    def note_page(self, page: Catalogue) -> None:
        """Take in what a client has got of a list, before any rule."""
        if len(self._tools) < MAX_LISTED:
            self._tools |= page.tools
        if len(self._prompts) < MAX_LISTED:
            self._prompts |= {prompt.name for prompt in page.prompts}

    def may_have_tool(self, name: str) -> bool:
        """Whether there may be such a tool: it was listed, or it is not known which there are."""
        known = self.catalogue
        if name in self._tools or known is None or not self.is_listed or not known.tools:
            return True
        return name in known.tools

    def may_have_prompt(self, name: str) -> bool:
        """As `may_have_tool`, for a prompt."""
        known = self.catalogue
        if name in self._prompts or known is None or not self.is_listed or not known.prompts:
            return True
        return any(each.name == name for each in known.prompts)

    def forms_of(self, name: str) -> list[ToolInfo]:
        """A tool as it is shown, by what was listed on the server's own session and at the endpoint.

        One that was not listed says nothing of itself.
        """
        known, policy, own = self.catalogue, self.policy, self._tools.get(name)
        forms = [known.tools[name]] if known is not None and name in known.tools else []
        if own is not None and policy is not None:
            forms += policy.shown_page(Catalogue(generation=0, tools={name: own})).tools.values()
        return forms or [ToolInfo(server_name=self.server, name=name, input_schema={})]

    # --- resources

    def rule_against(self, uri: str) -> str | None:
        """The rule by which there is no resource with that URI; None where there may be one."""
        known, policy = self.catalogue, self.policy
        listed = known is not None and uri in known.resources
        return None if policy is None else policy.rule_against_resource(uri, listed=listed)

    # --- tasks

    def note_task(self, result: msgspec.Raw, tool: str) -> None:
        """Remember the tool of a task that a call was answered with."""
        if len(memoryview(result)) > MAX_TASK_BYTES or _TASK_ID not in bytes(result):
            return
        members = members_of(result)
        task = value_of((members_of(members["task"]) if "task" in members else members).get("taskId"))
        if isinstance(task, str):
            self._tasks.pop(task, None)
            self._tasks[task] = tool
            if len(self._tasks) > MAX_TASKS:
                del self._tasks[next(iter(self._tasks))]

    def rule_against_task(self, task: Any) -> str | None:
        """The rule against the tool of a task; None where there is none, or the tool is not known."""
        policy, tool = self.policy, self._tasks.get(task) if isinstance(task, str) else None
        return None if policy is None or tool is None else policy.rule_against_tool(tool)


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
    """What a request names. `members` are those of its params, each once."""

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
    """Whether a lenient server may take a method for one of those that rules are about."""
    return method not in _GUARDED and method.strip().casefold() in _GUARDED


def subject_of(method: str, params: msgspec.Raw | bytes) -> Subject:
    """What a request of one of the `METHODS` names.

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
    """What requests of a method are about, lists included."""
    kind, _, _ = method.partition("/")
    if kind == "completion":
        return ("prompts", "resources")
    if kind == "prompts":
        return ("prompts",)
    return ("resources",) if kind in {"resources", "subscriptions"} else ("tools",)


def _reference(members: Members) -> Subject:
    """What a completion is for, whatever the reference says of its type."""
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

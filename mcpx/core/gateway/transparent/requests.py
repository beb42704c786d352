"""A client's request at a transparent endpoint: what it names, its failure as an answer, and its records.

Rules are about the tool, resource, prompt or task that a request names. Parsers differ: of a member that
stands twice some take the first and some the last, and some take `Name` for `name`. So that the server reads
the name that was checked by the rules, a request that they are about goes on with each such member once, and
is refused where it has another spelling of one.

A traced request gets `traceparent` in its `_meta`, and else passes as it came. Methods that are not known,
and those of a connection's opening, are not traced, so that nothing is added to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.lists import LISTS
from mcpx.core.config import Transport as ServerTransport
from mcpx.core.events.records import Kind as RecordKind
from mcpx.core.events.records import Record, Records
from mcpx.core.gateway.tracing import client_attributes
from mcpx.core.policy.policy import Kind
from mcpx.core.policy.tokens import NamedToken
from mcpx.core.protocol.call_trace import CallTrace
from mcpx.core.protocol.context import Origin, Transport, client_text, name_kept
from mcpx.core.protocol.requests import Passed
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.passthrough.messages import (
    NOTHING,
    Members,
    error_answer,
    members_of,
    result_of,
    value_of,
)
from mcpx.core.system.users import this_user
from mcpx.core.telemetry.contained import contain
from mcpx.core.telemetry.tracing import Tracing, target_in
from mcpx.core.wire import envelope
from mcpx.core.wire.enclosed import enclose
from mcpx.core.wire.envelope import CLIENT_INFO_META_KEY, INTERNAL_ERROR, INVALID_PARAMS, MCPError
from mcpx.errors import CallError, Code, Outcome, internal_error
from supervisors import Reply

# --- what it names

TOOLS_CALL: Final = "tools/call"
LISTEN: Final = "subscriptions/listen"
KINDS: Final = get_args(Kind)
COMPLETE: Final = "completion/complete"
GET_SKILL: Final = "skills/get"
DIRECTORY: Final = "resources/directory/read"
OF_SKILLS: Final = frozenset({GET_SKILL, DIRECTORY})
_URIS: Final = "resourceSubscriptions"
_MEMBERS: Final = {
    TOOLS_CALL: "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    DIRECTORY: "uri",
    GET_SKILL: "uri",
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
_GUARDED: Final = METHODS | LISTS.keys() | {"tasks/list"}


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
    return ("resources",) if kind in {"resources", "subscriptions", "skills"} else ("tools",)


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


# --- failures


class NotAdmitted(CallError):
    """A request for what the rules of a person do not admit. `response` is what its client gets."""

    def __init__(
        self, response: MCPError, code: Code, *, server: str, tool: str | None = None, rule: str | None = None
    ) -> None:
        super().__init__(code, response.message, server=server, tool=tool)
        self.response = response
        self.rule = rule


def as_call_error(
    error: BaseException, server: str, method: str, outcome: Outcome = Outcome.UNKNOWN
) -> CallError:
    """An exception that the handling of a request raised, as the error for its client.

    One that is no CallError is a fault of MCPX: it is logged.
    """
    if isinstance(error, CallError):
        return error
    contain(error, "transparent", server=server, method=method)
    return internal_error(error, server=server, outcome=outcome)


def to_mcp_error(error: CallError) -> MCPError:
    """The error for the client: code, outcome and details are its data, where it is one of MCPX's."""
    if isinstance(error, NotAdmitted):
        return error.response
    data: dict[str, Any] = error.to_dict()
    del data["error"]  # it is the message
    return MCPError(INTERNAL_ERROR, str(error), data)


def to_answer(error: CallError) -> msgspec.Raw:
    """The same as an answer (`mcpx.core.protocol.requests.OnAnswer`)."""
    return error_answer(to_mcp_error(error))


def error_in(answer: msgspec.Raw) -> MCPError:
    """The server's error in an answer, its data enclosed (`mcpx.core.wire.enclosed`)."""
    error = members_of(members_of(b"{" + bytes(answer) + b"}").get("error", NOTHING))
    code, message = value_of(error.pop("code", None)), value_of(error.pop("message", None))
    data = error.pop("data", None)
    more = [
        piece for name, value in error.items() for piece in (b",", envelope.encode(name), b":", bytes(value))
    ]
    return MCPError(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "the server's error is not a JSON-RPC error",
        # members that the SDK's error has no place for follow on the data, which is the last that it writes
        enclose([bytes(data or b"null"), *more]) if data or more else None,
    )


# --- records

_KINDS: Final[dict[str, RecordKind]] = {
    "tools/call": "tool",
    "resources/read": "resource",
    "resources/subscribe": "resource",
    DIRECTORY: "resource",
    GET_SKILL: "resource",
    "prompts/get": "prompt",
    "completion/complete": "completion",
    "tasks/result": "task",
    "tasks/update": "task",
    "tasks/cancel": "task",
}
_ANSWERS: Final = frozenset({"inputResponses", "requestState"})
"""The members by which a client comes back with answers."""
AUDITED: Final = frozenset(_KINDS)
"""The methods whose requests are written. How often a client asks for a task is nobody's matter."""


def begin(
    records: Records, server: str, method: str, subject: Subject, origin: Origin, *, trace: CallTrace | None
) -> Record:
    """Record that a request begins.

    Raises:
        CallError: `overloaded`: it has to be in the audit log, and cannot.
    """
    names = subject.tool, subject.resource, subject.prompt, subject.template, subject.task
    name = next((each for each in names if each is not None), "")
    if not _ANSWERS.isdisjoint(subject.members):
        records.goes_on(_KINDS[method], server, name, origin)
    arguments = subject.members.get("arguments", NOTHING)
    trace_id = None if trace is None else trace.trace_id
    return records.begin(_KINDS[method], server, name, arguments, origin, trace_id=trace_id)


def observe(record: Record, reply: Reply[msgspec.Raw], server: str) -> None:
    """Have the record note how a request ends whose reply is a whole answer."""

    def settled(answered: Reply[msgspec.Raw]) -> None:
        noted: Reply[Any] = Reply()
        noted.observer = record
        if answered.error is not None:
            noted.reject(answered.error)
        elif (result := result_of(answered.value or NOTHING)) is not None:
            noted.resolve(result)
        else:
            noted.reject(CallError(Code.UPSTREAM_ERROR, "the server answered with an error", server=server))

    reply.observe(settled)


def origin_of(
    transport: Transport, client: bytes, params: msgspec.Raw | bytes, token: NamedToken | None
) -> Origin:
    """Return who is behind a request. `client` is what it said of itself in its handshake, if any."""
    about = msgspec.Raw(client)
    if CLIENT_INFO_META_KEY.encode() in bytes(params):
        about = members_of(members_of(params).get("_meta", NOTHING)).get(CLIENT_INFO_META_KEY, NOTHING)
    info = value_of(about) if about else None
    name, version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)
    name = name if isinstance(name, str) else None
    return Origin(
        transport=transport,
        client=client_text(name, version if isinstance(version, str) else None),
        name=name_kept(name),
        user=this_user(),
        profile=None if token is None else token.profile,
        token=None if token is None else token.name,
    )


TRACED: Final = AUDITED | LISTS.keys()


def traced(
    tracing: Tracing,
    request: Passed,
    reply: RawReply,
    *,
    server: str,
    transport: ServerTransport | None,
    origin: Origin,
) -> Passed:
    """The request with its spans, which end when it is settled."""
    if request.method not in TRACED:
        return request
    members = members_of(request.raw)
    carrier = {key: value_of(raw) for key, raw in members_of(members.get("_meta", NOTHING)).items()}
    target = target_in({key: value_of(members[key]) for key in ("name", "uri") if key in members})
    about = client_attributes(origin, request.id, None)
    served = tracing.serve(request.method, target, carrier, about)
    trace = CallTrace(
        tracing,
        served,
        method=request.method,
        target=target,
        server=server,
        transport=transport,
        is_whole=True,
    )

    def settled(answered: Reply[Any]) -> None:
        trace.settled(answered)
        served.end()

    reply.observe(settled)
    return replace(request, context=replace(request.context, trace=trace))

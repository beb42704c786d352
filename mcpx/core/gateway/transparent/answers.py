"""Answers and notifications of a server at its transparent endpoint, as the client gets them.

Of the lists only what is admitted is shown, in the form that is in force: an entry that is shown as the
server gave it keeps its bytes, of one whose annotations are overridden only these are replaced, one that
cannot be read is not shown. Pages stay pages: cursors are the server's own, and a page may be empty.
Notifications about a resource that is not admitted are dropped.

What a server lists and says of itself is compared with what is pinned. Its session here is one of its own,
perhaps the only one: what differs here is a change like any other.

Where no rule is set, everything passes as it is, but for pictures that a client is known not to take.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.lists import LISTS, RESOURCES, SKILLS, TOOLS, ListKind
from mcpx.core.catalog.model import Catalogue, Entry, ToolInfo
from mcpx.core.config import ServerConfig
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.known_clients import known_client
from mcpx.core.gateway.transparent.requests import COMPLETE, DIRECTORY, GET_SKILL, kinds_of
from mcpx.core.gateway.transparent.rules import Offered
from mcpx.core.policy.pin_record import Pinned, entries_of
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.rules import admitted_completion
from mcpx.core.protocol.context import ClientId
from mcpx.core.protocol.messages import Read
from mcpx.core.protocol.requests import Passed, RequestContext
from mcpx.core.protocol.result_address import PREFIX as KEPT_RESULTS
from mcpx.core.protocol.result_address import ResultAddress, read_address
from mcpx.core.rendering.pictures import PictureLimits, may_hold_pictures, mentions_picture
from mcpx.core.servers.offers.entries import MAX_TEXT_CHARS, InvalidEntry, read_entry
from mcpx.core.servers.offers.pages import decode_entry
from mcpx.core.servers.passthrough.messages import (
    NOTHING,
    Members,
    elements_of,
    members_of,
    result_answer,
    result_of,
    value_of,
)
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import SERVER_INFO_META_KEY
from mcpx.core.wire.intake import INTAKE

GREETINGS: Final = frozenset({"initialize", "server/discover"})
_LIKE_LISTS: Final[dict[str, ListKind[Any]]] = {DIRECTORY: RESOURCES, GET_SKILL: SKILLS}
"""Other requests that are answered with entries of a list; a skill by itself."""
_PINNED: Final = frozenset({TOOLS.method, SKILLS.method})
UPDATED: Final = "notifications/resources/updated"
TASK_STATUS: Final = "notifications/tasks/status"
TASKS_LIST: Final = "tasks/list"
READ: Final = "resources/read"
WITH_PICTURES: Final = frozenset({"tools/call", READ, "tasks/result"})
"""Methods whose results may hold pictures."""
_KEPT: Final = KEPT_RESULTS.encode()
_OF_RESULT: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Members of a result of 2026-07-28, beside those that it is about."""
MAX_TOOLS: Final = 10_000  # of a server that was never seen, whose pages are pinned together

Show = Callable[[Catalogue], Catalogue]
"""Returns what is shown of a catalogue: the very entries of it, others in place of some, or fewer."""


class Answers:
    """Answers and notifications of one endpoint. `pins_changed`: what waits for approval has changed."""

    def __init__(self, offered: Offered, pins_changed: Callable[[], None]) -> None:
        self.pinned = PinnedPages(pins_changed)
        self._offered = offered

    def shown(self, request: Passed, answer: msgspec.Raw) -> msgspec.Raw:
        """Return the answer to a request as its client gets it."""
        result, method = result_of(answer), request.method
        if result is None:
            return answer
        if request.tool is not None:
            self._offered.note_task(result, request.tool)
            return answer
        if (kind := LISTS.get(method) or _LIKE_LISTS.get(method)) is not None:
            shown = self._page(kind, request, result)
        elif method in GREETINGS:
            shown = self._greeting(result)
        elif method == COMPLETE:
            shown = self._completion(request, result)
        elif method == TASKS_LIST:
            shown = self._tasks(result)
        else:
            return answer
        return answer if shown is result else result_answer(shown)

    def _greeting(self, result: msgspec.Raw) -> msgspec.Raw:
        """Return what the server says of itself, as it was approved."""
        policy = self._offered.policy
        if policy is None or policy.pins is None or not policy.pins.is_active:
            return result
        about = about_in(result)
        self.pinned.note_greeting(policy.pins, about)
        shown = policy.shown_page(about)
        return result if shown is about else as_approved(result, about, shown)

    def _page(self, kind: ListKind[Any], request: Passed, result: msgspec.Raw) -> msgspec.Raw:
        policy, method = self._offered.policy, request.method
        if policy is None:
            return result
        strict = any(map(policy.restricts, kinds_of(method)))
        if not (strict or (method in _PINNED and policy.reads_tools)):
            return result

        def show(page: Catalogue) -> Catalogue:
            self._offered.note_page(page)
            if method in _PINNED and policy.pins is not None:
                self.pinned.note_page(policy.pins, request, result, entries_of(page))
            return policy.shown_page(page)

        if method != GET_SKILL:
            return shown_page(kind, result, self._offered.server, show, strict=strict)
        members = members_of(result)
        page = msgspec.Raw(
            envelope.encode({kind.key: [members.get("skill", NOTHING) or msgspec.Raw(b"null")]})
        )
        listed = members_of(shown_page(kind, page, self._offered.server, show, strict=strict))[kind.key]
        return _with(members, skill=next(iter(elements_of(listed)), None))

    def _completion(self, request: Passed, result: msgspec.Raw) -> msgspec.Raw:
        """Return the values for an argument of a template that make no resource that is not admitted."""
        policy, members = self._offered.policy, members_of(result)
        if policy is None or not policy.restricts_resources or "completion" not in members:
            return result
        params = members_of(request.raw)
        template = value_of(members_of(params.get("ref", NOTHING)).get("uri"))
        argument = value_of(members_of(params.get("argument", NOTHING)).get("name"))
        resolved = value_of(members_of(params.get("context", NOTHING)).get("arguments"))
        if not isinstance(template, str) or not isinstance(argument, str):
            return result
        given = {"completion": value_of(members["completion"])}
        known = resolved if isinstance(resolved, dict) else {}
        shown = admitted_completion(given, policy, template, argument, known)
        return result if shown is given else _with(members, completion=shown["completion"])

    def _tasks(self, result: msgspec.Raw) -> msgspec.Raw:
        policy, members = self._offered.policy, members_of(result)
        tasks = value_of(members.get("tasks"))
        if policy is None or not policy.restricts("tools") or not isinstance(tasks, list):
            return result
        kept = [task for task in tasks if isinstance(task, dict) and self._admits_task(task.get("taskId"))]
        return _with(members, tasks=kept)

    def admits(self, method: str, params: msgspec.Raw) -> bool:
        """Return True if a notification of the server may go to the clients."""
        if method == UPDATED:
            policy = self._offered.policy
            if policy is None or not policy.restricts("resources"):
                return True
            uri = value_of(members_of(params).get("uri"))
            return isinstance(uri, str) and self._offered.rule_against(uri) is None
        return method != TASK_STATUS or self._admits_task(value_of(members_of(params).get("taskId")))

    def _admits_task(self, task: object) -> bool:
        return self._offered.rule_against_task(task) is None


def _with(members: Members, **values: object) -> msgspec.Raw:
    """Return an object with other values of some members."""
    encoded = {name: msgspec.Raw(envelope.encode(value)) for name, value in values.items()}
    return msgspec.Raw(envelope.encode(members | encoded))


# --- pictures


class Pictures:
    """Pictures in answers to clients that are known not to take all of them; to others all pass as they are.

    What does not fit is scaled, and the original is kept for the client under an address that the answer
    names. Only reads of such an address do not go to the server.
    """

    def __init__(self, hub: Hub, server: str) -> None:
        self._hub = hub
        self._server = server

    @staticmethod
    def may_be_in(request: Passed, answer: msgspec.Raw) -> bool:
        """Return True if an answer mentions a picture."""
        return request.method in WITH_PICTURES and mentions_picture(INTAKE.looked_at(answer)) is not None

    def fitting(
        self, answer: msgspec.Raw, name: str | None, client: ClientId
    ) -> Callable[[], Awaitable[msgspec.Raw]] | None:
        """Return what makes the pictures fit for a client of that name; None where they need not."""
        known, config, result = known_client(name), self._config(), result_of(answer)
        if known is None or known.pictures is None or config is None or config.fit_images == "never":
            return None
        if result is None or not may_hold_pictures(result):
            return None
        read = Read(self._server, "", RequestContext(client=client))
        return partial(self._fit, result, read, known.pictures)

    def _config(self) -> ServerConfig | None:
        return self._hub.config.servers.get(self._server)

    async def _fit(self, result: msgspec.Raw, read: Read, limits: PictureLimits) -> msgspec.Raw:
        return result_answer(await self._hub.views.large.fitted(result, read, limits, as_resource=True))

    def kept(self, request: Passed, client: ClientId) -> ResultAddress | None:
        """The original of a picture that a request of a client reads; None for any other request."""
        if request.method != READ or _KEPT not in bytes(request.raw):
            return None
        uri = value_of(members_of(request.raw).get("uri"))
        address = read_address(uri) if isinstance(uri, str) else None
        return address if address is not None and self._hub.views.has(address, client) else None

    async def read(
        self, address: ResultAddress, request: Passed, client: ClientId, *, modern: bool
    ) -> msgspec.Raw:
        """The answer to a request that reads it.

        Raises:
            CallError: There is nothing at that place of it.
        """
        uri = str(value_of(members_of(request.raw)["uri"]))
        contents = await self._hub.views.contents(uri, address, client)
        return result_answer(envelope.encode((_OF_RESULT if modern else {}) | {"contents": contents}))


# --- pages of lists


def shown_page(
    kind: ListKind[Any], result: msgspec.Raw, server: str, show: Show, *, strict: bool
) -> msgspec.Raw:
    """Return a page with what is shown of it; the very same where that is all.

    If it is not `strict`, one that is shown as it is keeps its bytes, whatever else is in it.
    """
    key, members = kind.key, members_of(result)
    entries = _entries(members.get(key, NOTHING), kind.info, server)
    offered = show(kind.catalogue_of(info for _, info in entries))
    shown = {kind.key_of(info): info for info in kind.entries_of(offered)}
    if not strict and all(shown.get(kind.key_of(info)) is info for _, info in entries):
        return result
    kept = [
        _encoded(raw, info, held) for raw, info in entries if (held := shown.pop(kind.key_of(info), None))
    ]
    folded = key.casefold()
    rest = {name: raw for name, raw in members.items() if name.casefold() != folded}
    listed = msgspec.Raw(b"[" + b",".join(kept) + b"]")
    ordered = {name: listed if name == key else rest[name] for name in members if name == key or name in rest}
    return msgspec.Raw(envelope.encode({key: listed} | ordered))


def _entries(listed: msgspec.Raw, kind: type[Entry], server: str) -> list[tuple[msgspec.Raw, Entry]]:
    """Read the entries that can be read, with the bytes of each."""
    found: list[tuple[msgspec.Raw, Entry]] = []
    for raw in elements_of(listed):
        try:
            decoded, _ = decode_entry(bytes(raw))
            found.append((raw, read_entry(kind, server, decoded)[0]))
        except InvalidEntry:
            continue
    return found


def _encoded(raw: msgspec.Raw, given: Entry, shown: Entry) -> bytes:
    """Encode an entry as it is shown, each member once: one that stands twice can be read in two ways."""
    if shown is given:
        return envelope.encode(members_of(raw))
    if isinstance(given, ToolInfo) and isinstance(shown, ToolInfo):
        members = members_of(raw)
        members.pop("annotations", None)
        if replace(shown, annotations=given.annotations) == given:
            if shown.annotations is not None:
                members["annotations"] = msgspec.Raw(envelope.encode(shown.annotations))
            return envelope.encode(members)
    return envelope.encode(shown.to_protocol())


# --- pins


class PinnedPages:
    """The pages of tools that clients of an endpoint get. `changed` is called when other things wait."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.compared = False
        """True once any tools were compared with their pins."""
        self._about: Catalogue | None = None  # what the server says of itself, and nothing else
        self._changed = changed
        self._listed: dict[str, dict[str, Pinned]] = {}  # by the method that lists them

    def note_greeting(self, pins: ServerPins, about: Catalogue) -> None:
        """Take in what the server says of itself."""
        self._about = about
        if pins.record.state != "unseen":
            self._note(pins, {})

    def note_page(
        self, pins: ServerPins, request: Passed, result: msgspec.Raw, page: dict[str, Pinned]
    ) -> None:
        """Take in a page. What is seen of a server for the first time is pinned together, at the last."""
        if not pins.is_active:
            return
        skills = request.method == SKILLS.method
        listed = self._listed.get(request.method, {}) if "cursor" in members_of(request.raw) else {}
        if len(listed) < MAX_TOOLS:
            listed = listed | page
        self._listed[request.method] = listed
        self.compared |= not skills
        is_last = value_of(members_of(result).get("nextCursor")) is None
        if pins.record.state == "unseen" or (skills and not pins.record.skills_seen):
            if is_last:
                self._note(pins, listed, skills=skills)
        else:
            self._note(pins, page, skills=skills)

    def _note(self, pins: ServerPins, listed: dict[str, Pinned], *, skills: bool = False) -> None:
        before = pins.changes()
        pins.note_part(listed, self._about, skills=skills)
        if pins.changes() != before:
            self._changed()


def about_in(result: msgspec.Raw) -> Catalogue:
    """Read what a server says of itself in its answer to `initialize` or `server/discover`."""
    members = members_of(result)
    info = members.get("serverInfo")
    if info is None:
        info = members_of(members.get("_meta", NOTHING)).get(SERVER_INFO_META_KEY)
    named = value_of(info)
    name, title = (named.get("name"), named.get("title")) if isinstance(named, dict) else (None, None)
    return Catalogue(
        generation=0,
        implementation=_text(name),
        server_title=_text(title) or _text(name),
        instructions=_text(value_of(members.get("instructions"))),
    )


def as_approved(result: msgspec.Raw, about: Catalogue, shown: Catalogue) -> msgspec.Raw:
    """Return the answer with what the server says of itself as it is `shown`, in place of what it said."""
    members = members_of(result)
    if shown.instructions is None:
        members.pop("instructions", None)
    elif shown.instructions != about.instructions:
        members["instructions"] = msgspec.Raw(envelope.encode(shown.instructions))
    if shown.server_title != about.server_title and "serverInfo" in members:
        info = members_of(members["serverInfo"])
        info.pop("title", None)
        if shown.server_title is not None:
            info["title"] = msgspec.Raw(envelope.encode(shown.server_title))
        members["serverInfo"] = msgspec.Raw(envelope.encode(info))
    return msgspec.Raw(envelope.encode(members))


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) and value else None

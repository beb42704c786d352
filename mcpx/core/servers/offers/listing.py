"""Everything a server offers, listed to the end and turned into a `Catalogue`.

Requests the lists that the server declares, and the tools in any case: the official clients request them
without looking at the declaration. A list that is refused, malformed or never answered costs that list, an
invalid entry costs that entry (`offers.entries`), and a server that offers too much is cut (`offers.pages`);
the catalogue names what is left out, the first by name, the rest counted by kind. Whatever else an entry has
is kept as it came.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, TypeVar

import anyio
import structlog

from mcpx.core.catalog import extensions
from mcpx.core.catalog.lists import PROMPTS, RESOURCES, SKILLS, TEMPLATES, TOOLS, ListKind
from mcpx.core.catalog.model import Catalogue, Entry, LeftOut, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.servers.causes import BadListing
from mcpx.core.servers.offers.entries import MAX_TEXT_CHARS, InvalidEntry, read_entry
from mcpx.core.servers.offers.pages import Budget, Pages, decode_entry, name_of
from mcpx.core.servers.session.client_session import PassingSession
from mcpx.core.telemetry.contained import contain
from mcpx.core.text import cut, one_line
from mcpx.core.wire.envelope import METHOD_NOT_FOUND, MCPError
from mcpx.core.wire.outgoing import MalformedMessage, ResponseTooLarge

log = structlog.get_logger()

MAX_NAMED: Final = 20  # of one listing; the rest are counted
MAX_LOGGED: Final = 100  # of one server, however often its lists change
MAX_NAME_CHARS: Final = 64
MAX_REASON_CHARS: Final = 200
OTHER_LIST_TIMEOUT_S: Final = 15.0  # for any list but the tools; at most a quarter of the connect timeout
UNDECLARED_LIST_TIMEOUT_S: Final = 5.0  # for a list that the server does not declare
_FAILURES: Final = (MCPError, BadListing, MalformedMessage, ResponseTooLarge, TimeoutError)
E = TypeVar("E", bound=Entry)


class Omissions:
    """The omissions of one listing."""

    def __init__(self) -> None:
        self._named: list[LeftOut] = []
        self._others: Counter[str] = Counter()

    def note(self, kind: str, reason: str, *, name: str | None = None, count: int = 1) -> None:
        """Note what is left out, or cut.

        `kind` is `tool`, `resource`, `resource template`, `prompt`, `skill` or `instructions`; for a whole
        list, its method.
        """
        if len(self._named) >= MAX_NAMED:
            self._others[kind] += count
            return
        shown = None if name is None else cut(one_line(name[:MAX_REASON_CHARS]), MAX_NAME_CHARS)
        reason = cut(one_line(reason[: 4 * MAX_REASON_CHARS]), MAX_REASON_CHARS)
        self._named.append(LeftOut(kind=kind, name=shown, reason=reason, count=count))

    def all(self) -> tuple[LeftOut, ...]:
        """The omissions in order, then the counts."""
        rest = (
            LeftOut(kind=kind, reason="as others of its kind; only the first are named", count=count)
            for kind, count in self._others.items()
        )
        return (*self._named, *rest)


class OmissionLog:
    """Logs each omission from one server's lists once."""

    def __init__(self, server: str) -> None:
        self._log = log.bind(server=server)
        self._named: set[LeftOut] = set()

    def record(self, left_out: tuple[LeftOut, ...]) -> None:
        """Log those that were not logged before."""
        for each in left_out:
            if each not in self._named and len(self._named) < MAX_LOGGED:
                self._named.add(each)
                self._log.warning("upstream.left_out", **each.to_dict())


Failure = MCPError | BadListing | MalformedMessage | ResponseTooLarge | TimeoutError


class Lister:
    """One listing of one server.

    `limit` is what its lists may have in bytes, `patience` the connect timeout in seconds.
    """

    def __init__(
        self, session: PassingSession, server: str, *, limit: int, patience: float, last: Catalogue | None
    ) -> None:
        self._session = session
        self._server = server
        self._budget = Budget(limit)
        self._patience = min(OTHER_LIST_TIMEOUT_S, patience / 4)
        self._last = last
        self._omissions = Omissions()

    async def list_all(self, generation: int) -> Catalogue:
        """List everything that the server offers.

        Raises:
            MCPError: The connection ended, or the server refused the list of its tools and has nothing else.
            BadListing: The list of tools cannot be used, and the server has nothing else.
            MalformedMessage: That list cannot be decoded, and the server has nothing else.
            ResponseTooLarge: That list is too large, and the server has nothing else.
        """
        session = self._session
        can = session.server_capabilities
        silent = not can  # declares nothing at all
        failure: Failure | None = None
        tools: list[ToolInfo] = []
        try:
            tools = await self._list_tools(declared="tools" in can)
        except _FAILURES as error:
            if self._session.ended:
                raise
            failure = error
        resources, templates = await self._list_resources(declared="resources" in can, ask=silent)
        prompts = await self._optional_list(PROMPTS, declared="prompts" in can, ask=silent)
        skilled = extensions.SKILLS in can.get("extensions", {})
        skills = await self._optional_list(SKILLS, declared=skilled, ask=False)
        if failure is not None:
            if not (resources or templates or prompts or skills):
                raise failure
            tools = self._keep_last(TOOLS, failure)
        about = session.server_info
        return Catalogue(
            generation=generation,
            tools={tool.name: tool for tool in tools},
            resources={item.uri: item for item in resources},
            templates=tuple(templates),
            prompts=tuple(prompts),
            skills=tuple(skills),
            implementation=_cut(about.name or None) if about else None,
            server_title=_cut(about.title or about.name or None) if about else None,
            server_version=_cut(about.version if about else None),
            instructions=self._instructions(),
            protocol_version=session.protocol_version,
            capabilities=can,
            left_out=self._omissions.all(),
        )

    # --- the lists

    async def _list_tools(self, *, declared: bool) -> list[ToolInfo]:
        """The tools; of a server that does not declare them, as an optional list.

        Raises:
            Failure: The list cannot be had.
        """
        if not declared:
            return await self._optional_list(TOOLS, declared=False, ask=True)
        found = await self._read(TOOLS)
        self._session.keep_headers({tool.name for tool in found})
        return found

    async def _list_resources(
        self, *, declared: bool, ask: bool
    ) -> tuple[list[ResourceInfo], list[TemplateInfo]]:
        resources = await self._optional_list(RESOURCES, declared=declared, ask=ask)
        return resources, await self._optional_list(TEMPLATES, declared=declared, ask=bool(resources))

    async def _optional_list(self, kind: ListKind[E], *, declared: bool, ask: bool) -> list[E]:
        """A list without which the others are still of use.

        Raises:
            Failure: The connection has ended.
        """
        if not declared and not ask:
            return []
        try:
            with anyio.fail_after(
                self._patience if declared else min(UNDECLARED_LIST_TIMEOUT_S, self._patience)
            ):
                return await self._read(kind)
        except _FAILURES as error:
            if self._session.ended:
                raise
            unknown = isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND
            # many servers with resources do not know of templates: that means none, and so does silence
            if not declared or (unknown and kind is TEMPLATES):
                return []
            return self._keep_last(kind, error)

    def _keep_last(self, kind: ListKind[E], error: Failure) -> list[E]:
        """Leave a whole list out, and keep what was known of it."""
        known = kind.entries_of(self._last) if self._last is not None else []
        reason = _reason(error, self._patience)
        if known:
            reason += "; what was known of it is kept"
        self._omissions.note(kind.method, reason)
        return known

    async def _read(self, kind: ListKind[E]) -> list[E]:
        pages = Pages(kind.key, lambda cursor: self._session.ask_page(kind.method, cursor), self._budget)
        found: dict[str, E] = {}
        number = 0
        async for entry in pages.entries():
            number += 1
            info = self._entry(kind, entry, number)
            if info is None:
                continue
            if (key := kind.key_of(info)) in found:
                self._omissions.note(kind.word, "it is listed more than once; the first is kept", name=key)
            else:
                found[key] = info
        if pages.incomplete is not None:
            self._note_rest(kind, pages, len(found))
        return list(found.values())

    def _note_rest(self, kind: ListKind[Any], pages: Pages, kept: int) -> None:
        reason = f"{pages.incomplete}; the first {kept:,} are kept"
        if pages.skipped:
            self._omissions.note(kind.word, reason, count=pages.skipped)
        else:
            self._omissions.note(kind.method, reason)

    def _entry(self, kind: ListKind[E], entry: bytes, number: int) -> E | None:
        """One entry; an invalid one is noted and left out."""
        try:
            decoded, changes = decode_entry(entry)
            info, cuts = read_entry(kind.info, self._server, decoded)
            self._check_headers(info)
        except InvalidEntry as error:
            self._omissions.note(kind.word, str(error), name=name_of(entry, number))
            return None
        except Exception as error:  # noqa: BLE001 - the boundary: an entry may hold anything, and costs itself
            contain(error, "entry", server=self._server)
            self._omissions.note(kind.word, "MCPX cannot read it", name=name_of(entry, number))
            return None
        for change in changes + cuts:
            self._omissions.note(kind.word, change, name=name_of(entry, number))
        return info

    def _check_headers(self, info: Entry) -> None:
        if isinstance(info, ToolInfo) and (problem := self._session.header_problem(info)):
            raise InvalidEntry(problem)

    def _instructions(self) -> str | None:
        greeting = self._session.greeting
        text = None if greeting is None else greeting.instructions
        if text is not None and len(text) > MAX_TEXT_CHARS:
            reason = f"they were cut: {MAX_TEXT_CHARS:,} of {len(text):,} characters are kept"
            self._omissions.note("instructions", reason)
        return _cut(text)


def _reason(error: Failure, patience: float) -> str:
    if isinstance(error, MCPError):
        return f"the server refused it: {error.message} ({error.code})"
    return f"no answer within {patience:g} s" if isinstance(error, TimeoutError) else str(error)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_TEXT_CHARS]

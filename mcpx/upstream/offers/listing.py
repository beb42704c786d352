"""Everything a server offers, listed to the end and turned into a `Catalogue`.

Asks for what the server says it has, and for tools in any case: the official clients do not look at what a
server declares before they ask. A list that is refused, odd or never answered costs that list, an odd entry
costs that entry (`upstream.entries`), and a server that offers too much is cut (`upstream.pages`); what is
left out is named in the catalogue. Values of the protocol's own (annotations, icons, `_meta`) are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import anyio
import mcp_types
import msgspec
from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND
from pydantic import BaseModel

from mcpx.catalog.model import JSON, Catalogue, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.observe.contained import contain
from mcpx.upstream.errors import BadListing
from mcpx.upstream.offers import entries
from mcpx.upstream.offers.entries import TEXT_MOST, Odd, Reader
from mcpx.upstream.offers.left_out import Omissions
from mcpx.upstream.offers.pages import Budget, Pages
from mcpx.upstream.session.sdk_session import PassingSession
from mcpx.wire.outgoing import MalformedMessage, ResponseTooLarge

OTHER_LIST_S: Final = 15.0  # for a list that is not the tools; at most a quarter of the connect timeout
UNDECLARED_S: Final = 5.0  # for a list that the server does not say it has

Failure = MCPError | BadListing | MalformedMessage | ResponseTooLarge | TimeoutError
_FAILURES: Final = (MCPError, BadListing, MalformedMessage, ResponseTooLarge, TimeoutError)
E = TypeVar("E", ToolInfo, ResourceInfo, TemplateInfo, PromptInfo)


class _Kind(msgspec.Struct, Generic[E], frozen=True):
    """One of the four lists: how it is asked for, how its entries are read, and where they are kept."""

    word: str
    method: str
    key: str
    read: Callable[[str, Reader], E]
    id_of: Callable[[E], str]
    known: Callable[[Catalogue], list[E]]


TOOLS: Final = _Kind[ToolInfo](
    "tool", "tools/list", "tools", entries.tool, lambda it: it.name, lambda known: [*known.tools.values()]
)
RESOURCES: Final = _Kind[ResourceInfo](
    "resource",
    "resources/list",
    "resources",
    entries.resource,
    lambda it: it.uri,
    lambda known: [*known.resources.values()],
)
TEMPLATES: Final = _Kind[TemplateInfo](
    "resource template",
    "resources/templates/list",
    "resourceTemplates",
    entries.template,
    lambda it: it.uri_template,
    lambda known: [*known.templates],
)
PROMPTS: Final = _Kind[PromptInfo](
    "prompt", "prompts/list", "prompts", entries.prompt, lambda it: it.name, lambda known: [*known.prompts]
)


class Lister:
    """One listing of one server. `limit` is what its lists may have in bytes, `patience` in seconds."""

    def __init__(
        self, session: PassingSession, server: str, *, limit: int, patience: float, last: Catalogue | None
    ) -> None:
        self._session = session
        self._server = server
        self._budget = Budget(limit)
        self._patience = min(OTHER_LIST_S, patience / 4)
        self._last = last
        self._omissions = Omissions()

    async def list_all(self, generation: int) -> Catalogue:
        """List all that the server offers.

        Raises:
            MCPError: The connection ended, or the server refused the list of its tools and has nothing else.
            BadListing: So where that list cannot be used; the same for MalformedMessage and ResponseTooLarge.
        """
        session = self._session
        can = session.server_capabilities or mcp_types.ServerCapabilities()
        silent = not can.model_dump(exclude_none=True)  # says nothing of itself at all
        failure: Failure | None = None
        tools: list[ToolInfo] = []
        try:
            tools = await self._list_tools(declared=can.tools is not None)
        except _FAILURES as error:
            if self._session.ended:
                raise
            failure = error
        resources, templates = await self._list_resources(declared=can.resources is not None, ask=silent)
        prompts = await self._others(PROMPTS, declared=can.prompts is not None, ask=silent)
        if failure is not None:
            if not (resources or templates or prompts):
                raise failure
            tools = self._lost(TOOLS, failure)
        about = session.server_info
        return Catalogue(
            generation=generation,
            tools={tool.name: tool for tool in tools},
            resources={item.uri: item for item in resources},
            templates=tuple(templates),
            prompts=tuple(prompts),
            server_title=_cut(about.title or about.name or None) if about else None,
            server_version=_cut(about.version if about else None),
            instructions=self._instructions(),
            protocol_version=session.protocol_version,
            capabilities=_json(can) or {},
            left_out=self._omissions.all(),
        )

    # --- the lists

    async def _list_tools(self, *, declared: bool) -> list[ToolInfo]:
        """The tools. Raises what befell the list, but for a server that never said that it has one."""
        if not declared:
            return await self._others(TOOLS, declared=False, ask=True)
        found = await self._read(TOOLS)
        self._session.keep_headers({tool.name for tool in found})
        return found

    async def _list_resources(
        self, *, declared: bool, ask: bool
    ) -> tuple[list[ResourceInfo], list[TemplateInfo]]:
        resources = await self._others(RESOURCES, declared=declared, ask=ask)
        return resources, await self._others(TEMPLATES, declared=declared, ask=bool(resources))

    async def _others(self, kind: _Kind[E], *, declared: bool, ask: bool) -> list[E]:
        """A list that the others do not hang on. Raises MCPError where the connection has ended."""
        if not declared and not ask:
            return []
        try:
            with anyio.fail_after(self._patience if declared else min(UNDECLARED_S, self._patience)):
                return await self._read(kind)
        except _FAILURES as error:
            if self._session.ended:
                raise
            unknown = isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND
            # many servers with resources do not know of templates: that means none, and so does silence
            if not declared or (unknown and kind is TEMPLATES):
                return []
            return self._lost(kind, error)

    def _lost(self, kind: _Kind[E], error: Failure) -> list[E]:
        """A whole list is left out; what was known of it is kept."""
        known = kind.known(self._last) if self._last is not None else []
        reason = _told(error, self._patience)
        if known:
            reason += "; what was known of it is kept"
        self._omissions.note(kind.method, reason)
        return known

    async def _read(self, kind: _Kind[E]) -> list[E]:
        pages = Pages(kind.key, lambda cursor: self._session.ask_page(kind.method, cursor), self._budget)
        found: dict[str, E] = {}
        number = 0
        async for entry in pages.entries():
            number += 1
            info = self._entry(kind, entry, number)
            if info is None:
                continue
            if (key := kind.id_of(info)) in found:
                self._omissions.note(kind.word, "it is listed more than once; the first is kept", name=key)
            else:
                found[key] = info
        if pages.why is not None:
            self._note_rest(kind, pages, len(found))
        return list(found.values())

    def _note_rest(self, kind: _Kind[Any], pages: Pages, kept: int) -> None:
        reason = f"{pages.why}; the first {kept:,} are kept"
        if pages.unread:
            self._omissions.note(kind.word, reason, count=pages.unread)
        else:
            self._omissions.note(kind.method, reason)

    def _entry(self, kind: _Kind[E], entry: bytes, number: int) -> E | None:
        """One entry; what is odd is noted and left out."""
        try:
            read = Reader(entries.decoded(entry))
            info = kind.read(self._server, read)
            self._check_headers(info)
        except Odd as odd:
            self._omissions.note(kind.word, str(odd), name=entries.name_of(entry, number))
            return None
        except Exception as error:  # noqa: BLE001 - the boundary: an entry may hold anything, and costs itself
            contain(error, "entry", server=self._server)
            self._omissions.note(kind.word, "MCPX cannot read it", name=entries.name_of(entry, number))
            return None
        for cut in read.cuts:
            self._omissions.note(kind.word, cut, name=entries.name_of(entry, number))
        return info

    def _check_headers(self, info: ToolInfo | ResourceInfo | TemplateInfo | PromptInfo) -> None:
        if isinstance(info, ToolInfo) and (problem := self._session.header_problem(info)):
            raise Odd(problem)

    def _instructions(self) -> str | None:
        text = self._session.instructions
        if text is not None and len(text) > TEXT_MOST:
            reason = f"they were cut: {TEXT_MOST:,} of {len(text):,} characters are kept"
            self._omissions.note("instructions", reason)
        return _cut(text)


def _told(error: Failure, patience: float) -> str:
    if isinstance(error, MCPError):
        return f"the server refused it: {error.message} ({error.code})"
    return f"no answer within {patience:g} s" if isinstance(error, TimeoutError) else str(error)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:TEXT_MOST]


def _json(model: BaseModel | None) -> JSON | None:
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_none=True)

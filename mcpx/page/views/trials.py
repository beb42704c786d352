"""Trying what servers offer: a tool, a resource or a prompt, by the way that every call takes.

Rules, pins, limits, questions to a person and the audit log hold as for any client; the audit log has `page`
as the transport. Where a person is to be asked (by a rule, or by the server), the answer holds the questions,
`{"asked": {key: {message, schema}}, "state"}`, and the page asks again with the answers. A call that has
failed is an answer, too, `{"failed": {error, code?, outcome?, ...}}`: the request for it has not.

Each signed-in page is one client of the servers, from its first trial until it has tried nothing for
`CLIENT_S`. A trial whose browser leaves is cancelled.

Results are bounded: texts are cut in plain sight (`cut` counts what was left out), binary content that is too
large is left out and its size stays. The browser decides by the MIME type what of it is shown as what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from starlette.requests import Request

from mcpx.core.calls.recording import noting_refusals
from mcpx.core.catalog.model import JSON, present
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.frontends.operations import get_prompt
from mcpx.core.protocol.context import Caller, ClientId, InputAnswers, page_origin, read_capabilities
from mcpx.core.protocol.messages import Exec, Read
from mcpx.core.protocol.requests import RequestContext
from mcpx.core.rendering.result_members import texts_of
from mcpx.core.rendering.result_reading import INPUT_REQUIRED, read_resource_result
from mcpx.core.rendering.results import ToolResult
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.text import paragraphs
from mcpx.core.validation.arguments import encode_arguments
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import MCPXError
from mcpx.page.answers import body, unless_gone
from mcpx.page.cards import OpenPage
from mcpx.page.guard import SESSION

MAX_BLOCKS: Final = 200
MAX_TEXT_CHARS: Final = 400_000  # of all texts of a result together
MAX_BINARY_CHARS: Final = 16 << 20  # of all base64 of a result together
MAX_STRUCTURED_BYTES: Final = 400_000
MAX_NAME_CHARS: Final = 2_000  # of a URI, a name or a MIME type
_NAMES: Final = ("name", "title", "description", "mimeType", "uri", "size")
CLIENT_S: Final = 300.0  # without a trial
MAX_QUESTIONS: Final = 8  # at a time
MAX_MESSAGE_CHARS: Final = 8_000  # of a question
_MS: Final = 1000


class _Room:
    """The rest of the bounds, for the blocks that follow."""

    def __init__(self) -> None:
        self.text = MAX_TEXT_CHARS
        self.binary = MAX_BINARY_CHARS


def blocks(content: Any) -> list[JSON]:
    """Content blocks, bounded: `{type, text?, cut?, data?, bytes?, mimeType?, uri?, name?, ...}` each.

    An embedded resource has its members in the block. The last one says how many more there are.
    """
    given = content if isinstance(content, list) else []
    room = _Room()
    shown = [_block(each, room) for each in given[:MAX_BLOCKS] if isinstance(each, dict)]
    if len(given) > MAX_BLOCKS:
        shown.append({"type": "more", "blocks": len(given) - MAX_BLOCKS})
    return shown


def contents(items: Any) -> list[JSON]:
    """The contents of a resource as blocks."""
    given = items if isinstance(items, list) else []
    return blocks([{"type": "resource", "resource": each} for each in given])


def messages(result: JSON) -> JSON:
    """The result of a prompt: `{description?, messages: [{role, content: [block]}]}`."""
    given = result.get("messages")
    listed = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    shown = [
        {"role": _name(each.get("role")) or "user", "content": blocks(_as_list(each.get("content")))}
        for each in listed[:MAX_BLOCKS]
    ]
    return present(description=_name(result.get("description")), messages=shown)


def tool_result(raw: JSON, shown: ToolResult, *, took_ms: float) -> JSON:
    """The result of a tool as the server gave it, and beside it what a model is shown.

    `{content, structured?, structured_cut?, is_error, took_ms, model: {text, cut?, tokens, tokens_direct}}`.
    """
    structured = raw.get("structuredContent")
    encoded = b"" if structured is None else msgspec.json.encode(structured)
    is_shown = structured is not None and len(encoded) <= MAX_STRUCTURED_BYTES
    text = "\n".join(texts_of(shown.content))
    direct = "\n".join(texts_of([each for each in _as_list(raw.get("content")) if isinstance(each, dict)]))
    return present(
        content=blocks(raw.get("content")),
        structured=structured if is_shown else None,
        structured_cut=None if is_shown or structured is None else len(encoded),
        is_error=bool(raw.get("isError")),
        took_ms=took_ms,
        model={
            **_cut_text(text, _Room()),
            "tokens": estimate_result(text),
            "tokens_direct": estimate_result(direct),
        },
    )


def _block(given: JSON, room: _Room) -> JSON:
    inner = given.get("resource")
    members = given | inner if isinstance(inner, dict) else given
    shown: JSON = {"type": _name(given.get("type")) or "unknown"}
    for name in _NAMES:
        value = members.get(name)
        if isinstance(value, str):
            shown[name] = value[:MAX_NAME_CHARS]
        elif name == "size" and isinstance(value, int):
            shown[name] = value
    if isinstance(text := members.get("text"), str):
        shown |= _cut_text(text, room)
    data = members.get("data", members.get("blob"))
    if isinstance(data, str):
        shown["bytes"] = len(data) * 3 // 4 - data[-2:].count("=")
        if len(data) <= room.binary:
            room.binary -= len(data)
            shown["data"] = data
    return shown


def _cut_text(text: str, room: _Room) -> JSON:
    """`{text, cut?}`, where `cut` counts the characters that are left out."""
    shown = text[: room.text]
    room.text -= len(shown)
    return {"text": shown} if len(shown) == len(text) else {"text": shown, "cut": len(text) - len(shown)}


def _name(value: Any) -> str | None:
    return value[:MAX_NAME_CHARS] if isinstance(value, str) else None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


class ToolTrial(msgspec.Struct, frozen=True):
    """Run a tool. `answers` and `state` are for one that was answered with questions."""

    server: str
    tool: str
    arguments: Any = None
    answers: dict[str, JSON] | None = None
    state: str | None = None


class ResourceTrial(msgspec.Struct, frozen=True):
    """Read a resource."""

    server: str
    uri: str
    answers: dict[str, JSON] | None = None
    state: str | None = None


class PromptTrial(msgspec.Struct, frozen=True):
    """Get a prompt."""

    server: str
    prompt: str
    arguments: dict[str, str] = {}
    answers: dict[str, JSON] | None = None
    state: str | None = None


_FORMS: Final = read_capabilities(b'{"elicitation":{"form":{}}}')
Trial = ToolTrial | ResourceTrial | PromptTrial


def _caller(client: ClientId) -> Caller:
    """The person at the page: can be asked to fill in forms, in the answer to the very request."""
    return Caller(client=client, capabilities=_FORMS, modern=True, is_local=True)


class PageClients:
    """The clients that the signed-in pages are, by session."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: dict[bytes, tuple[ClientId, asyncio.TimerHandle | None]] = {}
        self._busy: dict[bytes, int] = {}

    @contextmanager
    def using(self, session: bytes) -> Iterator[ClientId]:
        """The client of a session, for one trial."""
        client, timer = self._known.get(session) or (ClientId(), None)
        if timer is not None:
            timer.cancel()
        self._known[session] = client, None
        self._busy[session] = self._busy.get(session, 0) + 1
        try:
            yield client
        finally:
            self._busy[session] -= 1
            if not self._busy[session]:
                del self._busy[session]
                loop = asyncio.get_running_loop()
                self._known[session] = client, loop.call_later(CLIENT_S, self._leave, session)

    def _leave(self, session: bytes) -> None:
        client, _ = self._known.pop(session)
        self._hub.client_left(client)

    def __len__(self) -> int:
        return len(self._known)


class Trials:
    """The requests `/call`, `/read` and `/prompt` of one page."""

    def __init__(self, page: OpenPage) -> None:
        self.clients = PageClients(page.hub)

    async def call(self, page: OpenPage, request: Request) -> JSON:
        """Run a tool: `tool_result`, questions, or the failure."""
        trial = await body(request, ToolTrial)
        return await self._tried(request, trial, lambda context: _call(page.hub, trial, context))

    async def read(self, page: OpenPage, request: Request) -> JSON:
        """Read a resource: `{content: [block], took_ms}`, questions, or the failure."""
        trial = await body(request, ResourceTrial)
        return await self._tried(request, trial, lambda context: _read(page.hub, trial, context))

    async def prompt(self, page: OpenPage, request: Request) -> JSON:
        """Get a prompt: `{description?, messages, took_ms}`, questions, or the failure."""
        trial = await body(request, PromptTrial)
        return await self._tried(request, trial, lambda context: _prompt(page.hub, trial, context))

    async def _tried(
        self, request: Request, trial: Trial, run: Callable[[RequestContext], Awaitable[JSON]]
    ) -> JSON:
        """Run a trial, unless its browser leaves first."""
        with self.clients.using(request.scope[SESSION]) as client:
            given = None if trial.answers is None else msgspec.json.encode(trial.answers)
            context = RequestContext(
                client=client,
                caller=_caller(client),
                answers=None if given is None else InputAnswers(given, trial.state),
                origin=page_origin(),
            )
            done = await unless_gone(request, lambda: _came_of(trial.server, run(context)))
        return _questions(done) if done.get("resultType") == INPUT_REQUIRED else done


async def _came_of(server: str, trial: Awaitable[JSON]) -> JSON:
    """Wait for a trial; raise MCPXError with the name of the server if that answers with an error."""
    try:
        return await trial
    except MCPError as error:
        raise MCPXError(f"{server} answered with an error: {error.message}") from None


async def _call(hub: Hub, trial: ToolTrial, context: RequestContext) -> JSON:
    began = time.perf_counter()
    with noting_refusals(hub.records, "tool", trial.server, trial.tool, context.origin):
        server, tool = await hub.calls.resolve(trial.server, trial.tool)
        encoded = encode_arguments(trial.arguments, server=server, tool=tool)
    request = Exec(server, tool, encoded, context)

    def render(result: msgspec.Raw) -> JSON:
        raw, _ = hub.results.tool(result, server=server, whole=True)
        shown = hub.views.result(result, request, context.client)
        return tool_result(raw, shown, took_ms=_since(began))

    return await hub.calls.run(request, render)


async def _read(hub: Hub, trial: ResourceTrial, context: RequestContext) -> JSON:
    began = time.perf_counter()

    def render(result: msgspec.Raw) -> JSON:
        given = read_resource_result(result, server=trial.server, whole=True)
        return {"content": contents(given.get("contents")), "took_ms": _since(began)}

    return await hub.calls.run(Read(trial.server, trial.uri, context), render)


async def _prompt(hub: Hub, trial: PromptTrial, context: RequestContext) -> JSON:
    began = time.perf_counter()
    done = await get_prompt(hub, trial.server, trial.prompt, trial.arguments, context)
    return done if done.get("resultType") == INPUT_REQUIRED else messages(done) | {"took_ms": _since(began)}


def _questions(result: JSON) -> JSON:
    """Return the questions in place of a result; `asked` is empty where a server wants to be asked again."""
    asked: dict[str, JSON] = {}
    for key, each in list((result.get("inputRequests") or {}).items())[:MAX_QUESTIONS]:
        params = each.get("params") or {}
        message = params.get("message")
        asked[key] = {
            "message": paragraphs(message[:MAX_MESSAGE_CHARS]) if isinstance(message, str) else "",
            "schema": params.get("requestedSchema") or {},
        }
    state = result.get("requestState")
    return {"asked": asked, "state": state}


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * _MS, 1)

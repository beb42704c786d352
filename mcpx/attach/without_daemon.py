"""Answers to a shim's client while no daemon serves it.

Pure, but for the file of `RememberedAnswers`.

Until the first daemon answers, that is what a daemon last answered to the same program, as far as known.
When no daemon can be had, or none for long, the session opens nevertheless, and inspect says what is
wrong; what only a daemon can do is refused with the reason. The next daemon gets the opening as a replay. The
tools are those of `mcpx.core.gateway.tools.definitions`, with their titles, schemas and annotations; a
transparent client, which is to see one server alone, is given inspect only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mcpx.attach.announcements import SUBSCRIPTION_KEY, Announcements
from mcpx.attach.pending import (
    REMEMBERED,
    VERSION_KEY,
    InForce,
    PendingRequest,
    PendingRequests,
    decode_object,
    malformed,
    notification,
    unavailable,
)
from mcpx.attach.remembered import RememberedAnswers, identify
from mcpx.core.wire import batch, envelope
from mcpx.core.wire.batch import read
from mcpx.core.wire.envelope import RequestId, encode
from mcpx.version import __version__

# --- answers where no daemon can be had

MODERN: Final = "2026-07-28"
HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The protocol revisions with a handshake, the latest last."""
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
INSTRUCTIONS: Final = (
    "No server can be reached yet: inspect() says why, and what to do about it. Once that is done,"
    " inspect(query) finds tools, and exec(server_name, tool_name, arguments) runs one."
)
MENDED: Final = (
    "Tell the user. MCPX looks again by itself: when it is mended the tools appear here, and this client need"
    " not be restarted."
)
_INSPECT: Final = (
    "No server can be reached yet: inspect() says why, and what to do about it. After that, inspect(query)"
    " searches all servers' tools; inspect(server_name) lists one's; inspect(server_name, tool_name) shows"
    " one. exec runs it."
)
_EXEC: Final = (
    "Run one tool of one server; its own parameters go inside arguments. They are checked first, and nothing"
    " is sent unless they fit. An error of MCPX has a code and an outcome: not_sent (nothing happened;"
    " correct and repeat), unknown (the action may have happened; check first) or failed (the server answered"
    " with an error). One without is the tool's own answer."
)
_SELECT: Final = "JMESPath: the part of a JSON result to return, as items[].{id: id, title: title}"
_RESOURCES: Final = "Read one resource of one server. Where a URI holds {a part in braces}, fill that in."
_INFO: Final = {"name": "mcpx", "title": "MCPX", "version": __version__}
_CAPABILITIES: Final = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
_NAME: Final = {"type": "string"}
TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "inspect",
        "title": "Inspect servers and tools",
        "description": _INSPECT,
        "inputSchema": {
            "type": "object",
            "properties": {
                "server_name": _NAME,
                "tool_name": {"type": "string", "description": "One, or several with commas"},
                "query": {"type": "string", "description": "What to do, in a few words"},
            },
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {"anthropic/alwaysLoad": True},
    },
    {
        "name": "exec",
        "title": "Run a tool",
        "description": _EXEC,
        "inputSchema": {
            "type": "object",
            "properties": {
                "server_name": _NAME,
                "tool_name": _NAME,
                "arguments": {"type": "object", "description": "The tool's own parameters"},
                "select": {"type": "string", "description": _SELECT},
                "max_tokens": {
                    "type": "integer",
                    "description": "Of the result; the rest can be read afterwards",
                },
            },
            "required": ["server_name", "tool_name"],
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": True,
        },
        "_meta": {"anthropic/alwaysLoad": True},
    },
    {
        "name": "resources",
        "title": "Read a resource",
        "description": _RESOURCES,
        "inputSchema": {
            "type": "object",
            "properties": {
                "server_name": _NAME,
                "uri": {"type": "string", "description": "Without it, the resources are listed"},
            },
            "required": ["server_name"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    },
)
_EMPTY_LISTS: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def stand_in_result(request: PendingRequest, cause: str) -> msgspec.Raw | None:
    """The result of a request; None for one that only a daemon can answer. `cause` as for `explained`."""
    params = decode_object(request.params)
    meta = params.get("_meta")
    modern = isinstance(meta, dict) and VERSION_KEY in meta
    match request.method:
        case "initialize" if not modern:
            found = _opening(params.get("protocolVersion"))
        case "server/discover" if modern:
            found = {"supportedVersions": [MODERN], **_introduction()}
        case "tools/list":
            found = {"tools": TOOLS[:1] if request.transparent else TOOLS}
        case "tools/call" if params.get("name") == "inspect":
            found = _inspected(cause)
        case "ping" | "logging/setLevel" if not modern:
            found = {}
        case method if method in _EMPTY_LISTS:
            found = {_EMPTY_LISTS[method]: []}
        case _:
            return None
    if modern:
        found |= {"resultType": "complete", "_meta": {SERVER_INFO_KEY: _INFO}}
        if request.method != "tools/call":
            found |= {"ttlMs": 0, "cacheScope": "private"}
    return msgspec.Raw(encode(found))


def explained(cause: str) -> str:
    """The text for a model; `cause` is a sentence or two, without the last full stop."""
    return f"No server can be reached. {cause}. {MENDED}"


def _opening(version: object) -> dict[str, Any]:
    agreed = version if version in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1]
    return {"protocolVersion": agreed, "serverInfo": _INFO, **_introduction()}


def _introduction() -> dict[str, Any]:
    return {"capabilities": _CAPABILITIES, "instructions": INSTRUCTIONS}


def _inspected(cause: str) -> dict[str, Any]:
    text = explained(cause)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"servers": [], "error": text},
        "isError": False,
    }


_NO_MEMBERS: Final = msgspec.Raw(b"{}")


class WithoutDaemon:
    """Answers the requests of one session that are pending."""

    def __init__(
        self,
        pending: PendingRequests,
        in_force: InForce,
        announcements: Announcements,
        answers: RememberedAnswers | None,
    ) -> None:
        self._pending = pending
        self._in_force = in_force
        self._announcements = announcements
        self._answers = answers
        self.discover: PendingRequest | None = None
        """A request that was answered here, and with which the next daemon is to be asked."""
        self.problem: str | None = None
        """Why there is no daemon yet, if the client is not to wait for it any longer."""

    def answer(self, waiting: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """The responses to what waits for a daemon, as far as they are known, and the lines that wait on."""
        responses: list[bytes] = []
        unanswered: list[bytes] = []
        for line in waiting:
            message = read(line)
            request = self._pending.get(message.id) if message and message.method else None
            response = None
            if message is not None and message.id is not None and request is not None:
                response = self._response(message.id, request)
            if response is None or message is None:
                unanswered.append(line)
            else:
                self._pending.pop(message.id)
                responses.append(response)
        return responses, unanswered

    def _response(self, request_id: RequestId, request: PendingRequest) -> bytes | None:
        if (known := self._known(request)) is not None:
            return self._give(request_id, request, known)
        if self.problem is not None and request.method in REMEMBERED:
            return self._stand_in(request_id, request, self.problem)
        return None

    def _known(self, request: PendingRequest) -> msgspec.Raw | None:
        """The result that a daemon last gave this client program for such a request; None if not known."""
        if request.method == "ping" and self._in_force.initialize:
            return _NO_MEMBERS
        if self._answers is None or (request.method == "initialize" and self._in_force.initialize):
            return None
        opening = request if request.method == "initialize" else self._in_force.initialize
        client = identify(request, opening)
        return self._answers.find(client, request) if client else None

    def refuse(self, lines: Iterable[bytes], cause: str) -> list[bytes]:
        """No daemon can be had: responses to the requests in `lines`, and to all that are pending."""
        responses: list[bytes] = []
        for line in lines:
            if (message := read(line)) is not None and message.id not in self._pending:
                self._pending.add(message)
            if not any(each.id in self._pending for each in batch.messages(line)):
                responses += malformed(line)
        opened = self._announcements.open_streams()
        responses += self._pending.refuse(lambda key, each: self._stand_in(key, each, cause))
        return responses + [self._acknowledged(stream) for stream in opened]

    def _stand_in(self, request_id: RequestId, request: PendingRequest, cause: str) -> bytes:
        """The response in place of a daemon."""
        opens_again = request.method == "initialize" and self._in_force.initialize
        result = None if opens_again else stand_in_result(request, cause)
        if result is None:
            return unavailable(request_id, request, cause)
        return self._give(request_id, request, result, made_up=True)

    def _give(
        self, request_id: RequestId, request: PendingRequest, result: msgspec.Raw, *, made_up: bool = False
    ) -> bytes:
        self._in_force.take(request, result)
        self._announcements.give(request, result, made_up=made_up, counted=False)
        if request.method == "server/discover":
            self.discover = request.copied()
        return b"".join(envelope.answer(request_id, [result]))

    def _acknowledged(self, stream: RequestId) -> bytes:
        """The notification that a stream is open, for the changes of lists that it asks for."""
        request = self._pending.get(stream)
        asked = decode_object(request.params).get("notifications") if request else None
        wanted = asked if isinstance(asked, dict) else {}
        params = {
            "_meta": {SUBSCRIPTION_KEY: stream},
            "notifications": {
                kind.wanted: True for kind in self._announcements.kinds if wanted.get(kind.wanted) is True
            },
        }
        return notification("notifications/subscriptions/acknowledged", params)

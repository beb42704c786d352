"""Results of read-only tools that are kept for a while (`cache`), and answer the same call again.

Loaded by the fleet for the first server that has such a setting; without one, nothing here exists, and a call
meets nothing of it. `ReadCache` holds the results of all servers within one limit of bytes, `ServerReads` is
what one server submits its requests through.

A call comes here when it may be sent: the pipeline has found its tool in what its client is shown, and has
held it against rules, pins and schema; where a person was asked about it, it is sent in any case. A result
answers only a call that would go to the same session (so the same account, and of servers with sessions for
clients or projects the same one of these), from the same profile, of a client that declares the same, with
the same arguments in whatever order, and the same `_meta`, but for the members that clients change with each
call. It is kept with the form of the tool, and is worth nothing once that is another.

Results are forgotten when they may be wrong: all of a server's when a tool that is not known to be read-only
is called there, also at its transparent endpoint, or a task of it is asked for (at the beginning, and again
at the end); when its account changes, and with each configuration that is put in force; those of a session
when it fails or is started again. A result that was under way meanwhile is not kept, nor one for which the
server has asked a client something, which another client may have answered otherwise.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import ToolInfo, is_read_only
from mcpx.core.config.profiles import fits
from mcpx.core.protocol.requests import CallTool, Passed, Request, RequestContext, TaskRequest
from mcpx.core.rendering.result_members import decode_members, is_given
from mcpx.core.rendering.result_reading import read_tool_result
from mcpx.core.servers.actor import Session
from mcpx.core.servers.call_queue import RawReply
from mcpx.core.servers.server import Server
from mcpx.core.system.endpoint import CACHED_KEY, FRESH_KEY
from mcpx.errors import CallError

MAX_GIVEN_BYTES: Final = 16 << 10  # of arguments and `_meta`: larger ones are hardly given twice
LARGEST_SHARE: Final = 4  # of the limit: a result that is larger would drive out too many
_OVERHEAD_BYTES: Final = 600  # of an entry beside its bytes
_CHANGED_BY_CALL: Final = frozenset(
    {
        FRESH_KEY,
        "traceparent",  # W3C Trace Context
        "tracestate",
        "claudecode/toolUseId",  # Claude Code
        "vscode.requestId",  # VS Code
        "x-codex-turn-metadata",  # Codex
    }
)
"""Members of `_meta` that name one call, and say nothing of what is asked."""
_CALL: Final = "tools/call"
_TASKS: Final = "tasks/"
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode

Key = tuple[object, ...]


class Kept(NamedTuple):
    """A result: its members but for `_meta`, and those of that, both without the braces around them."""

    tool: ToolInfo
    members: bytes
    meta: bytes
    size: int
    at: float
    clock: float
    """When it came, by `time.monotonic()` and by the clock: the former may stop in a suspend."""
    keys: set[Key]
    """The keys of its session, of which its own is one."""

    def age_s(self) -> float:
        """Seconds since it came."""
        return max(time.monotonic() - self.at, time.time() - self.clock)

    def answer(self, age_s: float) -> msgspec.Raw:
        """The result, which says that it was kept."""
        said = b'{"_meta":{%b"mcpx/cached":{"age_s":%d}},%b}' % (self.meta, age_s, self.members)
        return msgspec.Raw(said)


class ReadCache:
    """The kept results of all servers, the one that was used last at the end, within `limit` bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._limit = self._size = 0

    @property
    def limit(self) -> int:
        """The most bytes that they take."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._make_room()

    def of(self, server: Server, seconds: Mapping[str, float]) -> ServerReads:
        """Make the reads of one server; `seconds` are by patterns of tools."""
        return ServerReads(self, server, seconds)

    def get(self, key: Key) -> Kept | None:
        """The result of that key, which is used now."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def put(self, key: Key, kept: Kept) -> None:
        """Keep a result."""
        self.drop(key)
        self._kept[key] = kept
        kept.keys.add(key)
        self._size += kept.size
        self._make_room()

    def drop(self, key: Key) -> None:
        """Forget a result, if there is one of that key."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            kept.keys.discard(key)
            self._size -= kept.size

    def _make_room(self) -> None:
        while self._size > self._limit:
            self.drop(next(iter(self._kept)))


class ServerReads:
    """Submits the requests to one server, and answers those that it need not be asked."""

    def __init__(self, cache: ReadCache, server: Server, seconds: Mapping[str, float]) -> None:
        self._cache = cache
        self._server = server
        self._seconds = seconds
        self._keys: dict[str, set[Key]] = {}  # by the session, as the supervisor calls it
        self._changes = 0

    def submit(self, request: Request, reply: RawReply) -> None:
        """Answer a request, send it, or queue it.

        Raises:
            CallError: As `Server.submit`.
        """
        server = self._server
        if server.config.project is not None:
            server.main.check_project()
        session = server.session_for(request.context)
        if request.context.fresh and server.config.is_remote_mcpx:
            request = replace(request, context=_asking_there(request.context))
        if isinstance(request, CallTool):
            if self._is_answered(session, request, reply):
                return
        elif isinstance(request, TaskRequest):
            self._forget_with(reply)
        session.submit(request, reply)

    def passes(self, request: Passed, reply: RawReply) -> None:
        """Take in a request at the transparent endpoint, where nothing is answered."""
        reads = request.method == _CALL and self._tool(request.tool or "") is not None
        if not reads and (request.method == _CALL or request.method.startswith(_TASKS)):
            self._forget_with(reply)

    def forget(self, session: str | None = None) -> None:
        """Forget what is kept of that session; or of all, and keep nothing that is under way.

        What a session still answers when it has failed, its next incarnation does.
        """
        self._changes += session is None
        for name in [*self._keys] if session is None else [session]:
            for key in self._keys.pop(name, set()).copy():
                self._cache.drop(key)

    def note_question(self) -> None:
        """Take in that the server asks a client something: what is under way may depend on the answer."""
        self._changes += 1

    def _forget_with(self, reply: RawReply) -> None:
        """Forget everything now, and again when the request of that reply has ended."""
        self.forget()
        reply.observe(lambda _reply: self.forget())

    def _tool(self, name: str) -> ToolInfo | None:
        """The tool that the server calls so, if it is read-only as clients are shown it."""
        known = self._server.catalogue
        tool = None if known is None else known.tool_of_server(name)
        return tool if tool is not None and is_read_only(tool) else None

    def _is_answered(self, session: Session, call: CallTool, reply: RawReply) -> bool:
        """Answer a call with what is kept, or have its result kept, where it may be."""
        tool = self._tool(call.name)
        if tool is None:
            self._forget_with(reply)
            return False
        names = {tool.name, tool.own.name}
        patterns = self._seconds.items()
        seconds = next((each for name, each in patterns if any(fits(one, name) for one in names)), 0)
        key = _key(session.child, call) if seconds else None
        if key is None or session.queue.closed or self._server.needs_sign_in:
            return False
        kept = None if call.context.fresh else self._cache.get(key)
        if kept is not None and kept.tool == tool and (age_s := kept.age_s()) < seconds:
            answer = kept.answer(age_s)
            if call.record is not None:
                call.record.from_cache(len(answer))
            reply.resolve(answer)
            return True
        reply.observe(partial(self._ended, session.child, key, tool, self._changes))
        return False

    def _ended(self, session: str, key: Key, tool: ToolInfo, changes: int, reply: RawReply) -> None:
        """Keep the result of a call, unless something has changed since it was sent."""
        raw = reply.value
        if raw is None or reply.error is not None or changes != self._changes:
            return
        if len(raw) > self._cache.limit // LARGEST_SHARE or (parts := _parts(raw)) is None:
            self._cache.drop(key)
            return
        members, meta = parts
        size = len(members) + len(meta) + sum(len(part) for part in key if isinstance(part, bytes))
        keys = self._keys.setdefault(session, set())
        times = time.monotonic(), time.time()
        self._cache.put(key, Kept(tool, members, meta, size + _OVERHEAD_BYTES, *times, keys))


def _key(session: str, call: CallTool) -> Key | None:
    """The key of a call; None for one whose result is neither kept nor answered with one that was."""
    context = call.context
    if context.own or context.answers is not None or call.approved is not None:
        return None
    if len(call.arguments) + len(context.meta) > MAX_GIVEN_BYTES:
        return None
    profile = None if context.origin is None else context.origin.profile
    declared = None if context.caller is None else context.caller.capabilities.encoded
    return session, profile, call.name, _sorted(call.sent), _meta_of(context), declared


def _asking_there(context: RequestContext) -> RequestContext:
    """The context of a request that another MCPX is not to answer with what it keeps, either."""
    said = b'"mcpx/fresh":true'
    return replace(context, meta=b"%b,%b" % (context.meta, said) if context.meta else said)


def _sorted(arguments: bytes | msgspec.Raw) -> bytes:
    """The arguments with their members in order; as they came where they cannot be read."""
    try:
        return _encode_sorted(msgspec.json.decode(arguments))
    except (*_UNREADABLE, UnicodeEncodeError):
        return bytes(arguments)


def _meta_of(context: RequestContext) -> bytes:
    """The members of `_meta` for the server, in order, without those that every call changes."""
    if not context.meta:
        return b""
    try:
        given = decode_members(msgspec.Raw(b"{%b}" % context.meta))
    except _UNREADABLE:
        return context.meta
    said = {name: given[name] for name in given.keys() - _CHANGED_BY_CALL}
    return _encode_sorted(said) if said else b""


def _parts(raw: msgspec.Raw) -> tuple[bytes, bytes] | None:
    """The members of a result as `Kept` has them; None of one that is not kept.

    Kept are results alone that clients get as they are: no error of the tool or of the protocol, no question,
    no task, and none that was kept by another MCPX.
    """
    try:
        read_tool_result(raw)
        members = decode_members(raw)
        meta = members.pop("_meta", msgspec.Raw())
        inside = decode_members(meta) if is_given(meta) else {}
    except (CallError, *_UNREADABLE):
        return None
    failed = bytes(members.get("isError", b"false")) not in {b"false", b"null"}
    if failed or CACHED_KEY in inside or not bytes(members.get("content", b"")).startswith(b"["):
        return None
    encoded = msgspec.json.encode(inside)[1:-1] if inside else b""
    return msgspec.json.encode(members)[1:-1], encoded + b"," if encoded else b""

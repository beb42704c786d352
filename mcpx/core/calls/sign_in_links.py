"""Links to sign in by, for the people behind clients that can open them (elicitation in URL mode).

One for a hub, which runs it. A call that fails with `SignInNeeded` comes here before its client gets that
error. A client of 2026-07-28 gets the link as the result of its call, and repeats the call; an older one is
asked by a request. Once the person has agreed to open it, the call waits until they have signed in, and then
runs for the first time. All calls of a client to a server share one link and one question, and what waits
is bounded: the answer by `approve_timeout`, the sign-in by its own time.

Only clients of this machine get a link: the browser comes back to this machine, and whoever signs in lends
the account to all clients. Those with a token of a name are refused as those that open no links are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.abc
import structlog

from mcpx.core.catalog.model import JSON
from mcpx.core.config import Http, ServerConfig, Sse
from mcpx.core.protocol.context import ELICITATION, Caller, InputAnswers
from mcpx.core.rendering.result_reading import INPUT_REQUIRED
from mcpx.core.servers.call_errors import LINK_KEY, SignInNeeded, answer_to_link
from mcpx.core.servers.relay.clients import ConnectedClients
from mcpx.core.servers.relay.session_relay import ELICITATION_COMPLETE
from mcpx.core.servers.visible_server import VisibleServer
from mcpx.core.text import cut, one_line, shown_server
from mcpx.core.wire.envelope import MCPError
from mcpx.errors import CallError, MCPXError
from supervisors import Incarnation

log = structlog.get_logger()
MAX_NAME_CHARS: Final = 100
OUTDATED: Final = "the link that was opened is of no use any more"
_URL_MODE: Final[JSON] = {"mode": "url"}


class PendingSignIn(Protocol):
    """A sign-in to a server that is under way, for those who want it."""

    @property
    def name(self) -> str:
        """The name of the entry whose account it is."""

    @property
    def note(self) -> str | None:
        """Text for a person before they open the link; None for nothing."""

    @property
    def redirect_uri(self) -> str | None:
        """The address that the browser returns to, once it is known."""

    async def url(self) -> str:
        """Return the address for the person to open, once it is known.

        Raises:
            MCPXError: The sign-in is over.
        """

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it is signed in, so long at most.

        Raises:
            MCPXError: It failed, was cancelled, or takes longer.
        """

    def leave(self) -> None:
        """Want it no more. It is cancelled when nobody does."""

    def report(self) -> JSON:
        """Return the address to open, as a report of the control request `login`."""

    def result(self) -> JSON:
        """Return what came of it, as the response to the control request `login`."""


Begin = Callable[[str], PendingSignIn]
"""Begins a sign-in to the server of that name, or joins the one under way; as `SignIns.begin`."""


class SignInLinks:
    """The links of one hub. `begin` begins a sign-in; `within_s` gives how long an answer may take."""

    def __init__(self, begin: Begin, clients: ConnectedClients, within_s: Callable[[], float]) -> None:
        self._begin = begin
        self._clients = clients
        self._within_s = within_s
        self._links: dict[Hashable, _Link] = {}
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self, incarnation: Incarnation) -> None:
        """Follow the sign-ins behind the links, until asked to leave."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                incarnation.ready()
                await incarnation.stopping.wait()
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Run what obtains a link for a call that no task waits for; whether it can be. It must not raise."""
        if self._tasks is not None:
            self._tasks.start_soon(work)
        return self._tasks is not None

    async def obtain(
        self,
        need: SignInNeeded,
        upstream: VisibleServer,
        caller: Caller | None,
        *,
        client: Hashable | None,
        answers: InputAnswers | None,
    ) -> JSON | None:
        """Have the person behind a caller sign in; None once they have, and its call may be sent.

        Else it is the result by which a client of 2026-07-28 is given the link. `client` is whose calls share
        a link; `answers` is what it has brought.

        Raises:
            CallError: The client gets no link, or its person has not signed in.
        """
        if (account := upstream.account) is not None and account.needs_person:
            await account.attend()  # `mcpx login` signs in by itself where there is no daemon
        if account is None or not account.needs_person:
            return None  # somebody has signed in since
        if caller is None or client is None or not _may_open_links(caller):
            raise need
        key = client, need.server, need.wants_more
        answer, server = answer_to_link(answers), upstream.config
        link = self._link(key, need, server) if answer is None else self._answered(key, need, answer)
        try:
            if answer is None and (result := await link.show(caller)) is not None:
                return result
            await link.over.wait()
        except MCPXError as error:
            raise _failed(need, str(error)) from None
        if link.failure is not None:
            raise _failed(need, link.failure)
        self._announce_end(client, link)
        return None

    def _link(self, key: Hashable, need: SignInNeeded, server: ServerConfig) -> _Link:
        """The link to share, opened now if there is none.

        Raises:
            CallError: Nobody can sign in to that server now.
        """
        known = self._links.get(key)
        if known is not None and not known.over.is_set():
            return known
        if self._tasks is None:
            raise need
        try:
            pending = self._begin(need.server)
        except MCPXError as error:
            raise _failed(need, str(error)) from None
        # one that is over says why to the client that comes back for it
        self._links = {each: kept for each, kept in self._links.items() if not kept.over.is_set()}
        link = self._links[key] = _Link(pending, server, need, self._within_s())
        self._tasks.start_soon(link.follow)
        log.info("sign_in.link", server=need.server)
        return link

    def _answered(self, key: Hashable, need: SignInNeeded, answer: JSON) -> _Link:
        """The link that a client comes back with an answer for.

        Raises:
            CallError: It is over, and nobody has signed in by it.
        """
        link = self._links.get(key)
        if link is None or link.over.is_set():
            raise _failed(need, (link and link.failure) or _refusal_in(answer) or OUTDATED)
        link.take(answer)
        return link

    def _announce_end(self, client: Hashable, link: _Link) -> None:
        """Tell the client that what the link was for is done, where its era has that."""
        handle = self._clients.handles.get(client)
        if handle is not None and not link.is_announced:
            link.is_announced = True
            handle.notify(ELICITATION_COMPLETE, {"elicitationId": link.id})


class _Link:
    """One link for one client: its question, and what comes of it.

    It is `over` when the person has signed in, or when there is a `failure`, a clause that says why not.
    """

    def __init__(
        self, pending: PendingSignIn, server: ServerConfig, need: SignInNeeded, within_s: float
    ) -> None:
        self.id = str(uuid.uuid4())
        self._is_shown = False
        self.is_announced = False
        self.failure: str | None = "nobody has opened the link in time"
        self.over = anyio.Event()
        self._pending = pending
        self._server = server
        self._wants = _what_is_wanted(need)
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + within_s)
        self._asking = anyio.Lock()
        self._answered = False

    async def follow(self) -> None:
        """Wait for the person; until they have agreed to open the link, for as long as that may take."""
        try:
            with self._scope:
                await self._pending.wait()
                self.failure = None
        except MCPXError as error:
            self.failure = str(error)
        finally:
            self._pending.leave()
            self.over.set()

    def take(self, answer: JSON) -> None:
        """Take in what the person answered: to open the link is not yet to sign in."""
        self._answered = True
        if self.over.is_set():
            return
        if (refusal := _refusal_in(answer)) is None:
            self.failure = "the sign-in has ended"
            self._scope.deadline = float("inf")  # it has a time of its own
        else:
            self.failure = refusal
            self._scope.cancel()

    async def show(self, caller: Caller) -> JSON | None:
        """Ask the person, if nobody has done so; or the result by which the client is to do that.

        Raises:
            MCPXError: There is no link.
        """
        if not caller.modern:
            await self._ask(caller)
            return None
        return None if self._is_shown else await self._as_result()

    async def _as_result(self) -> JSON:
        self._is_shown = True
        try:
            params = await self._params()
        except BaseException:
            self._is_shown = False
            raise
        asked = {LINK_KEY: {"method": ELICITATION, "params": params}}
        return {"resultType": INPUT_REQUIRED, "inputRequests": asked}

    async def _ask(self, caller: Caller) -> None:
        """Ask the person, unless they were or need not be any more; one call does for all that share it."""
        async with self._asking:
            if self._answered or self.over.is_set():
                return
            params = {**await self._params(), "elicitationId": self.id}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_at_over, tasks.cancel_scope)
                try:
                    answer = await caller.ask(ELICITATION, params, None)
                except MCPError as error:
                    answer = {"action": "cancel", "error": error.message}
                self.take(answer)
                tasks.cancel_scope.cancel()

    async def _end_at_over(self, scope: anyio.CancelScope) -> None:
        """The question is not needed any more once they have signed in by another way."""
        await self.over.wait()
        scope.cancel()

    async def _params(self) -> JSON:
        url = await self._pending.url()
        name = cut(shown_server(self._server.name), MAX_NAME_CHARS)
        transport = self._server.transport
        host = f" ({_host(transport.url)})" if isinstance(transport, Http | Sse) else ""
        message = (
            f"The server {name}{host} wants {self._wants} before it runs this call."
            f" The link opens {_host(url)} in your browser; the call goes on when you have done that there."
        )
        if self._pending.note is not None:
            message += f" Note: {self._pending.note}."
        return {**_URL_MODE, "message": message, "url": url}


def _what_is_wanted(need: SignInNeeded) -> str:
    """Say what the person is to do, for the question; scopes are the server's words."""
    if not need.wants_more:
        return "you to sign in"
    scopes = one_line(" ".join(need.details.get("wanted_scopes", ())))
    return f"you to agree to more ({cut(scopes, MAX_NAME_CHARS)})" if scopes else "you to agree to more"


def _may_open_links(caller: Caller) -> bool:
    """Return True if the person behind a client can be given links: it opens them, on this machine."""
    return caller.is_local and caller.capabilities.refusal(ELICITATION, _URL_MODE) is None


def _refusal_in(answer: JSON) -> str | None:
    """Explain why the answer to a link is no yes; None where it is."""
    if answer.get("action") == "accept":
        return None
    if isinstance(error := answer.get("error"), str):
        return f"the client did not show the link ({one_line(error, MAX_NAME_CHARS)})"
    return "the person did not open the link"


def _failed(need: SignInNeeded, why: str) -> CallError:
    """The error of a call whose person has not signed in; `why` is a clause or a sentence."""
    text = f"{need} ({why})"
    return CallError(need.code, text, server=need.server, tool=need.tool, details=need.details)


def _host(url: str) -> str:
    """The host of a URL, for a person."""
    return cut(one_line(urlsplit(url).hostname or ""), MAX_NAME_CHARS)

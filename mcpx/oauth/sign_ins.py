"""Signing people in to servers, and out: the sign-ins that are under way, one per server.

Run by the hub, as `Hub.sign_ins`. `begin` is for whoever can show a person an address: the control requests
of the command line, and clients that can open one. The fleet goes on with the servers that were held for
want of a sign-in: it hears of it from the account.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import structlog

from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.servers.fleet.supervision import renew
from mcpx.core.servers.server import Server
from mcpx.errors import MCPXError
from mcpx.oauth.accounts import account_at, needs_sign_in, person_account, signed_in
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.stored_account import AccountState, StoredAccount
from supervisors import Incarnation

if TYPE_CHECKING:
    from mcpx.core.config import ServerConfig
    from mcpx.core.daemon.hub import Hub
    from mcpx.core.servers.ports import Supervised
    from mcpx.oauth.callback import CallbackListeners
    from mcpx.oauth.record import Record
    from mcpx.oauth.sign_in import SignIn

log = structlog.get_logger()
CANCEL_TIMEOUT_S: Final = 10.0  # for a sign-in that is cancelled, whose result may be being stored
FIRST_ATTEMPTS_TIMEOUT_S: Final = 15.0  # that `needed` waits for servers that start


class SignIns:
    """The sign-ins of a hub's servers."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._pending: dict[str, SignIn] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._listeners: CallbackListeners | None = None

    async def run(self, incarnation: Incarnation) -> None:
        """Carry sign-ins out, until asked to leave; then those under way are cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                incarnation.ready()
                await incarnation.stopping.wait()
                tasks.cancel_scope.cancel()
        finally:
            self.stop()

    def stop(self) -> None:
        """Begin no more sign-ins, and cancel those under way."""
        self._tasks = self._listeners = None
        for sign_in in self._pending.values():
            sign_in.cancel("MCPX ends")

    # --- signing in

    @property
    def are_waited_for(self) -> bool:
        """True if a sign-in is under way."""
        return bool(self._pending)

    def pending(self, name: str) -> SignIn | None:
        """The sign-in to a server that is under way."""
        return self._pending.get(name)

    def begin(self, name: str, *, scopes: Sequence[str] = (), timeout_s: float | None = None) -> SignIn:
        """Begin a sign-in to a server, or join the one under way; the caller has to `leave` it.

        Scopes that differ from those of the one under way cancel that. `timeout_s` is `login_timeout`, if
        left out. Returns at once: await `url` and `wait` of the result.

        Raises:
            CallError: `unknown_server`, with the nearest names.
            MCPXError: The server is disabled, or MCPX ends.
            SignInError: `NOT_FOR_PEOPLE`: nobody signs in to this server.
        """
        from mcpx.oauth import callback, sign_in  # noqa: PLC0415 - for who signs in

        account = person_account(*self._entry(name))
        name = account.server.name  # the servers of another MCPX have the account of its entry
        if self._tasks is None:
            self._hub.need("sign-ins")
            raise MCPXError("MCPX ends, or begins again with sign-ins in a moment; nothing was begun")
        timeout_s = self._hub.config.login_timeout if timeout_s is None else timeout_s
        found = self._joinable(account, scopes)
        if found is None:
            if self._listeners is None:
                self._listeners = callback.CallbackListeners(self._tasks)
            found = self._pending[name] = sign_in.SignIn(
                account,
                ports=sign_in.callback_ports(account.server, self._hub.config),
                timeout_s=timeout_s,
                scopes=scopes,
                adopt=partial(self._adopt, account),
            )
            self._tasks.start_soon(self._carry_out, found, self._listeners)
        found.join(timeout_s)
        return found

    def answer(self, name: str, address: str) -> None:
        """Take the address that a browser came back to, for the sign-in that waits for it.

        Raises:
            SignInError: `NO_ANSWER`: no sign-in waits for it, or it cannot be that; `STATE_MISMATCH`.
        """
        if (sign_in := self._pending.get(name)) is None:
            raise SignInError(Problem.NO_ANSWER, f"no sign-in to {name} waits for an answer")
        sign_in.answer(address)

    def _joinable(self, account: StoredAccount, scopes: Sequence[str]) -> SignIn | None:
        """The sign-in under way, if it is what is wanted; one for other scopes is cancelled."""
        found = self._pending.get(account.server.name)
        if found is None or not found.is_open or found.account is not account:
            return None
        if scopes and {*scopes} != {*found.scopes}:
            found.cancel("another was begun, for other scopes")
            return None
        return found

    async def _carry_out(self, sign_in: SignIn, listeners: CallbackListeners) -> None:
        log.info("sign_in.begun", server=sign_in.name, scopes=sign_in.scopes)
        try:
            await sign_in.run(listeners)
        finally:
            if self._pending.get(sign_in.name) is sign_in:
                del self._pending[sign_in.name]
        if (error := sign_in.progress.error) is None:
            log.info("sign_in.done", server=sign_in.name)
        elif error.problem is Problem.CANCELLED:
            log.info("sign_in.cancelled", server=sign_in.name, cause=str(error))
        else:
            log.warning("sign_in.failed", server=sign_in.name, problem=str(error.problem), cause=str(error))

    async def _adopt(self, account: StoredAccount, record: Record) -> None:
        """Put the result of a sign-in in force: sessions of an earlier sign-in end in order."""
        name = account.server.name
        accounts = {id(each.account) for each in self._hub.upstreams.values()}
        if id(account) not in accounts and self._of_peer(name) is not account:
            raise SignInError(Problem.CANCELLED, f"the entry of {name} has changed meanwhile; sign in again")
        # whoever agrees to more scopes is the same person: their sessions go on
        is_more = account.state is AccountState.SIGNED_IN and account.challenge is not None
        others = [] if is_more else [each for each in self._sessions(account) if not each.queue.is_held]
        await account.adopt(record)  # sessions that are held go on by that
        for each in others:
            renew(each, self._hub.supervisor)

    async def started(self, name: str) -> ServerInfo:
        """Describe a server that was signed in to, when it has been tried, or after a while."""
        if name in self._hub.config.peers:
            return await self._hub.peers.started(name)
        upstream = self._hub.upstream(name)
        await self._hub.fleet.await_start(upstream)
        return upstream.info()

    async def needed(self) -> list[str]:
        """The servers that need a sign-in, once all have been tried or after a while."""
        await self._hub.settled(FIRST_ATTEMPTS_TIMEOUT_S)
        needed: set[str] = set()

        async def look(upstream: Server) -> None:
            account, state = _own(upstream.account), upstream.info().state
            if account is None or not account.is_of_person:
                return
            if (
                state is State.NEEDS_SIGN_IN
                or not account.is_usable
                or (state is State.ASLEEP and await needs_sign_in(account))
            ):
                needed.add(account.server.name)

        async with anyio.create_task_group() as tasks:
            for upstream in self._hub.upstreams.values():
                tasks.start_soon(look, upstream)
        needed |= {each.name for each in self._hub.peers.status() if each.state == State.NEEDS_SIGN_IN}
        return [name for name in (*self._hub.upstreams, *self._hub.config.peers) if name in needed]

    # --- signing out

    async def signed_in(self) -> list[str]:
        """The servers for which a sign-in is stored."""
        accounts = {
            name: _own(each.account) for name, each in self._hub.upstreams.items() if each.config.peer is None
        }
        return await signed_in(accounts | {name: self._of_peer(name) for name in self._hub.config.peers})

    async def logout(self, name: str) -> bool:
        """Sign out of a server: its tokens are revoked and removed, its sessions end in order.

        Returns whether it was signed in.

        Raises:
            CallError: `unknown_server`, with the nearest names.
            MCPXError: The server is disabled.
            SignInError: MCPX does not sign in there, or what is stored cannot be removed.
        """
        from mcpx.oauth.token_requests import revoke  # noqa: PLC0415 - as above

        account = account_at(*self._entry(name))
        name = account.server.name
        if (pending := self._pending.get(name)) is not None:
            pending.cancel("you have signed out")
        with anyio.CancelScope(shield=True):  # bounded by the store and by `revoke`
            if pending is not None:
                with suppress(SignInError):  # a result that is being stored is to be removed, too
                    await pending.wait(CANCEL_TIMEOUT_S)
            await account.load()
            if (record := await account.forget()) is None or record.tokens is None:
                return False
            for each in self._sessions(account):
                renew(each, self._hub.supervisor)
            log.info("sign_in.ended", server=name)
            await revoke(account.server, record)
        return True

    # --- whose account it is

    def _entry(self, name: str) -> tuple[ServerConfig, StoredAccount | None]:
        """A server or another MCPX, and the account there."""
        if (peer := self._hub.config.peers.get(name)) is not None:
            return peer, self._of_peer(name)
        upstream = self._hub.upstream(name)
        return upstream.config, _own(upstream.account)

    def _of_peer(self, name: str) -> StoredAccount | None:
        peer = self._hub.config.peers.get(name)
        return None if peer is None else _own(self._hub.fleet.accounts.of(peer))

    def _sessions(self, account: StoredAccount) -> list[Supervised]:
        """The sessions that use an account."""
        its = (each for each in self._hub.upstreams.values() if _own(each.account) is account)
        return [session for each in its for session in each.sessions()]


def _own(account: object) -> StoredAccount | None:
    """The account behind the port."""
    return account if isinstance(account, StoredAccount) else None

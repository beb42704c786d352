"""The accounts of all servers, and the one refresher: run by the hub.

`of` gives the account of a server's entry, the same one for as long as the entry signs in alike. `run` keeps
their tokens fresh, ahead of their expiry, and notices what another process has stored. Without it (the
command line, a library) tokens are refreshed when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mcpx.config import Config, ServerConfig
from mcpx.config.auth import TokenStoreKind
from mcpx.oauth.account import Account
from mcpx.oauth.record import Identity, identity_of
from mcpx.oauth.store import open_store
from supervisors import Incarnation


class Accounts:
    """The accounts of a hub's servers. `state` is the folder of the token store, if not the usual one.

    `on_change` is called with a server's name when its account was signed in or out, or needs a sign-in, in
    the turn of that; it must not raise.
    """

    def __init__(
        self,
        state: Path | None = None,
        *,
        kind: TokenStoreKind = "file",
        on_change: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._state = state
        self._kind = kind
        self._store = open_store(kind, state)
        self._on_change = on_change
        self._accounts: dict[Identity, Account] = {}

    def of(self, server: ServerConfig) -> Account | None:
        """The account of a server; None for one that MCPX does not sign in to."""
        if (identity := identity_of(server)) is None:
            return None
        found = self._accounts.get(identity)
        if found is None or found.server.transport != server.transport:
            on_change = partial(self._on_change, server.name)
            found = Account(server, identity, self._store, on_change=on_change)
            self._accounts[identity] = found
        return found

    def configure(self, config: Config) -> None:
        """Take in another configuration: where tokens are kept, and which servers there are no more."""

    async def run(self, incarnation: Incarnation) -> None:
        """Keep the tokens fresh, until asked to leave."""
        incarnation.ready()
        await incarnation.stopping.wait()

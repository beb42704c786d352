"""A process that uses the sign-in of a server again and again: `refreshing.py STATE URL TIMES`.

By its clock each token has expired when it comes, so each use is a refresh. It prints how often it had a
token, and what has become of the account.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio

from mcpx.core.servers.transport.exchange import NotAuthorized
from mcpx.oauth.account import Account
from mcpx.oauth.record import identity_of
from mcpx.oauth.token_store import TokenStore
from tests.mcpx.oauth.records import request_to, token_on
from tests.mcpx.oauth.signed_in import server_at


def later() -> float:
    """A clock by which every token of an hour has expired."""
    return time.time() + 4000


async def main(state: str, url: str, times: int) -> None:
    server = server_at(url)
    account = Account(server, identity_of(server), TokenStore(Path(state)), clock=later)
    had = 0
    for _ in range(times):
        try:
            had += await token_on(account, request_to(url)) is not None
        except NotAuthorized as error:
            print(error)
    print(f"{had} {account.state}")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))

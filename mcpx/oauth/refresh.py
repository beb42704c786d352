"""Refreshing an access token: one request to the token endpoint that the record knows, without discovery."""

from __future__ import annotations

from typing import Final

from mcpx.config import ServerConfig
from mcpx.oauth.record import Record

REFRESH_TIMEOUT_S: Final = 30.0  # of a refresh with all its requests


async def refresh(server: ServerConfig, record: Record) -> Record:
    """Refresh the access token of a record with a refresh token, and return the record with the new one.

    The old refresh token may be void from then on: save the returned record before you use it. A refresh
    token or scope that the answer does not repeat is kept. The revision is one higher. A machine's token is
    obtained anew with `machine.obtain` instead.

    Raises:
        SignInError: `for_now` says whether to try again with the same record: `UNREACHABLE` for no answer,
            5xx, 429 or an unreadable answer. `GRANT_REFUSED` and `CLIENT_REFUSED` are for good, and so are
            `INSECURE` and `WRONG_ISSUER`.
    """
    raise NotImplementedError

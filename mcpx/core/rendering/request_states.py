"""Whose a `requestState` is: one that MCPX made here, or one of a server, which may be another MCPX. Pure.

States that MCPX makes begin with `mcpx-`, and so do those of another MCPX behind it: a call that is held
there, an approval that is asked for there, the seal of a replica. Taken for one of ours, such a state would
never reach whom it is for. So a server's state that begins like ours is given out with `mcpx-far-` before
it, once for each MCPX on the way, and that is taken off again before it is sent back.
"""

from __future__ import annotations

import secrets
from typing import Final

OURS: Final = "mcpx-"
"""The prefix of all states that an MCPX makes."""
_FAR: Final = "mcpx-far-"
_MADE_HERE: Final = f"{secrets.token_hex(16)}-"  # no server knows it


def made_here(state: str) -> str:
    """A state of ours in a result that is read as if it came from the server."""
    return _MADE_HERE + state


def to_client(state: str) -> str:
    """The state in a result, as the client is to bring it back."""
    if state.startswith(_MADE_HERE):
        return state.removeprefix(_MADE_HERE)
    return _FAR + state if state.startswith(OURS) else state


def to_server(state: str) -> str:
    """The state that a client has brought, as the server gave it."""
    return state.removeprefix(_FAR)

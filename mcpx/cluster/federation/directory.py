"""The messages between MCPX of which servers one has: the request `mcpx/servers` and its result.

The peer endpoint answers it (`mcpx.core.gateway.peer`), and who takes the servers of a peer in reads it.
Both use these structs, so that they agree on the names. A member that is not known is ignored, so that
releases may differ. What a peer says is not to be trusted: `read_directory` bounds it, and the reader of a
text bounds that.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from mcpx.core.config.per_server import Sessions

SERVERS: Final = "mcpx/servers"
RESTART: Final = "mcpx/restart"
LOG: Final = "mcpx/log"
MAX_WAIT_S: Final = 60.0
"""How long a request may wait for a change at most."""
MAX_SERVERS: Final = 10_000  # in one directory
MAX_HOPS: Final = 32  # in `PeerServer.via`

Id = Annotated[str, msgspec.Meta(pattern=r"\A[\w.:-]{1,128}\Z")]
"""What tells one MCPX from others; shown, and told to others."""
Text = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class DirectoryRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The params of `mcpx/servers`.

    With `since`, the version that the peer has, the answer comes when there is another one, or after `wait_s`
    seconds; at once without.
    """

    since: int | None = None
    wait_s: float = 0.0


class PeerIdentity(msgspec.Struct, frozen=True):
    """The MCPX that answers: `id` is the same for as long as its state folder and configuration are."""

    id: Id
    version: Text = ""


class PeerServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a directory.

    `state` is a word as in `mcpx status`, `described` the same with the reason and the next attempt.
    `sessions` is what the server's configuration says. `tools` and the like are counts of what is shown at
    that endpoint. `via` are the ids of the MCPX that it goes through, the one that answers first. What is
    None is left out of the message.
    """

    name: Text
    state: Text = "starting"
    described: str = ""
    sessions: Sessions = "shared"
    transport: Text = ""
    pid: int | None = None
    uptime_s: float | None = None
    restarts: Count = 0
    failures: Count = 0
    last_error: str | None = None
    next_attempt_in_s: float | None = None
    tools: Count = 0
    resources: Count = 0
    templates: Count = 0
    prompts: Count = 0
    memory_bytes: Count | None = None
    via: Annotated[list[Id], msgspec.Meta(max_length=MAX_HOPS)] = []


class Directory(msgspec.Struct, frozen=True):
    """The result of `mcpx/servers`. `version` differs whenever anything in `servers` does, and that only.

    It counts from a random number at each start, so that a version of an earlier run is never taken for one
    of this run.
    """

    mcpx: PeerIdentity
    version: int
    servers: Annotated[list[PeerServer], msgspec.Meta(max_length=MAX_SERVERS)]


class RestartRequest(msgspec.Struct, frozen=True):
    """The params of `mcpx/restart`: start that server again now. The result is `{}`."""

    server: Text


class LogRequest(msgspec.Struct, frozen=True):
    """The params of `mcpx/log`: the last lines that a server wrote."""

    server: Text
    lines: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class LogTail(msgspec.Struct, frozen=True):
    """The result of `mcpx/log`: the newest line last."""

    lines: list[str]


def read_directory(result: Any) -> Directory:
    """The result of `mcpx/servers`, as plain JSON or as the bytes that came.

    Raises:
        msgspec.ValidationError: It is none.
        msgspec.DecodeError: It is no JSON.
    """
    if isinstance(result, bytes | msgspec.Raw):
        return msgspec.json.decode(result, type=Directory)
    return msgspec.convert(result, Directory)

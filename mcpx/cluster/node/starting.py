"""What starts a node, and what it says to whoever started it: one line each way. Frozen structs."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from mcpx.cluster.node.spec import Name

HELLO_TIMEOUT_S: Final = 5.0
REPORT_INTERVAL_S: Final = 1.0
LINGER_S: Final = 120.0  # for a server that nobody uses: a gateway that is started again finds it running


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node works; the defaults will do."""

    max_message_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 64 << 20
    shutdown_grace_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    linger_s: Annotated[float, Meta(ge=0, le=86_400)] = LINGER_S
    hello_timeout_s: Annotated[float, Meta(gt=0, le=60)] = HELLO_TIMEOUT_S
    report_interval_s: Annotated[float, Meta(gt=0, le=60)] = REPORT_INTERVAL_S


class NodeStart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one line on a node's standard input, which then stays open: its end is the end of the node.

    `host` is the address to listen on, `certificate` and `key` are PEM, `state` is the folder of this node
    alone, which is made.
    """

    name: Name
    host: str
    token: Annotated[str, Meta(min_length=16)]
    certificate: str
    key: str
    state: str
    settings: NodeSettings = NodeSettings()

    def __repr__(self) -> str:
        return f"NodeStart(name={self.name!r}, host={self.host!r}, state={self.state!r})"


class NodeReady(msgspec.Struct, frozen=True, kw_only=True):
    """The one line on a node's standard output, once it listens; or `error`, and then it ends."""

    host: str = ""
    port: int = 0
    pid: int = 0
    version: str = ""
    error: str | None = None

"""The protocol between the gateway and its Ray process: one JSON object a line, in both directions.

The gateway writes requests, each with an id, and the process answers each once with an `Answer`. The process
says by itself that it has joined the cluster (`Joined`), what its nodes are (`Nodes`, first all, then those
that changed), and why it ends (`Ended`). Everything is a frozen struct in a closed union. Lines that the
process cannot read end it; lines that the gateway cannot read end the process, too.

A node is known by Ray's id of it, in hexadecimal. A reservation is known by a key that the gateway chooses;
all gateways of a cluster share the reservations, so that the same key is the same reservation for all.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from mcpx.cluster.node.starting import NodeAddress
from mcpx.cluster.placement import NodeView

MAX_LINE_BYTES: Final = 64 * 1024 * 1024  # the whole table of some ten thousand nodes
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024  # of a value in the store; Ray's GCS keeps it in memory

ALLOW_OPEN: Final = "--allow-open"  # on the command line of the process

RESERVE_TIMEOUT_S: Final = 5.0  # then Ray has no node for it now
REQUEST_TIMEOUT_S: Final = 5.0  # of all others; Ray's store answers within milliseconds


# --- what the gateway asks --------------------------------------------------------------------------


class _Asked(msgspec.Struct, frozen=True, tag_field="do"):
    """The base of all requests: each has an id, which its answer repeats."""

    id: int


class Reserve(_Asked, frozen=True, tag="reserve", omit_defaults=True):
    """Have Ray choose a node for a server, and keep the resources there.

    A reservation of that key stays as it is while its node lives and is not in `exclude` and it asks for the
    same; otherwise it is made anew. `node` is a node's name, id, host or label (`key=value`). `spread` keeps
    it away from others that say so, as far as there are nodes. The answer has `node`.
    """

    key: str
    resources: dict[str, float] = {}
    memory_bytes: int = 0
    node: str | None = None
    spread: bool = False
    exclude: tuple[str, ...] = ()


class Release(_Asked, frozen=True, tag="release"):
    """Give up the reservation of that key; there need be none."""

    key: str


class Reservations(_Asked, frozen=True, tag="reservations"):
    """Ask for all reservations that have a node. The answer has `reservations`."""


class Get(_Asked, frozen=True, tag="get"):
    """Read from the cluster's store. The answer has `value`, which is null if there is none."""

    key: str


class Put(_Asked, frozen=True, tag="put", omit_defaults=True):
    """Write to the cluster's store; without `overwrite` only if there is none.

    The answer has `value`: what is there now.
    """

    key: str
    value: str
    overwrite: bool = True


class Delete(_Asked, frozen=True, tag="delete"):
    """Remove a key from the cluster's store; it need not be there."""

    key: str


class Keys(_Asked, frozen=True, tag="keys"):
    """List the keys of the cluster's store that begin so. The answer has `keys`, sorted."""

    prefix: str


class Drain(_Asked, frozen=True, tag="drain"):
    """Note for all gateways that a node takes nothing new, or that it does again. `node` is its id."""

    node: str
    draining: bool


class StartNodes(_Asked, frozen=True, tag="start_nodes"):
    """Keep nodes running again, after `StopNodes`."""


class StopNodes(_Asked, frozen=True, tag="stop_nodes"):
    """End all nodes and give up all reservations, for all gateways, until one says `StartNodes`."""


Request = Reserve | Release | Reservations | Get | Put | Delete | Keys | Drain | StartNodes | StopNodes


# --- what the process says --------------------------------------------------------------------------


class Joined(msgspec.Struct, frozen=True, tag_field="say", tag="joined"):
    """The process has joined the cluster.

    `token` and `certificate` (PEM) are those of all its nodes, made by the first gateway. `cluster` is Ray's
    id of the cluster: another one means that all nodes are others. `is_open` says that Ray answers everybody
    who reaches it, without a token.
    """

    address: str
    cluster: str
    ray_version: str
    token: str
    certificate: str
    is_open: bool = False

    def __repr__(self) -> str:
        return f"Joined(address={self.address!r}, cluster={self.cluster!r}, ray_version={self.ray_version!r})"


ActorState = Literal["none", "starting", "running", "failing", "stopped"]


class NodeRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as Ray knows it.

    `name` is unique: its label `mcpx.node`, else the name or host that Ray knows, with the beginning of its
    id where others have the same; `given_name` is it without that, where it was added. `resources` are all
    that it has, `free` those that nobody has reserved. `endpoint` is there while the node runs; `actor` says
    how far it is, and `problem` why it does not run.
    """

    id: str
    name: str
    host: str
    alive: bool = True
    draining: bool = False
    resources: dict[str, float] = {}
    free: dict[str, float] = {}
    labels: dict[str, str] = {}
    endpoint: NodeAddress | None = None
    actor: ActorState = "none"
    problem: str | None = None
    given_name: str = ""

    def view(self, **known: Any) -> NodeView:
        """Return the node for a decision, with what else is `known` of it."""
        return NodeView(
            id=self.id,
            name=self.name,
            host=self.host,
            labels=self.labels,
            total=self.resources,
            free=self.free,
            given_name=self.given_name,
            **known,
        )


class Nodes(msgspec.Struct, frozen=True, tag_field="say", tag="nodes", omit_defaults=True):
    """Nodes that are new or have changed; those in `gone` are dead, and not listed any more.

    The first of a process has all nodes and says `complete`: others that were known before are gone.
    """

    nodes: tuple[NodeRecord, ...] = ()
    gone: tuple[str, ...] = ()
    complete: bool = False


RequestError = Literal["no_node", "unavailable", "invalid"]


class Answer(msgspec.Struct, frozen=True, tag_field="say", tag="answer", omit_defaults=True):
    """The answer to the request of that id: what its docstring says, or an `error` for a person.

    `code` is that of the error: `no_node` (Ray has none for the reservation, now or ever: the text says which
    resource is missing), `unavailable` (Ray did not answer in time), `invalid` (the request makes no sense).
    """

    id: int
    node: str | None = None
    value: str | None = None
    keys: tuple[str, ...] = ()
    reservations: dict[str, str] = {}
    error: str | None = None
    code: RequestError | None = None


class Ended(msgspec.Struct, frozen=True, tag_field="say", tag="ended", omit_defaults=True):
    """The last line of a process: why it ends.

    `final` means that starting it again cannot help: Ray is not installed, or is another version.
    """

    reason: str
    final: bool = False


Say = Joined | Nodes | Answer | Ended


class JoinError(Exception):
    """There is no joining that cluster, and why. With `is_final`, not before somebody changes something."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final

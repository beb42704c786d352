"""What the cluster asks of Ray: which nodes there are, and who goes where; `ray_client.RayProcess` is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mcpx.cluster.ray_process.protocol import Joined, NodeRecord


class Ray(Protocol):
    """The link to Ray. What is known of the nodes stays while it is away."""

    joined: Joined | None
    problem: str | None
    """Why Ray cannot be asked now; None while it can."""
    nodes: Mapping[str, NodeRecord]

    def observe(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Have `observer` called after each change of these; the result ends that."""
        ...

    async def reserve(
        self,
        key: str,
        *,
        resources: Mapping[str, float],
        memory_bytes: int = 0,
        node: str | None = None,
        spread: bool = False,
        exclude: tuple[str, ...] = (),
    ) -> str:
        """The id of the node that Ray chooses for that key, and keeps the resources on.

        Raises:
            RayError: There is none, or Ray cannot be asked.
        """
        ...

    async def release(self, key: str) -> None:
        """Give up what was reserved for that key.

        Raises:
            RayError: Ray cannot be asked.
        """
        ...

    async def drain(self, node: str, *, draining: bool) -> None:
        """Note for all gateways that the node of this id takes nothing new, or that it does again.

        Raises:
            RayError: Ray cannot be asked.
        """
        ...

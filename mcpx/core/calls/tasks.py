"""The tasks that servers have answered calls with, by the clients whose they are (2026-07-28).

A client asks for its task by an id. Here is known only which server that is of: what a task is, and whether
there is one, the server alone says. A task belongs to what its client calls itself, with the token that it
came with where that has a name (`ClientId.principal`), so it is found when the client connects again, in
whatever way; to any other client its id is unknown. An id is the server's own;
where a client has a task of another server by the same id, the later one is shown to it as `SERVER:ID`.

Owned by the hub, on its event loop. A task is forgotten some time after it may be gone, and none is known for
longer than `MAX_AGE_S` after it was last heard of. At most `MAX_TASKS` are known: the client with most loses
the one that was not heard of for longest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mcpx.core.rendering.result_members import Members
from mcpx.core.rendering.result_reading import not_protocol

MAX_TASKS: Final = 10_000
MAX_AGE_S: Final = 7 * 24 * 3600.0
GRACE_S: Final = 3600.0  # beyond the time to live, for the server to say itself that a task is gone
MAX_ID_CHARS: Final = 1024
_TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})  # states of a task
MAX_OWNER_CHARS: Final = 256  # of what a client calls itself


class Task(msgspec.Struct, frozen=True):
    """A task of one client."""

    owner: str
    shown_id: str
    """As the client knows it."""
    server: str
    id: str
    """As the server knows it."""
    until: float
    """When it is forgotten, by the clock of the table."""
    open: bool = True
    """Whether the server has work or a question left, as far as its client was told."""


class Tasks:
    """The tasks that are known, by their owners and the ids that these use."""

    def __init__(self, *, max_tasks: int = MAX_TASKS, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_tasks = max_tasks
        self._clock = clock
        self._by_owner: dict[str, dict[str, Task]] = {}  # each owner's longest unheard first

    def __len__(self) -> int:
        return sum(map(len, self._by_owner.values()))

    def give(self, result: Members, *, server: str, owner: str) -> Members:
        """A server's answer that is a task, for the client that called: with the id that this one is to use.

        Raises:
            CallError: `protocol_error`: it has no id.
        """
        task_id = _value(result.get("taskId"))
        if not isinstance(task_id, str) or len(task_id) > MAX_ID_CHARS:
            wanted = f"a string of at most {MAX_ID_CHARS} characters"
            raise not_protocol(f"the `taskId` of a task must be {wanted}; it may have taken effect", server)
        owner = owner[:MAX_OWNER_CHARS]
        known, shown_id = self._by_owner.get(owner, {}), task_id
        while (other := known.get(shown_id)) is not None and (other.server, other.id) != (server, task_id):
            shown_id = f"{server}:{shown_id}"
        return self.heard(Task(owner, shown_id, server, task_id, 0.0), result)

    def find(self, shown_id: str, *, owner: str) -> Task | None:
        """The task that this client calls so; None where it has none, or has had none for long."""
        task = self._by_owner.get(owner[:MAX_OWNER_CHARS], {}).get(shown_id)
        return None if task is None or task.until < self._clock() else task

    def heard(self, task: Task, result: Members) -> Members:
        """Rewrite what the server said of a task for its client; the task is known for as long again."""
        self._forget(task)
        if len(self) >= self._max_tasks:
            self._make_room()
        is_open = task.open if "status" not in result else _value(result["status"]) not in _TERMINAL
        renewed = msgspec.structs.replace(task, until=self._clock() + _lifetime_s(result), open=is_open)
        self._by_owner.setdefault(task.owner, {})[task.shown_id] = renewed
        if task.shown_id == task.id or "taskId" not in result:
            return result
        return result | {"taskId": task.shown_id}

    def has_open(self, server: str) -> bool:
        """Return True if the server works on a task, so that it must not be stopped."""
        now = self._clock()
        known = (task for tasks in self._by_owner.values() for task in tasks.values())
        return any(task.server == server and task.open and task.until >= now for task in known)

    def _make_room(self) -> None:
        """Forget the tasks that are over, or at least one."""
        now = self._clock()
        known = [task for tasks in self._by_owner.values() for task in tasks.values()]
        for task in known:
            if task.until < now:
                self._forget(task)
        while len(self) >= self._max_tasks:
            most = max(self._by_owner.values(), key=len)
            self._forget(next(iter(most.values())))

    def _forget(self, task: Task) -> None:
        tasks = self._by_owner.get(task.owner, {})
        tasks.pop(task.shown_id, None)
        if not tasks:
            self._by_owner.pop(task.owner, None)


def _lifetime_s(result: Members) -> float:
    """Return the seconds for which to know a task of which the server said this."""
    ttl_ms = _value(result.get("ttlMs"))
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int | float) or not ttl_ms >= 0:
        return MAX_AGE_S
    return min(ttl_ms / 1000 + GRACE_S, MAX_AGE_S)


def _value(member: Any) -> Any:
    """A member that may be JSON."""
    if not isinstance(member, msgspec.Raw):
        return member
    try:
        return msgspec.json.decode(member)
    except (msgspec.DecodeError, RecursionError):
        return None

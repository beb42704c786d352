"""The actors of this cluster's nodes: one for each, made where there is none, and followed.

Of each actor one question is always open: how is your node, once that has changed. Ray answers it at once
with an error when the actor is lost, which is as good a word. Nothing here waits for an actor, so that one
machine that hangs delays no other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import ray
from msgspec.structs import replace
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mcpx.cluster.node.starting import Credentials, NodeStart
from mcpx.cluster.ray_process.joining import NAMESPACE
from mcpx.cluster.ray_process.node_actor import MAX_CONCURRENCY, NodeActor, NodeState
from mcpx.cluster.ray_process.protocol import ActorState, NodeRecord
from mcpx.core.text import one_line

PREFIX: Final = "mcpx-node-"
AGAIN_S: Final = 0.5  # after an actor could not be asked: Ray is starting it again
ANEW_S: Final = 5.0  # after an actor was given up for good: it is made anew
READ_TIMEOUT_S: Final = 2.0  # for an answer that is there
MAX_PROBLEM: Final = 1_000  # characters
STOP_TIMEOUT_S: Final = 10.0  # for a node to end in order
STOP_MARGIN_S: Final = 2.0  # for Ray to say so
_ALL: Final = -1  # a revision that no state has


class _Followed:
    """One actor: its handle, the question that is open, and what is known of its node."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.question: Any = None
        self.ask_at = 0.0
        self.state = NodeState(_ALL, "starting")
        self.is_dead = False


class Actors:
    """The actors that this process knows. `credentials` are those that new ones are made with."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._followed: dict[str, _Followed] = {}

    def keep(self, nodes: Iterable[NodeRecord]) -> None:
        """Have an actor on each of these nodes, and none of others known here."""
        wanted = {node.id: node for node in nodes}
        for gone in self._followed.keys() - wanted.keys():
            del self._followed[gone]
        now = time.monotonic()
        for node in wanted.values():
            known = self._followed.get(node.id)
            if known is None or (known.is_dead and now >= known.ask_at):
                self._followed[node.id] = _Followed(self._make(node))
        self._ask(now)

    def forget(self) -> None:
        """Follow none any more."""
        self._followed.clear()

    def look(self, seconds: float) -> None:
        """Take in what actors have answered, for at most so long."""
        open_questions = {
            known.question: known for known in self._followed.values() if known.question is not None
        }
        if not open_questions:
            time.sleep(seconds)
            return
        answered, _ = ray.wait(list(open_questions), num_returns=1, timeout=seconds)
        if answered:  # and all the others that are there by now
            answered, _ = ray.wait(list(open_questions), num_returns=len(open_questions), timeout=0)
        now = time.monotonic()
        for question in answered:
            _take(open_questions[question], question, now)
        self._ask(now)

    def describe(self, node: NodeRecord) -> NodeRecord:
        """The same node, with how its actor is."""
        known = self._followed.get(node.id)
        if known is None:
            return replace(node, actor="none", endpoint=None, problem=None)
        state: ActorState = known.state.state
        return replace(node, actor=state, endpoint=known.state.address, problem=known.state.problem)

    def take(self) -> list[Any]:
        """The handles of those that live, which are not followed any more."""
        known, self._followed = list(self._followed.values()), {}
        return [each.handle for each in known if not each.is_dead]

    def _ask(self, now: float) -> None:
        for known in self._followed.values():
            if known.question is None and not known.is_dead and now >= known.ask_at:
                known.question = known.handle.follow.remote(known.state.revision)

    def _make(self, node: NodeRecord) -> Any:
        """The actor of that node, which may have been there before; Ray makes it while we go on."""
        secrets = msgspec.structs.asdict(self._credentials)
        setup = NodeStart(name=node.name, host=node.host, state="", **secrets)
        options = {
            "name": PREFIX + node.id,
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
            "num_cpus": 0,
            "max_restarts": -1,
            "max_task_retries": 0,
            "max_concurrency": MAX_CONCURRENCY,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node.id, soft=False),
        }
        return ray.remote(NodeActor).options(**options).remote(msgspec.json.encode(setup))


def stop(actors: Iterable[Any]) -> None:
    """End actors and their nodes: in order, for `STOP_TIMEOUT_S`, then at once. Waits for that."""
    known = list(actors)
    ends = [each.end.remote(STOP_TIMEOUT_S) for each in known]
    if ends:
        ray.wait(ends, num_returns=len(ends), timeout=STOP_TIMEOUT_S + STOP_MARGIN_S)
    for each in known:
        ray.kill(each, no_restart=True)


def _take(known: _Followed, question: Any, now: float) -> None:
    """Note the answer to a question, or what Ray says instead."""
    known.question = None
    try:
        known.state = msgspec.json.decode(ray.get(question, timeout=READ_TIMEOUT_S), type=NodeState)
    except ActorUnavailableError:
        known.state = NodeState(_ALL, "starting", problem="Ray is starting its actor again")
        known.ask_at = now + AGAIN_S
    except ActorDiedError as error:
        known.state = NodeState(_ALL, "failing", problem=one_line(str(error), MAX_PROBLEM))
        known.is_dead, known.ask_at = True, now + ANEW_S
    except (GetTimeoutError, RayError, msgspec.DecodeError) as error:
        known.state = NodeState(_ALL, "failing", problem=one_line(str(error), MAX_PROBLEM))
        known.ask_at = now + AGAIN_S

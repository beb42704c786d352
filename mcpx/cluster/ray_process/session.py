"""One membership of a Ray cluster: its nodes, the actors on them, and the answers to the gateway's requests.

`look` and `wait` are the main thread's, `answer` is called by several threads at a time; between them lies
the table of nodes, which is replaced as a whole. To read it is one question to Ray's GCS for the nodes, named
so that people can tell them apart, and one for what is free.

There is an actor for each node, made where there is none, and followed. Of each actor one question is always
open: how is your node, once that has changed. Ray answers it at once with an error when the actor is lost,
which is as good a word. Nothing here waits for an actor, so that one machine that hangs delays no other.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import ray
from msgspec.structs import replace
from ray._private.state import state as ray_state  # no public function says what is free on each node
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mcpx.cluster.node.starting import Credentials, NodeStart
from mcpx.cluster.ray_process import protocol as ask
from mcpx.cluster.ray_process.joining import NAMESPACE, Flags, Store
from mcpx.cluster.ray_process.node_actor import MAX_CONCURRENCY, NodeActor, NodeState
from mcpx.cluster.ray_process.protocol import ActorState, Answer, NodeRecord, Nodes, Request
from mcpx.cluster.ray_process.reservations import NoNodeError, Reservations
from mcpx.core.text import one_line

PREFIX: Final = "mcpx-node-"
AGAIN_S: Final = 0.5  # after an actor could not be asked: Ray is starting it again
ANEW_S: Final = 5.0  # after an actor was given up for good: it is made anew
READ_TIMEOUT_S: Final = 2.0  # for an answer that is there
MAX_PROBLEM: Final = 1_000  # characters
STOP_TIMEOUT_S: Final = 10.0  # for a node to end in order
STOP_MARGIN_S: Final = 2.0  # for Ray to say so
_ALL: Final = -1  # a revision that no state has
MAX_NAME: Final = 200  # characters of a node's name, which is shown and logged
NAME_LABEL: Final = "mcpx.node"
ID_DIGITS: Final = 6  # of an id in a name
_NO_RESOURCES: Final = ("node:", "object_store_memory", "bundle_group_")


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


def read_nodes(flags: Flags) -> dict[str, NodeRecord]:
    """The nodes that live, by id. What their actors are is not known here."""
    free: dict[str, dict[str, float]] = ray_state.available_resources_per_node()  # type: ignore[no-untyped-call]
    leaving: Mapping[str, int] = ray_state.get_draining_nodes()
    drained = flags.drained | leaving.keys()
    return named(
        to_record(entry, free.get(entry["NodeID"], {}), draining=entry["NodeID"] in drained)
        for entry in ray.nodes()  # type: ignore[no-untyped-call]
        if entry["Alive"]
    )


def to_record(entry: Mapping[str, Any], free: Mapping[str, float], *, draining: bool) -> NodeRecord:
    """A node of Ray's table. Its name may still be another's, too."""
    host = str(entry["NodeManagerAddress"])
    labels = {str(key): str(value) for key, value in entry.get("Labels", {}).items()}
    given = str(entry.get("NodeName") or "")
    name = labels.get(NAME_LABEL) or (given if given != host else "") or str(entry["NodeManagerHostname"])
    return NodeRecord(
        id=entry["NodeID"],
        name=one_line(name, MAX_NAME) or host,
        host=host,
        draining=draining,
        resources=_resources(entry.get("Resources", {})),
        free=_resources(free),
        labels=labels,
    )


def named(records: Iterable[NodeRecord]) -> dict[str, NodeRecord]:
    """Return the records by id, each with a name that no other has."""
    known = {record.id: record for record in records}
    count = Counter(record.name for record in known.values())
    return {
        node: replace(record, name=f"{record.name}-{node[:ID_DIGITS]}", given_name=record.name)
        if count[record.name] > 1
        else record
        for node, record in known.items()
    }


def difference(before: Mapping[str, NodeRecord] | None, after: Mapping[str, NodeRecord]) -> Nodes | None:
    """Return the changes from the first table to the second; None if there are none."""
    if before is None:
        return Nodes(tuple(after.values()), complete=True)
    changed = tuple(record for node, record in after.items() if before.get(node) != record)
    gone = tuple(before.keys() - after.keys())
    return Nodes(changed, gone) if changed or gone else None


def _resources(amounts: Mapping[str, float]) -> dict[str, float]:
    """Keep the resources that servers ask for. A placement group's own names are Ray's business."""
    return {
        str(key): float(amount)
        for key, amount in amounts.items()
        if not key.startswith(_NO_RESOURCES) and "_group_" not in key
    }


class Session:
    """One membership of a cluster."""

    def __init__(self) -> None:
        self._store = Store()
        self._actors = Actors(self._store.credentials())
        self._nodes: Mapping[str, NodeRecord] = {}
        self._said: Mapping[str, NodeRecord] | None = None
        self._reservations = Reservations(lambda: self._nodes)
        self._keeping = threading.Lock()

    # --- the main thread's

    def look(self) -> Nodes | None:
        """Look at the nodes, have an actor on each, and return what has changed since the last time."""
        with self._keeping:  # none is made after nodes were stopped by what was read before
            flags = self._store.flags()
            nodes = read_nodes(flags)
            if flags.stopped:
                self._actors.forget()
            else:
                self._actors.keep(nodes.values())
        described = {node: self._actors.describe(record) for node, record in nodes.items()}
        for node in flags.drained - described.keys():
            self._store.drain(node, draining=False)  # it does not come back under this id
        news = difference(self._said, described)
        self._nodes = self._said = described
        return news

    def wait(self, seconds: float) -> None:
        """Wait for actors to say something, at most so long."""
        self._actors.look(seconds)

    # --- the requests

    def answer(self, request: Request) -> Answer:
        """Carry out a request.

        Raises:
            RayError: Ray did not do it.
        """
        number = request.id
        try:
            return self._answer(request)
        except NoNodeError as error:
            return Answer(number, error=str(error), code="no_node")
        except ValueError as error:
            return Answer(number, error=str(error), code="invalid")

    def _answer(self, request: Request) -> Answer:  # noqa: C901 - one line for each request
        number = request.id
        match request:
            case ask.Reserve():
                return Answer(number, node=self._reservations.reserve(request))
            case ask.Release(key=key):
                self._reservations.release(key)
            case ask.Reservations():
                return Answer(number, reservations=self._reservations.all())
            case ask.Get(key=key):
                return Answer(number, value=self._store.get(key))
            case ask.Put(key=key, value=value, overwrite=overwrite):
                return Answer(number, value=self._store.put(key, value, overwrite=overwrite))
            case ask.Delete(key=key):
                self._store.delete(key)
            case ask.Keys(prefix=prefix):
                return Answer(number, keys=self._store.keys(prefix))
            case ask.Drain(node=node, draining=draining):
                if node not in self._nodes:
                    raise ValueError(f"there is no node {node}")
                self._store.drain(node, draining=draining)
            case ask.StartNodes():
                self._store.stop(stopped=False)
            case ask.StopNodes():
                self._stop_nodes()
        return Answer(number)

    def _stop_nodes(self) -> None:
        with self._keeping:
            self._store.stop(stopped=True)
            ending = self._actors.take()
        stop(ending)
        self._reservations.release_all()

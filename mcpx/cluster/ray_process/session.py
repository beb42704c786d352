"""What this process knows of the cluster that it has joined, and the answers to what the gateway asks.

`look` and `wait` are the main thread's, `answer` is called by several threads at a time; between them lies
the table of nodes, which is replaced as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from mcpx.cluster.ray_process import protocol as ask
from mcpx.cluster.ray_process.actors import Actors, stop
from mcpx.cluster.ray_process.nodes import difference, read_nodes
from mcpx.cluster.ray_process.protocol import Answer, NodeRecord, Nodes, Request
from mcpx.cluster.ray_process.reservations import NoNodeError, Reservations
from mcpx.cluster.ray_process.store import Store


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

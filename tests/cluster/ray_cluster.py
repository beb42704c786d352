"""A Ray cluster on this machine, for the tests: `python ray_cluster.py FOLDER NODES`, driven by lines.

NODES is a JSON object: what each node has (`{"two": {"far": 9}}`), the head first. It prints its address and
the nodes with their ids and raylets, and does what it is told, a line each: `add NAME`, `gone NAME` (clean up
after one whose processes were killed), `table` (Ray's own: nodes, placement groups, and when it has noticed
deaths). What it cannot do it answers with an `error`. It ends, with everything, when its input does. A
process of its own, so that Ray is not in that of the tests.
"""

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_DISABLE_MEMORY_MONITOR", "1")
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # workers that nobody needs, two a node

from ray.cluster_utils import Cluster

OBJECT_STORE = 80 * 1024 * 1024
ALONE = {"include_dashboard": False, "no_monitor": True, "include_log_monitor": False}  # they take seconds
LOOK_S = 0.1
Said = dict[str, Any]


def say(**what: Any) -> None:
    os.write(OUT, json.dumps(what).encode() + b"\n")


class Nodes:
    """The cluster and its nodes, by name."""

    def __init__(self, folder: str, wanted: dict[str, dict[str, float]]) -> None:
        self._wanted = wanted
        # Ray notes the last address in a folder that it does not make, and that clusters must not share
        os.environ["RAY_TMPDIR"] = folder
        (Path(folder) / "ray").mkdir(exist_ok=True)
        self._cluster = Cluster(shutdown_at_exit=True)
        self._nodes: dict[str, Any] = {}
        self._deaths: dict[str, float] = {}
        self._reading = threading.Lock()
        for name in wanted:
            head = {} if self._nodes else {**ALONE, "temp_dir": folder}
            self._nodes[name] = self._add(name, **head)
        self._cluster.wait_for_nodes()
        self.address = self._cluster.address
        threading.Thread(target=self._watch, daemon=True).start()

    def add(self, name: str) -> Said:
        """Add a node that was killed."""
        self._nodes[name] = self._add(name)
        return self.about(name)

    def gone(self, name: str) -> Said:
        """Forget one that was killed."""
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)
        return {}

    def about(self, name: str) -> Said:
        """A node's id, and the process that all else on it descends from."""
        node = self._nodes[name]
        return {"name": name, "id": node.node_id, "pid": node.all_processes["raylet"][0].process.pid}

    def all(self) -> list[Said]:
        """Those that were not killed."""
        return [self.about(name) for name in self._nodes]

    def table(self) -> Said:
        """What Ray knows."""
        with self._reading:
            groups = self._cluster.global_state.placement_group_table().values()
            living = [each["NodeID"] for each in self._cluster.global_state.node_table() if each["Alive"]]
        placed = {each["name"]: each["bundles_to_node_id"] for each in groups if each["state"] == "CREATED"}
        return {
            "living": living,
            "deaths": self._deaths,
            "groups": {name: bundles.get(0) for name, bundles in placed.items()},
        }

    def close(self) -> None:
        """End all."""
        self._cluster.shutdown()

    def _add(self, name: str, **more: Any) -> Any:
        resources = dict(self._wanted[name])
        return self._cluster.add_node(
            num_cpus=resources.pop("cpus", 2),
            resources=resources,
            labels={"mcpx.node": name},
            object_store_memory=OBJECT_STORE,
            wait=False,
            **more,
        )

    def _watch(self) -> None:
        """Note when Ray's table says that a node is dead."""
        while True:
            with self._reading:
                table = self._cluster.global_state.node_table()
            for each in table:
                if not each["Alive"]:
                    self._deaths.setdefault(each["NodeID"], time.time())
            time.sleep(LOOK_S)


def main() -> None:
    nodes = Nodes(sys.argv[1], json.loads(sys.argv[2]))
    say(address=nodes.address, nodes=nodes.all())
    for line in sys.stdin:
        what, *name = line.split()
        try:
            answer = getattr(nodes, what)(*name)
        except Exception as error:  # noqa: BLE001 - the boundary: whoever asked is told
            traceback.print_exc()
            answer = {"error": repr(error)}
        say(**answer)
    nodes.close()


OUT = os.dup(1)
os.dup2(2, 1)  # what Ray prints is no answer
if __name__ == "__main__":
    main()

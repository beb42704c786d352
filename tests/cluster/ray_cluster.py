"""A Ray cluster on this machine, for the tests: `python ray_cluster.py FOLDER`, driven by lines.

It prints its address, and does what it is told, a line each: `kill NAME` ends a node as if its machine had
lost its power, `add NAME` adds one. It ends, with everything, when its input does. A process of its own, so
that Ray is not in that of the tests.
"""

import json
import os
import sys
import time
from typing import Any

os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"
os.environ["RAY_enable_metrics_collection"] = "0"

from ray.cluster_utils import Cluster

OBJECT_STORE = 80 * 1024 * 1024
RESOURCES: dict[str, dict[str, float]] = {"one": {}, "two": {"far": 9}, "three": {"far": 9, "gpu": 1}}


def say(**what: Any) -> None:
    os.write(OUT, json.dumps(what).encode() + b"\n")


def add(cluster: Cluster, name: str, **more: Any) -> Any:
    return cluster.add_node(
        num_cpus=2,
        resources=RESOURCES.get(name, {}),
        labels={"mcpx.node": name},
        object_store_memory=OBJECT_STORE,
        **more,
    )


def main() -> None:
    cluster = Cluster(shutdown_at_exit=True)
    nodes = {"one": add(cluster, "one", include_dashboard=False, temp_dir=sys.argv[1])}
    nodes |= {name: add(cluster, name, wait=False) for name in RESOURCES if name != "one"}
    cluster.wait_for_nodes()
    say(address=cluster.address)
    for line in sys.stdin:
        what, name = line.split()
        if what == "kill":
            node = nodes.pop(name)
            say(at=time.time())
            cluster.remove_node(node, allow_graceful=False)
        else:
            nodes[name] = add(cluster, name)
        say(done=what)
    cluster.shutdown()


OUT = os.dup(1)
os.dup2(2, 1)  # what Ray prints is no answer
if __name__ == "__main__":
    main()

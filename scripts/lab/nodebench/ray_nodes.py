"""A Ray cluster of some nodes on this machine, for a measurement: `python ray_nodes.py FOLDER NUMBER`.

Prints its address as a line, and ends, with everything, when its input does. A process of its own, so that
Ray is not in the one that measures. The n-th node has the labels `upto-n=yes` to `upto-NUMBER=yes`: a server
that wants `upto-2=yes` is on one of two nodes.
"""

from __future__ import annotations

import os
import sys

os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"

from ray.cluster_utils import Cluster

OBJECT_STORE = 80 << 20  # bytes, the least that Ray takes; nothing is put there


def main() -> None:
    """Run the cluster until standard input ends."""
    told = os.dup(1)
    os.dup2(2, 1)  # what Ray prints is no answer
    folder, number = sys.argv[1], int(sys.argv[2])
    cluster = Cluster(shutdown_at_exit=True)
    for each in range(1, number + 1):
        labels = {f"upto-{most}": "yes" for most in range(each, number + 1)}
        first = {"include_dashboard": False, "temp_dir": folder} if each == 1 else {"wait": False}
        cluster.add_node(
            num_cpus=2, labels={"mcpx.node": f"n{each}", **labels}, object_store_memory=OBJECT_STORE, **first
        )
    cluster.wait_for_nodes()
    os.write(told, f"{cluster.address}\n".encode())
    sys.stdin.read()
    cluster.shutdown()


main()

"""A Ray cluster of one node on this machine: `python ray_node.py FOLDER`.

It prints its address, and ends with everything when its input does. A process of its own, so that Ray is not
in that of the benchmark.
"""

import os
import sys

os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"

from ray.cluster_utils import Cluster

OBJECT_STORE = 80 * 1024 * 1024


def main() -> None:
    """Run it until the input ends."""
    out = os.dup(1)
    os.dup2(2, 1)  # what Ray prints is no answer
    cluster = Cluster(shutdown_at_exit=True)
    cluster.add_node(
        num_cpus=2, include_dashboard=False, temp_dir=sys.argv[1], object_store_memory=OBJECT_STORE
    )
    cluster.wait_for_nodes()
    os.write(out, cluster.address.encode() + b"\n")
    sys.stdin.read()
    cluster.shutdown()


main()

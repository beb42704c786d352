"""Whether a configuration's servers run in a cluster, and in which: by `cluster.json`, or by the setting."""

from __future__ import annotations

from pathlib import Path

from mcpx.core.config.model import ClusterLink, Config
from mcpx.core.store.cluster_file import read_cluster_file


def cluster_link(config: Config, folder: Path) -> ClusterLink | None:
    """The cluster; None where there is none. `folder` is the configuration's.

    Raises:
        DaemonError: `cluster.json` cannot be read.
    """
    file = read_cluster_file(folder)
    return config.cluster if file is None else ClusterLink(address=file.address, allow_open=file.allow_open)

"""Whether a configuration's servers run in a cluster, and in which: by `cluster.json`, or by the setting."""

from __future__ import annotations

from pathlib import Path

from mcpx.config.model import Config
from mcpx.daemon.cluster_file import read_cluster_file


def cluster_address(config: Config, folder: Path) -> str | None:
    """The address of Ray's GCS, or `auto`; None where there is no cluster. `folder` is the configuration's.

    Raises:
        DaemonError: `cluster.json` cannot be read.
    """
    return read_cluster_file(folder) or (config.cluster.address if config.cluster is not None else None)

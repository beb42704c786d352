"""What the command line knows of a cluster by itself: whether there is one, and what is left to run here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpx.core.config import Config


def is_clustered(config: Config) -> bool:
    """Whether the commands of this configuration run on the nodes of a cluster.

    Raises:
        DaemonError: That cannot be read.
    """
    from mcpx.core.config.load import cluster_link
    from mcpx.paths import configuration_folder

    return cluster_link(config, configuration_folder(config.source)) is not None


def started_here(config: Config) -> Config:
    """The configuration as its servers run, so that none is started here that belongs on a node.

    Raises:
        DaemonError: It cannot be read whether there is a cluster.
    """
    if not is_clustered(config):
        return config
    from mcpx.cluster.node.spec import cluster_config

    return cluster_config(config)

"""The optional parts of MCPX: one table, from which each is loaded by its name when it is needed.

The core knows none of them; it has ports (`mcpx.core.daemon.ports`) that they fit. Here and in `mcpx.app`
both are put together. `open_hub` is for programs: a hub with sign-in, and with the servers of other MCPX.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import structlog

from mcpx.core.config import Config
from mcpx.core.config.load import cluster_link
from mcpx.core.daemon.hub import Hub, Ports, running
from mcpx.core.daemon.ports import Cluster
from mcpx.core.telemetry.log import configure
from mcpx.paths import configuration_folder

PARTS: Final = {
    "accounts": "mcpx.oauth.accounts:Accounts",
    "sign-ins": "mcpx.oauth.sign_ins:SignIns",
    "peers": "mcpx.cluster.federation.federation:Federation",
    "own id": "mcpx.cluster.federation.own_directory:own_id",
    "cluster": "mcpx.cluster.membership:Membership",
    "replicas": "mcpx.cluster.replicas.routing:Replica",
    "page": "mcpx.page.page:Page",
}


def part(name: str) -> Any:
    """Load a part, by its name in `PARTS`."""
    module, _, attribute = PARTS[name].partition(":")
    return getattr(import_module(module), attribute)


def ports(config: Config, state: Path | None = None, *, cluster: Cluster[Hub] | None = None) -> Ports:
    """Return what hangs on a hub with that configuration; `state` is the state folder, if not the usual."""
    return Ports(
        open_accounts=part("accounts"),
        open_sign_ins=part("sign-ins"),
        peers=part("peers")(config.source, state),
        cluster=cluster,
    )


def cluster_of(config: Config) -> Cluster[Hub] | None:
    """Return the cluster that MCPX with that configuration is a gateway of, if there is one.

    Raises:
        DaemonError: It cannot be read whether there is one.
    """
    folder = configuration_folder(config.source)
    link = cluster_link(config, folder)
    if link is None:
        return None
    made: Cluster[Hub] = part("cluster")(link, folder=folder, gateway=part("own id")(folder))
    return made


@asynccontextmanager
async def open_hub(
    config: Config,
    *,
    state: Path | None = None,
    tokens: Path | None = None,
    cluster: Cluster[Hub] | None = None,
    **more: Any,
) -> AsyncIterator[Hub]:
    """Run a hub with the parts that hang on it, with parameters as of `Hub`; stopped in order when left.

    What the body raises comes out as it is. A program that has not configured structlog gets warnings on
    standard error.
    """
    if not structlog.is_configured():
        configure("warning")
    hub = Hub(config, ports(config, state, cluster=cluster), state=state, tokens=tokens, **more)
    async with running(hub):
        yield hub

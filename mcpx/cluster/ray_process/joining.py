"""Joining a Ray cluster that exists: as a driver on this machine's own Ray node, in the namespace of MCPX.

A cluster is never started here. Ray waits for minutes for a GCS that does not listen, and then ends its
process without a word, so the address is tried first.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import ray
from ray._private.worker import global_worker  # Ray has no public name for the id of its cluster

from mcpx.cluster.ray_process.protocol import Joined
from mcpx.cluster.ray_process.store import Store

NAMESPACE: Final = "mcpx"
CONNECT_TIMEOUT_S: Final = 3.0
MAX_PORT: Final = 65_535


class JoinError(Exception):
    """There is no joining that cluster, and why. With `is_final`, not before somebody changes something."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


def join(address: str) -> Joined:
    """Join the cluster at that address, or with `auto` the one that Ray itself finds.

    Raises:
        JoinError: It cannot be joined.
    """
    if address != "auto":
        _try(address)
    try:
        context: Any = ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False
        )
    except ConnectionError as error:
        raise JoinError(_nothing_there(address, error)) from error
    except (RuntimeError, ValueError) as error:  # another version, or no Ray node on this machine
        raise JoinError(f"Ray does not let this process join {address}: {error}") from error
    worker: Any = global_worker
    credentials = Store().credentials()
    return Joined(
        address=str(context.address_info["gcs_address"]),
        cluster=worker.gcs_client.cluster_id.hex(),
        ray_version=ray.__version__,
        token=credentials.token,
        certificate=credentials.certificate,
    )


def _try(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise JoinError(f"{address} is no address: HOST:PORT of Ray's GCS, or auto", is_final=True)
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise JoinError(
            f"nothing listens at {address} ({error.strerror or error}): is it Ray's GCS?"
        ) from error


def _nothing_there(address: str, error: ConnectionError) -> str:
    if address == "auto":
        return (
            "no Ray cluster runs on this machine (ray start --head makes one; ray start --address=HOST:6379 "
            "has it join another)"
        )
    return f"no Ray cluster can be joined at {address}: {error}"

"""Joining a Ray cluster that exists, and the store of texts that its gateways share there.

This process becomes a driver on its machine's own Ray node, in the namespace of MCPX; a cluster is never
started here. The address has been tried before. Ray's store holds the token and the key of the nodes, so Ray
is asked first as a stranger would, without a token: a cluster that answers is open to every user of its
machines, and to every host that reaches it, and is joined only if that is wanted. For one that does not, the
token is where Ray looks for it: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH, or `~/.ray/auth_token`.

The store also says which nodes are drained and whether nodes are to run, and has whatever gateways `put`. All
of it lasts as long as Ray's GCS does: for ever only where that keeps its own state (`docs/deployment.md`).
Whoever may speak to the GCS can read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import ray
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._private.worker import global_worker  # Ray has no public name for the id of its cluster
from ray._raylet import Config, GcsClient  # type: ignore[attr-defined]  # compiled
from ray.exceptions import AuthenticationError, RaySystemError, RpcError
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from mcpx.cluster.node.starting import Credentials, make_credentials
from mcpx.cluster.ray_process.protocol import MAX_VALUE_BYTES, Joined, JoinError

NAMESPACE: Final = "mcpx"
_MODE: Final = "RAY_AUTH_MODE"
HOW: Final = (
    "run ray get-auth-token --generate, copy ~/.ray/auth_token to all machines, and start Ray everywhere with"
    " RAY_AUTH_MODE=token (docs/deployment.md, Security)"
)

NOT_TAKEN: Final = (
    "the Ray cluster wants a token, and the one here is missing or another: copy ~/.ray/auth_token from its"
    " head to this machine, or set RAY_AUTH_TOKEN_PATH for the daemon"
)
_NAMESPACE: Final = b"mcpx"
_CREDENTIALS: Final = "credentials"
_SHARED: Final = "shared/"
_FLAGS: Final = "flag/"
_DRAINED: Final = "drained/"
_STOPPED: Final = "stopped"


class Flags(msgspec.Struct, frozen=True):
    """Decisions of people: the ids of the nodes that are drained, and whether none may run."""

    drained: frozenset[str] = frozenset()
    stopped: bool = False


class Store:
    """The store of the cluster that this process has joined. Each call is one question to Ray's GCS."""

    def get(self, key: str) -> str | None:
        """The value of a key that gateways share."""
        return _read(_SHARED + key)

    def put(self, key: str, value: str, *, overwrite: bool) -> str:
        """Set a value, without `overwrite` only where there is none. Returns what is there then.

        Raises:
            ValueError: It is too long.
        """
        if len(value) > MAX_VALUE_BYTES:
            raise ValueError(f"a value of {len(value)} characters is too long for the cluster's store")
        return _write(_SHARED + key, value, overwrite=overwrite)

    def delete(self, key: str) -> None:
        """Remove a key, which need not be there."""
        _remove(_SHARED + key)

    def keys(self, prefix: str) -> tuple[str, ...]:
        """The keys that gateways share and that begin so, sorted."""
        return tuple(sorted(key.removeprefix(_SHARED) for key in _list(_SHARED + prefix)))

    def credentials(self) -> Credentials:
        """Return the credentials of the cluster; the first who asks makes them."""
        text = _read(_CREDENTIALS)
        if text is None:
            text = _write(_CREDENTIALS, msgspec.json.encode(make_credentials()).decode(), overwrite=False)
        return msgspec.json.decode(text, type=Credentials)

    def flags(self) -> Flags:
        """Return what people have decided."""
        names = [key.removeprefix(_FLAGS) for key in _list(_FLAGS)]
        drained = frozenset(name.removeprefix(_DRAINED) for name in names if name.startswith(_DRAINED))
        return Flags(drained, _STOPPED in names)

    def drain(self, node: str, *, draining: bool) -> None:
        """Note whether a node is drained."""
        self._flag(_DRAINED + node, is_set=draining)

    def stop(self, *, stopped: bool) -> None:
        """Note whether no node may run."""
        self._flag(_STOPPED, is_set=stopped)

    def _flag(self, name: str, *, is_set: bool) -> None:
        if is_set:
            _write(_FLAGS + name, "1", overwrite=True)
        else:
            _remove(_FLAGS + name)


def _read(key: str) -> str | None:
    value: bytes | None = _internal_kv_get(key, namespace=_NAMESPACE)
    return None if value is None else value.decode(errors="replace")


def _write(key: str, value: str, *, overwrite: bool) -> str:
    _internal_kv_put(key, value, overwrite, namespace=_NAMESPACE)
    if overwrite:
        return value
    return _read(key) or ""


def _remove(key: str) -> None:
    _internal_kv_del(key, namespace=_NAMESPACE)


def _list(prefix: str) -> list[str]:
    keys: list[bytes] = _internal_kv_list(prefix, namespace=_NAMESPACE)
    return [key.decode(errors="replace") for key in keys]


def join(address: str, *, allow_open: bool = False) -> Joined:
    """Join the cluster at that address, or with `auto` the one that Ray itself finds.

    Raises:
        JoinError: It cannot be joined, or it is open, without `allow_open`.
    """
    is_open = _is_open(address)
    if is_open and not allow_open:
        raise JoinError(
            "the Ray cluster answers without a token: whoever reaches it, other users of its machines too,"
            f" can run programs there and read the token and key of the nodes. To close it, {HOW};"
            " to join all the same: mcpx cluster start --allow-open",
            is_final=True,
        )
    if not is_open:
        os.environ[_MODE] = "token"
        Config.initialize("")
    try:
        context: Any = ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False
        )
    except ConnectionError as error:
        if not is_open and not _answers(address):
            raise JoinError(NOT_TAKEN, is_final=True) from error
        raise JoinError(_nothing_there(address, error)) from error
    except AuthenticationError as error:
        raise JoinError(NOT_TAKEN, is_final=True) from error
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
        is_open=is_open,
    )


def _is_open(address: str) -> bool:
    """Return True if Ray's GCS there answers without a token; raise JoinError if it does not answer."""
    with _as_stranger():
        return _answers(address)


def _answers(address: str) -> bool:
    """Return True if Ray's GCS takes the token that is shown; raise JoinError if it does not answer."""
    try:
        GcsClient(address=canonicalize_bootstrap_address_or_die(address))
    except AuthenticationError:
        return False
    except ConnectionError as error:
        raise JoinError(_nothing_there(address, error)) from error
    except (RaySystemError, RpcError, RuntimeError, ValueError) as error:
        raise JoinError(f"Ray's GCS at {address} cannot be asked: {error}") from error
    return True


@contextmanager
def _as_stranger() -> Iterator[None]:
    """Ask Ray without a token, whatever this process has."""
    wanted = os.environ.get(_MODE)
    os.environ[_MODE] = "disabled"
    Config.initialize("")
    try:
        yield
    finally:
        del os.environ[_MODE]
        if wanted is not None:
            os.environ[_MODE] = wanted
        Config.initialize("")


def _nothing_there(address: str, error: ConnectionError) -> str:
    if address == "auto":
        return (
            "no Ray cluster runs on this machine (ray start --head makes one; ray start --address=HOST:6379 "
            "has it join another)"
        )
    return f"no Ray cluster can be joined at {address}: {error}"

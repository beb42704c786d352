"""What all gateways of a cluster share, in the store of Ray's GCS: small texts by key.

Kept here are the token and the certificate of the nodes, which nodes are drained, whether nodes are to run,
and whatever gateways `put`. All of it lasts as long as Ray's GCS does: for ever only where that keeps its
own state (`docs/cluster.md`). Whoever may speak to the GCS can read it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_list,
    _internal_kv_put,
)

from mcpx.cluster.node.credentials import Credentials, make_credentials
from mcpx.cluster.ray_process.protocol import MAX_VALUE_BYTES

_NAMESPACE: Final = b"mcpx"
_CREDENTIALS: Final = "credentials"
_SHARED: Final = "shared/"
_FLAGS: Final = "flag/"
_DRAINED: Final = "drained/"
_STOPPED: Final = "stopped"


class Flags(msgspec.Struct, frozen=True):
    """What people have said: the ids of the nodes that are drained, and whether none may run."""

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
        """What the nodes of this cluster and its gateways know each other by; the first who asks makes it."""
        text = _read(_CREDENTIALS)
        if text is None:
            text = _write(_CREDENTIALS, msgspec.json.encode(make_credentials()).decode(), overwrite=False)
        return msgspec.json.decode(text, type=Credentials)

    def flags(self) -> Flags:
        """What people have said."""
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

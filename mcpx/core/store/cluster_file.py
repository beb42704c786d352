"""`cluster.json` in the folder of a configuration: the cluster that its daemons join.

Written by `mcpx cluster start`, removed by `mcpx cluster stop`, and read by each daemon when it starts, also
by one that `mcpx attach` starts. It counts before what the configuration itself says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import ForeignFileError, read_own_file, replace_file
from mcpx.errors import DaemonError

FILE_NAME: Final = "cluster.json"
MAX_BYTES: Final = 64 * 1024


class ClusterFile(msgspec.Struct, frozen=True):
    """The address of Ray's GCS, or `auto`; and whether an open cluster is joined, too."""

    address: str
    allow_open: bool = False


def read_cluster_file(folder: Path) -> ClusterFile | None:
    """Read the file; None where there is none.

    Raises:
        DaemonError: The file is there, and cannot be read: servers must not run elsewhere for that. Or others
            may change it: whoever names the cluster is given the servers' secrets.
    """
    path = folder / FILE_NAME
    try:
        return msgspec.json.decode(read_own_file(path, MAX_BYTES, or_roots=True), type=ClusterFile)
    except FileNotFoundError:
        return None
    except ForeignFileError:
        raise DaemonError(f"{path}: others may change it; remove it, and run mcpx cluster start") from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DaemonError(
            f"{path} cannot be read ({error}): run mcpx cluster start, or stop, again"
        ) from None


def write_cluster_file(folder: Path, address: str, *, allow_open: bool = False) -> None:
    """Have the daemons of this folder's configuration join that cluster.

    Raises:
        OSError: It cannot be written.
    """
    ensure_folder(folder)
    replace_file(folder / FILE_NAME, msgspec.json.encode(ClusterFile(address, allow_open)) + b"\n")


def remove_cluster_file(folder: Path) -> bool:
    """Have them join none; True if there was a file."""
    try:
        (folder / FILE_NAME).unlink()
    except FileNotFoundError:
        return False
    return True

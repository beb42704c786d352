"""The configuration file: the lookup, the reading of its bytes, and every error of the file system.

`load` is called once at start and at each reload. Beside it stands `cluster.json`, with the cluster that its
daemons join: written by `mcpx cluster start`, removed by `mcpx cluster stop`, and read by each daemon when it
starts, also by one that `mcpx attach` starts. It counts before what the configuration itself says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Unpack

import msgspec

from mcpx.core.config.document import as_text
from mcpx.core.config.model import ClusterLink, Config
from mcpx.core.config.reading import Options, parse, read
from mcpx.core.store.folders import ensure_folder
from mcpx.core.store.private_files import ForeignFileError, read_own_file, replace_file
from mcpx.errors import ConfigError, DaemonError
from mcpx.paths import CONFIG_VARIABLE, config_file, config_hint

CLUSTER_FILE: Final = "cluster.json"
MAX_CLUSTER_BYTES: Final = 64 * 1024


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
    path = folder / CLUSTER_FILE
    try:
        return msgspec.json.decode(read_own_file(path, MAX_CLUSTER_BYTES, or_roots=True), type=ClusterFile)
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
    replace_file(folder / CLUSTER_FILE, msgspec.json.encode(ClusterFile(address, allow_open)) + b"\n")


def remove_cluster_file(folder: Path) -> bool:
    """Have them join none; True if there was a file."""
    try:
        (folder / CLUSTER_FILE).unlink()
    except FileNotFoundError:
        return False
    return True


MAX_CONFIG_BYTES: Final = 64 << 20


def load(
    path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ, resolve: bool = True
) -> Config:
    """The configuration in `path`, else the file `MCPX_CONFIG` names, else in the user's config folder.

    `resolve` is that of `parse`; without it nothing is started or waited for.

    Raises:
        ConfigError: The file is missing or cannot be read, or what `parse` raises.
    """
    return read_config(path, environ=environ).parse(environ=environ, resolve=resolve)


class ConfigText(NamedTuple):
    """The content of a configuration file, to be parsed as often as it is wanted: it may be a pipe."""

    file: Path
    data: bytes

    def parse(self, **options: Unpack[Options]) -> Config:
        """Return the configuration, as `load` makes it. Takes what `reading.parse` takes.

        Raises:
            ConfigError: What `parse` raises.
        """
        given: Options = {"folder": self.file.absolute().parent, "resolve": True, **options}
        return parse(self.data, where=str(self.file), **given)


def read_config(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> ConfigText:
    """The content of the file that `load` would read.

    Raises:
        ConfigError: The file is missing or cannot be read.
    """
    file = config_file(path, environ=environ)
    return ConfigText(file, read_file(file, missing=partial(_missing_file, path, environ)))


def read_file(file: Path, *, missing: Callable[[], str] = lambda: "no such file") -> bytes:
    """The content of a configuration file. `missing` is what the error says where there is none.

    Raises:
        ConfigError: The file is missing or cannot be read.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(str(file), missing()) from None
    except IsADirectoryError:
        raise ConfigError(str(file), "this is a folder; name the file in it") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(str(file), f"cannot be read: {reason}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(str(file), f"larger than {MAX_CONFIG_BYTES >> 20} MiB")
    return data


def commands_of_servers(file: ConfigText, *, environ: Mapping[str, str] = os.environ) -> dict[str, list[str]]:
    """The commands that MCPX runs for the entry of each server, none of which is run.

    Raises:
        ConfigError: The content cannot be used.
    """
    where = str(file.file)
    text = as_text(file.data, where=where)
    return read(text, where=where, environ=environ, folder=file.file.parent, commands=False).not_run


def _missing_file(path: str | Path | None, environ: Mapping[str, str]) -> str:
    """Say why this file was looked for, which of three places it is, and what next."""
    file = config_file(path, environ=environ)
    begin = f"to begin: mcpx setup{config_hint(file, environ)}"
    if path is not None:
        return f"no such file; {begin}"
    if environ.get(CONFIG_VARIABLE):
        return f"no such file; the environment variable {CONFIG_VARIABLE} names it; {begin}"
    return f"no such file, and neither --config nor {CONFIG_VARIABLE} names another; {begin}"


def cluster_link(config: Config, folder: Path) -> ClusterLink | None:
    """The cluster; None where there is none. `folder` is the configuration's.

    Raises:
        DaemonError: `cluster.json` cannot be read.
    """
    file = read_cluster_file(folder)
    return config.cluster if file is None else ClusterLink(address=file.address, allow_open=file.allow_open)

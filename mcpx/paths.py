"""Where MCPX's files are: the configuration, and the folders for its state, which only their owner may read.

Standard library alone, and platformdirs where no folder is given: `mcpx attach` imports this and is quick.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

OWNER_ONLY = 0o700
_LOCK_POLL_S = 0.01
CONFIG_VARIABLE = "MCPX_CONFIG"
STATE_VARIABLE = "MCPX_STATE_DIR"
CONFIG_NAME = "config.json"
CONFIGURATIONS = "configs"
"""In the state folder: a folder for each configuration."""
AUDIT_FOLDER = "audit"
"""In the state folder: the audit log, of all configurations."""
CONFIGURATION_NOTE = "config"
"""In the folder of a configuration: a file with its path."""
_OVERFLOW_UID = 65534
_ALL_UIDS = 2**32 - 1
PARTIAL_SUFFIX = ".new"
"""Of a file that `replace_file` has not finished."""
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""To open a file of MCPX's own: through no link, and without waiting where a pipe has its name."""
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
"""To create a file that must not exist yet, also not as a link."""


def state_folder() -> Path:
    """`MCPX_STATE_DIR`, or the user's state folder for mcpx. It is not created.

    Raises:
        FileNotFoundError: The user has no home folder.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    import platformdirs  # noqa: PLC0415 - a fifth of the shim's start, where it is not needed

    return _in_home(platformdirs.user_state_path)


def runtime_folder() -> Path:
    """`run` in `MCPX_STATE_DIR`, or the user's runtime folder for mcpx. It is not created.

    Raises:
        FileNotFoundError: The user has no home folder.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen).absolute() / "run"
    import platformdirs  # noqa: PLC0415 - as above

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it takes a temporary one: whose it is will be checked
        return _in_home(platformdirs.user_runtime_path)


def config_file(path: str | Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Path:
    """The file given, else what `MCPX_CONFIG` names, else `config.json` in the user's config folder.

    Whether it exists or not; `~` at the start is the home folder.

    Raises:
        FileNotFoundError: None is given, and the user has no home folder.
    """
    given = str(path) if path is not None else environ.get(CONFIG_VARIABLE, "")
    if given:
        return Path(home(environ) + given[1:] if given == "~" or given.startswith("~/") else given)
    import platformdirs  # noqa: PLC0415 - as above

    return _in_home(platformdirs.user_config_path) / CONFIG_NAME


def _in_home(find: Callable[[str], Path]) -> Path:
    """One of the user's folders for mcpx.

    Raises:
        FileNotFoundError: The user has no home folder, neither in `HOME` nor in the password database.
    """
    with suppress(RuntimeError):  # platformdirs, on Linux
        if (folder := find("mcpx")).is_absolute():
            return folder
    advice = "this user has no home folder: set HOME, or MCPX_STATE_DIR and MCPX_CONFIG"
    raise FileNotFoundError(errno.ENOENT, advice)


def config_hint(config: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> str:
    """What a command in a message needs to mean this configuration: ` --config FILE`, or nothing.

    Nothing for the file that every command takes by itself in that environment.
    """
    if os.path.realpath(config) == os.path.realpath(config_file(environ=environ)):
        return ""
    import shlex  # noqa: PLC0415 - only a message needs it

    return f" --config {shlex.quote(os.fspath(config))}"


def configuration_key(path: str | os.PathLike[str]) -> str:
    """The name of a configuration's files: a digest of its real path, the same for each link to it."""
    return digest(os.path.realpath(path))


def configuration_folder(path: str | os.PathLike[str], state: Path | None = None) -> Path:
    """The folder for what MCPX keeps for one configuration alone: its logs, its sums. It is not created."""
    return (state or state_folder()) / CONFIGURATIONS / configuration_key(path)


def claim_configuration_folder(path: str | os.PathLike[str]) -> Path:
    """`configuration_folder`, created if possible, with the path of the configuration in it."""
    folder = configuration_folder(path)
    with suppress(OSError):
        ensure_folder(folder)
        absolute = os.fsencode(os.path.abspath(path))  # noqa: PTH100 - text to text
        note = folder / CONFIGURATION_NOTE
        if not note.exists() or note.read_bytes() != absolute or note.stat().st_mode & 0o077:
            replace_file(note, absolute, synced=False)
    return folder


def digest(text: str) -> str:
    """FNV-1a in sixteen hexadecimal digits: enough for one user's files, with nothing to import."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(text):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def home(environ: Mapping[str, str] = os.environ) -> str:
    """The user's home folder."""
    return environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111  (Path.home raises where there is none)


def ensure_folder(path: Path) -> Path:
    """Create `path` and its missing parents, readable by their owner only.

    Raises:
        OSError: One of them cannot be created.
    """
    try:
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    except FileNotFoundError:
        if path.parent == path:
            raise
        ensure_folder(path.parent)
        path.mkdir(mode=OWNER_ONLY, exist_ok=True)
    return path


def replace_file(path: Path, contents: bytes, *, synced: bool = True) -> None:
    """Put a whole file, for its owner alone, in the place of `path`, whose folder exists.

    It is written beside it, as `*.new`, which stays if the process is killed. If it is not `synced`, a power
    cut may cost the file.

    Raises:
        OSError: It cannot be written; `path` is as it was.
    """
    new = path.with_name(f"{path.stem}.{os.urandom(8).hex()}{PARTIAL_SUFFIX}")
    try:
        with os.fdopen(os.open(new, CREATE_FLAGS, 0o600), "wb") as file:
            file.write(contents)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


class ForeignFileError(OSError):
    """A file that another user may have written; the text says why."""


def read_own_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file that nobody but its owner, this user, can have written.

    Raises:
        OSError: It cannot be read; there is none.
        ForeignFileError: Another user may have written it, or it is too long.
    """
    opened = os.open(path, READ_FLAGS)
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise ForeignFileError(f"{path} is not a file that is yours alone")
        data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise ForeignFileError(f"{path} is too long")
        return data


def wait_for_lock(descriptor: int, path: Path, *, timeout_s: float) -> None:
    """Lock an open file or folder against other processes, until it is closed. Blocks, `timeout_s` at most.

    Raises:
        BlockingIOError: Another process has the lock all the while.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BlockingIOError(errno.EWOULDBLOCK, "another process has it locked", str(path)) from None
            time.sleep(_LOCK_POLL_S)
        else:
            return


def others_may_change(found: os.stat_result, *, sticky_is_safe: bool = False) -> bool:
    """Whether other users can change what is in this folder: they own it, or may write to it.

    In a sticky folder (/tmp) others can add files, but not change this user's: that is enough if the owner of
    each file is checked (`sticky_is_safe`).
    """
    open_to_others = bool(found.st_mode & 0o022)
    if sticky_is_safe and found.st_mode & stat.S_ISVTX:
        open_to_others = False
    return found.st_uid not in {os.getuid(), 0} or open_to_others


def replaceable_above(folder: Path) -> Path | None:
    """The folder above `folder`, or above what that links to, in which others can replace what leads there.

    None where there is none. A pod of Kubernetes has no others, and its volumes are open to all.
    """
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    lexical, real = Path(os.path.abspath(folder)), Path(os.path.realpath(folder))  # noqa: PTH100 - no links
    for above in (*lexical.parents, *real.parents):
        try:
            if _may_be_replaced_in(above.stat()):
                return above
        except OSError:  # it is made, or cannot be seen into
            continue
    return None


def _may_be_replaced_in(found: os.stat_result) -> bool:
    """Whether other users own that folder, or may rename what is in it."""
    if found.st_uid not in {os.getuid(), 0} and not _is_unmapped(found.st_uid):
        return True
    if found.st_mode & stat.S_ISVTX:
        return False
    return bool(found.st_mode & 0o002 or (found.st_mode & 0o020 and not _is_own_group(found.st_gid)))


def _is_unmapped(uid: int) -> bool:
    """Whether this is what root outside of this user namespace is seen as (user_namespaces(7))."""
    if uid != _OVERFLOW_UID:
        return False
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/uid_map").read_text().split()[-1]) < _ALL_UIDS
    return False


def _is_own_group(gid: int) -> bool:
    """Whether a group has nobody in it but root or this user, as the one of each user's name has."""
    import grp  # noqa: PLC0415 - only folders that a group may write in need it
    import pwd  # noqa: PLC0415 - as above

    if gid == 0:
        return True
    try:
        group, name = grp.getgrgid(gid), pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return gid == os.getgid()
    return group.gr_name == name and set(group.gr_mem) <= {name, "root"}


def distrust_folder(folder: Path, found: os.stat_result) -> str | None:
    """Why other users may have written in the folder, which was `found` so; None if they cannot have.

    Raises:
        OSError: The folder that it is in cannot be seen.
    """
    if others_may_change(folder.parent.stat()):
        return f"{folder.parent}: others may change it"
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return f"{folder}: not a folder of yours"
    if found.st_mode & 0o022:
        return f"{folder}: open to others (mode {stat.S_IMODE(found.st_mode):o})"
    return None

"""Users of this machine, by the databases of users and groups (passwd(5), group(5)).

Standard library only: `mcpx attach` imports this.
"""

from __future__ import annotations

import grp
import os
import pwd
from contextlib import suppress
from functools import lru_cache
from typing import Final

from mcpx.core.system.linux import PROC

_OVERFLOW_UID: Final = 65534
_ALL_UIDS: Final = 2**32 - 1


def entry_of_user() -> pwd.struct_passwd | None:
    """The entry of this process's user; None where there is none, as in a container."""
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        return None


@lru_cache(maxsize=1)
def this_user() -> str:
    """The user of this process: the name, or the number where there is none."""
    entry = entry_of_user()
    return str(os.getuid()) if entry is None else entry.pw_name


def is_unmapped(uid: int) -> bool:
    """Return True for what root outside of this user namespace is seen as (user_namespaces(7), Linux)."""
    if uid != _OVERFLOW_UID:
        return False
    with suppress(OSError, ValueError):
        return int((PROC / "self/uid_map").read_text().split()[-1]) < _ALL_UIDS
    return False


def is_own_group(gid: int) -> bool:
    """Return True if a group has nobody in it but root or this user, as the one of each user's name has."""
    if gid == 0:
        return True
    user = entry_of_user()
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        group = None
    if user is None or group is None:
        return gid == os.getgid()
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name, "root"}

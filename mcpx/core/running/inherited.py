"""The setting `inherit`: which variables of the environment a server is given, and how they are shown.

Every server is given the basic variables and, unless the setting says "none", whatever else of `UNASKED`
(`mcpx.core.system.environment`) is set. Further ones are named by patterns, or all of them by "all". A key
that nobody named in full is never given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from msgspec import Meta

from mcpx.core.system.environment import BASIC, UNASKED, given_unasked, loads_code

_in_keys: Final = re.compile(
    "KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|PRIVATE|BEARER|AUTHORIZATION|_AUTH|AUTH_"
    "|_(?:PAT|PASS|PWD|CREDS)(?:_|$)"
).search
_OF_MCPX: Final = "MCPX_"
Inherit = Literal["all", "none"] | tuple[Annotated[str, Meta(min_length=1)], ...]
"""The setting `inherit`: names, patterns of names, and the words all and none among them or alone."""


def is_key(name: str) -> bool:
    """Return True if a variable of that name is a key, and not one of `UNASKED`."""
    return name not in UNASKED and _in_keys(name.upper()) is not None


def without_password(value: str) -> str:
    """Return a value as it may be shown: the `user:password@` of each URL in it is masked."""
    shown = []
    for part in value.split("://"):
        authority, slash, rest = part.partition("/")
        _, at, host = authority.rpartition("@")
        shown.append(f"{'***' if at else ''}{at}{host}{slash}{rest}")
    return "://".join([value.partition("://")[0], *shown[1:]])


def chosen(variables: Mapping[str, str], inherit: Inherit = ()) -> dict[str, str]:
    """Return the variables that a server is given, by its setting `inherit`.

    A pattern and `all` leave out what is a key by its name or holds a password in a URL, what loads code, and
    what is MCPX's own: each of these is given only where it is named in full.
    """
    words = (inherit,) if isinstance(inherit, str) else inherit
    patterns = ["*" if word == "all" else word for word in words if word != "none"]
    given = given_unasked(variables)
    if "none" in words:
        given = {name: value for name, value in given.items() if name in BASIC}
    for name, value in variables.items() if patterns else ():
        if name in given or value.startswith("()"):
            continue
        is_plain = name in UNASKED or not (
            is_key(name) or loads_code(name) or name.startswith(_OF_MCPX) or without_password(value) != value
        )
        if name in patterns or (is_plain and any(fnmatchcase(name, pattern) for pattern in patterns)):
            given[name] = value
    return given

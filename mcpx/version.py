"""The version of MCPX, where even the lowest layer may read it, and where this MCPX is installed from."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

__version__ = "0.1.0"
DISTRIBUTION: Final = "mcpx-gateway"


def installation() -> dict[str, Any]:
    """Return what is installed, as `mcpx version --json` prints it.

    `installed` names the installer (`by`), the file or address (`from`, null for a package index), and
    whether it is a checkout used as it stands (`editable`); null where MCPX was not installed. `path`
    is the folder of the code.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - of one command

    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        installed = None
    else:
        origin = json.loads(found.read_text("direct_url.json") or "{}")  # PEP 610
        installed = {
            "by": (found.read_text("INSTALLER") or "").strip() or None,
            "from": origin.get("url"),
            "editable": origin.get("dir_info", {}).get("editable", False),
        }
    python = ".".join(map(str, sys.version_info[:3]))
    path = __file__.rpartition("/")[0]
    return {"version": __version__, "installed": installed, "path": path, "python": python}

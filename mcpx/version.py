"""The version of MCPX, where even the lowest layer may read it, and where this MCPX is installed from."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

__version__ = "0.1.0"
DISTRIBUTION: Final = "mcpx-gateway"
_MARKS: Final = {"pipx": "pipx_metadata.json", "uv tool": "uv-receipt.toml"}
"""Files that these keep in an environment of theirs."""


def installation() -> dict[str, Any]:
    """Return what is installed, as `mcpx version --json` prints it, but for the daemon.

    `installed` names how (`by`: checkout, pipx, uv tool, or the installer, pip or uv), the file or address
    (`from`, null for a package index), and whether it is a checkout used as it stands (`editable`); null
    where MCPX was not installed. `path` is the folder of the code, `sdk` the version of the MCP SDK.
    """
    import json  # noqa: PLC0415 - of one command, as is the next one
    from importlib.metadata import PackageNotFoundError, distribution, version  # noqa: PLC0415

    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        installed = None
    else:
        origin = json.loads(found.read_text("direct_url.json") or "{}")  # PEP 610
        editable = origin.get("dir_info", {}).get("editable", False)
        by = "checkout" if editable else (found.read_text("INSTALLER") or "").strip() or None
        for name, mark in _MARKS.items():
            by = name if os.path.exists(f"{sys.prefix}/{mark}") else by
        installed = {"by": by, "from": origin.get("url"), "editable": editable}
    python = ".".join(map(str, sys.version_info[:3]))
    path = __file__.rpartition("/")[0]
    return {
        "version": __version__,
        "installed": installed,
        "path": path,
        "python": python,
        "sdk": version("mcp"),
    }

"""Where MCPX keeps what it must remember between runs: one folder, for its owner only."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

OWNER_ONLY = 0o700


def state_folder() -> Path:
    """`MCPX_STATE_DIR`, or the user's state folder for mcpx. Not made by this."""
    chosen = os.environ.get("MCPX_STATE_DIR")
    return Path(chosen) if chosen else platformdirs.user_state_path("mcpx")


def ensure_folder(path: Path) -> Path:
    """Make `path` and what is above it, readable by its owner only. Raises OSError."""
    path.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    return path

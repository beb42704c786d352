"""A folder of files for changes, and what it holds, down to mode and link: for tests of this package."""

from __future__ import annotations

import stat
from pathlib import Path

from mcpx.setup.changes import Edit


def snapshot(folder: Path) -> dict[str, tuple[int, object]]:
    """Everything in a folder: path to mode and contents, or where a link leads."""
    found: dict[str, tuple[int, object]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        held = (
            str(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else None
        )
        found[str(path.relative_to(folder))] = (mode, held)
    return found


def four_files(home: Path) -> list[Edit]:
    """One that is not there, nor its folders, one that is a link, one that goes, and one that stays."""
    (home / "dotfiles").mkdir(parents=True, exist_ok=True)
    (home / "dotfiles" / "real.json").write_bytes(b'\xef\xbb\xbf{\r\n  // mine\r\n  "a": 1,\r\n}\r\n')
    (home / "dotfiles" / "real.json").chmod(0o644)
    if not (home / "linked.json").is_symlink():
        (home / "linked.json").symlink_to("dotfiles/real.json")
    (home / "going.toml").write_bytes(b"a = 1\n" * 1000)
    (home / "going.toml").chmod(0o640)
    (home / "same.json").write_bytes(b"{}")
    return [
        Edit(home / "new" / "deeper" / "new.yaml", None, b"a: 1\n"),
        Edit(home / "linked.json", (home / "linked.json").read_bytes(), b"{}\n" * 5000),
        Edit(home / "going.toml", (home / "going.toml").read_bytes(), None),
        Edit(home / "same.json", b"{}", b"{}"),
    ]

"""The source distribution and the wheel of a checkout, as a release publishes them.

The source distribution holds the files that git knows, the wheel is built of the unpacked source
distribution, and both by the locked setuptools: nothing that lies about in a checkout gets into them, and
the same commit gives the same wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from scripts.lab.releasing.changelog import ReleaseError

HOOK: Final = "import sys, setuptools.build_meta as made; getattr(made, sys.argv[1])(sys.argv[2])"  # PEP 517
EPOCH: Final = 1577836800  # 2020-01-01, for a checkout without a commit; zip knows no time before 1980


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """Build both into `folder`, which is made; returns the paths of wheel and source distribution."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source, unpacked = Path(scratch, "source"), Path(scratch, "unpacked")
        _copy(root, source)
        sdist = _made(source, "build_sdist", folder, "*.tar.gz", epoch := _epoch(root))
        with tarfile.open(sdist) as packed:
            packed.extractall(unpacked, filter="data")
        (inside,) = unpacked.iterdir()
        return _made(inside, "build_wheel", folder, "*.whl", epoch), sdist


def _copy(root: Path, source: Path) -> None:
    listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, source / name)


def _made(source: Path, hook: str, folder: Path, pattern: str, epoch: int) -> Path:
    with tempfile.TemporaryDirectory() as made:
        done = subprocess.run(
            [sys.executable, "-c", HOOK, hook, made],
            cwd=source,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ReleaseError(f"{hook} failed:\n{done.stdout}{done.stderr}")
        (file,) = Path(made).glob(pattern)
        return Path(shutil.move(file, folder / file.name))


def _epoch(root: Path) -> int:
    return int(_git(root, "log", "-1", "--format=%ct") or EPOCH)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"a release is built of a git checkout: {done.stderr.strip()}")
    return done.stdout.strip()

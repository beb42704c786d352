"""The wheel and the source distribution of this checkout, and environments that they are installed into.

The tools (uv, pipx) are in `.venv-release`, which
`scripts/test --all` makes; their caches are the user's, so that a second run takes seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.live.servers import absent

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parent / ".venv-release" / "bin"
PATIENCE_S = 300  # a first download of all dependencies, on a slow line


class Artefacts(NamedTuple):
    """The two files of a release."""

    wheel: Path
    sdist: Path


def require(tool: str) -> Path:
    """The path of a tool; skips the test (fails it in CI) where it is not installed."""
    path = TOOLS / tool
    absent(None if path.exists() else f"{tool} is missing; scripts/test --all installs it")
    return path


def run(command: list[str | Path], **options: object) -> str:
    """The output of a command that must succeed, without the environment of this run."""
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("MCPX_", "PYTHON", "VIRTUAL"))
    }
    env |= options.pop("env", {})  # type: ignore[arg-type]
    done = subprocess.run(
        command,
        check=False,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        **options,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(folder: Path) -> Artefacts:
    """Build both into `folder`, as `scripts/release --build` does."""
    made = run([sys.executable, "-m", "scripts.lab.releasing", "--build", folder], cwd=ROOT)
    return Artefacts(*map(Path, made.splitlines()))


class Environment:
    """A clean environment below `folder`: each method installs into it and returns its `mcpx`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def with_pip(self, what: str | Path) -> Path:
        """`python -m venv` and `pip install`."""
        run([sys.executable, "-m", "venv", "--without-pip", self.folder])
        python = self.folder / "bin" / "python"
        run([sys.executable, "-m", "pip", "--python", python, "install", "--no-compile", what])
        return self.folder / "bin" / "mcpx"

    def with_pipx(self, what: str | Path) -> Path:
        """`pipx install`."""
        names = ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")
        env = {name: str(self.folder / name) for name in names} | {"PIPX_DEFAULT_PYTHON": sys.executable}
        run([require("pipx"), "install", what], env=env)
        return self.folder / "PIPX_BIN_DIR" / "mcpx"

    def with_uv(self, what: str | Path) -> Path:
        """`uv tool install`."""
        env = {name: str(self.folder / name) for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR")}
        run([require("uv"), "tool", "install", "--python", sys.executable, what], env=env)
        return self.folder / "UV_TOOL_BIN_DIR" / "mcpx"

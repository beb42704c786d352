"""The five third-party servers that the live tests drive: their command lines, and what is missing for them.

Owns where they are installed and how each is started; `scripts/test --all` puts them there. Used by every
test that is marked `live`: `require(live_server("git", folder))` gives a server that can be started, or skips
the test with a line that says what is missing. With `CI=true` in the environment a missing server fails the
test.

Nothing here imports MCPX: these servers are the outside world.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import wave
from pathlib import Path
from typing import Final, Literal

import msgspec
import pytest

HERE: Final = Path(__file__).parent
NODE_SERVERS: Final = HERE / "node_modules" / "@modelcontextprotocol"
PYTHON_SERVERS: Final = HERE / ".venv-servers" / "bin"
ONE_POINT: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A picture of one point, as base64."""
NAMES: Final = ("everything", "filesystem", "memory", "git", "time")


class LiveServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server and how to start it. `program` is the file that must exist for it."""

    name: str
    command: str
    args: list[str]
    program: Path
    env: dict[str, str] = {}

    def entry(self) -> dict[str, object]:
        """Its entry under `mcpServers` in a config file."""
        return {"command": self.command, "args": self.args, "env": self.env}


def live_server(name: str, scratch: Path) -> LiveServer:
    """The server of that name (one of NAMES), over stdio; what it reads and writes lies in `scratch`.

    Makes there what the server needs: a folder with two files for `filesystem`, a repository with one commit
    for `git`. Raises KeyError for another name.
    """
    builders = {
        "everything": lambda: _node(name, "stdio"),
        "filesystem": lambda: _node(name, str(make_folder(scratch / "files"))),
        "memory": lambda: _node(name, env={"MEMORY_FILE_PATH": str(scratch / "memory.jsonl")}),
        "git": lambda: _python(name, "--repository", str(make_repository(scratch / "repository"))),
        "time": lambda: _python(name, "--local-timezone", "UTC"),
    }
    return builders[name]()


def everything_over_http(transport: Literal["streamableHttp", "sse"], port: int) -> LiveServer:
    """server-everything as an HTTP server: at `/mcp` for streamableHttp, at `/sse` for sse.

    It says "listening on port" or "running on port" on stderr when it is ready.
    """
    return _node("everything", transport, env={"PORT": str(port)})


def missing(server: LiveServer) -> str | None:
    """Why the server cannot be started, in one line; `None` where it can."""
    if server.command == "node" and shutil.which("node") is None:
        return f"{server.name}: node is not installed"
    if not server.program.exists():
        return f"{server.name}: {server.program.relative_to(HERE)} is missing; scripts/test --all installs it"
    if server.name == "git" and shutil.which("git") is None:
        return "git: the git program is not installed"
    return None


def require(server: LiveServer) -> LiveServer:
    """The server itself, if it can be started; else the test is skipped, or failed with `CI=true`."""
    absent(missing(server))
    return server


def absent(reason: str | None) -> None:
    """Skip the test for that reason, or fail it with `CI=true`; do nothing without a reason."""
    if reason is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def make_folder(folder: Path) -> Path:
    """A folder with `hello.txt` and `sub/numbers.json`, for the filesystem server."""
    (folder / "sub").mkdir(parents=True, exist_ok=True)
    (folder / "hello.txt").write_text("hello from a file\n", "utf-8")
    (folder / "sub" / "numbers.json").write_text("[1, 2, 3]\n", "utf-8")
    return folder.resolve()


def make_repository(folder: Path) -> Path:
    """A git repository with one commit of `hello.txt`, for the git server; as it is if it is there already.

    Where git is missing the folder stays empty: `missing` tells.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("git") and not (folder / ".git").exists():
        (folder / "hello.txt").write_text("hello from a repository\n", "utf-8")
        identity = (
            "-c",
            "user.name=Live Test",
            "-c",
            "user.email=live@example.invalid",
            "-c",
            "commit.gpgsign=false",
        )
        for step in (("init", "--quiet"), ("add", "."), (*identity, "commit", "--quiet", "-m", "Say hello")):
            subprocess.run(["git", *step], cwd=folder, check=True, capture_output=True, timeout=50)
    return folder.resolve()


def make_media(folder: Path) -> Path:
    """A sound of 100 samples (`tone.wav`) and a picture of one point (`dot.png`), for `filesystem`."""
    folder.mkdir(parents=True, exist_ok=True)
    with wave.open(str(folder / "tone.wav"), "wb") as sound:
        sound.setparams((1, 1, 8000, 0, "NONE", "not compressed"))
        sound.writeframes(bytes(range(0, 200, 2)))
    (folder / "dot.png").write_bytes(base64.b64decode(ONE_POINT))
    return folder.resolve()


def make_memory(file: Path) -> Path:
    """A graph of four entities and three relations, for the memory server."""
    entities = [
        {
            "type": "entity",
            "name": f"node {n}",
            "entityType": "test",
            "observations": [f"is number {n}", "is a node"],
        }
        for n in range(4)
    ]
    relations = [
        {"type": "relation", "from": f"node {n}", "to": f"node {n + 1}", "relationType": "precedes"}
        for n in range(3)
    ]
    file.write_text("\n".join(json.dumps(item) for item in entities + relations), "utf-8")
    return file


def recorded(server: LiveServer, recording: Path) -> LiveServer:
    """That server under the recorder, which writes every line it is sent to `recording`."""
    args = ["-S", "-E", str(HERE / "recorder.py"), str(recording), server.command, *server.args]
    return msgspec.structs.replace(server, command=sys.executable, args=args)


def _node(name: str, *args: str, env: dict[str, str] | None = None) -> LiveServer:
    program = NODE_SERVERS / f"server-{name}" / "dist" / "index.js"
    return LiveServer(name=name, command="node", args=[str(program), *args], program=program, env=env or {})


def _python(name: str, *args: str) -> LiveServer:
    program = PYTHON_SERVERS / f"mcp-server-{name}"
    return LiveServer(name=name, command=str(program), args=[*args], program=program)

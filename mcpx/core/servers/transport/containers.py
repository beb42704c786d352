"""The container of a server that is started by `docker run` or `podman run`: known by its id, stopped by it.

The process that MCPX starts is the engine's client; the server is elsewhere, under the engine's own daemon,
and outlives a client that is killed. So `in_container` adds `--cidfile` and a label to the command, and
`stop` ends the container by what the engine has written there. Where it has written nothing yet, the label
finds it.

Used by `spawning`, by each running child at its end, and by the ledger after a crash. Blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog

from mcpx.core.running.bounded import OutOfBounds, run
from mcpx.core.store.folders import ensure_folder
from mcpx.core.system.environment import BASIC, GROUPS
from mcpx.paths import state_folder

log = structlog.get_logger()
ENGINES: Final = frozenset({"docker", "podman", "nerdctl"})
LABEL: Final = "mcpx.child"
FOLDER: Final = "children"  # in the state folder, beside the ledger
STOP_S: Final = 0.7  # for a container to end by its stop signal, before it is killed
KILL_S: Final = 3.0
MAX_AT_ONCE: Final = 8
_ID: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_FLAGS: Final = frozenset(
    {"-D", "--debug", "--tls", "--tlsverify", "-r", "--remote", "--noout", "--syslog", "--trace"}
)
"""Options of an engine that take no value, before its command."""
_VARIABLES: Final = (*BASIC, "DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
_OF_ENGINES: Final = frozenset(
    {*_VARIABLES, *next(group.names for group in GROUPS if group.about == "container engines")}
)


class Container(msgspec.Struct, frozen=True):
    """A container: the engine's command with its own options and variables, and what it is known by.

    `cidfile` is empty where the entry names a file of its own.
    """

    engine: tuple[str, ...]
    mark: str
    cidfile: str = ""
    environ: dict[str, str] = {}


def in_container(
    command: Sequence[str], mark: str, environ: Mapping[str, str]
) -> tuple[list[str], Container | None]:
    """Return the command as it is to be started, and its container, if it runs one."""
    words = list(command)
    if (place := _place_of_run(words)) is None:
        return words, None
    added = ["--label", f"{LABEL}={mark}"]
    cidfile = ""
    if not any(word == "--cidfile" or word.startswith("--cidfile=") for word in words[place:]):
        cidfile = str(state_folder() / FOLDER / f"{mark}.cid")
        added = ["--cidfile", cidfile, *added]
        with suppress(OSError):  # the engine says why it cannot write there
            ensure_folder(Path(cidfile).parent)
    kept = {name: value for name, value in environ.items() if name in _OF_ENGINES}
    engine = words[: place - 1] if words[place - 2] != "container" else words[: place - 2]
    return [*words[:place], *added, *words[place:]], Container(tuple(engine), mark, cidfile, kept)


def _place_of_run(words: Sequence[str]) -> int | None:
    """Return the place of the options of `run` in a command; None if it runs no container."""
    if os.path.basename(words[0]) not in ENGINES:
        return None
    place = 1
    while place < len(words) and words[place].startswith("-"):
        place += 1 if words[place] in _FLAGS or "=" in words[place] else 2
    if words[place : place + 1] == ["container"]:
        place += 1
    return place + 1 if words[place : place + 1] == ["run"] else None


def stop(container: Container) -> None:
    """Stop a container, kill it if it does not end soon, and forget its file. One that has ended is fine.

    Never raises: what the engine does not do is logged.
    """
    try:
        for name in _ids(container):
            _stop(container, name)
    except (OSError, ValueError, OutOfBounds) as error:
        log.warning("container.not_stopped", engine=container.engine[0], reason=str(error))
    if container.cidfile:
        with suppress(OSError):
            os.unlink(container.cidfile)


def stop_all(containers: Sequence[Container]) -> None:
    """Stop containers side by side, as `stop` does each."""
    if containers:
        with ThreadPoolExecutor(MAX_AT_ONCE) as threads:
            for done in [threads.submit(stop, each) for each in containers]:
                done.result()


def _ids(container: Container) -> list[str]:
    """Return the ids of the containers: that in the file, or what the engine has with the label."""
    if container.cidfile:
        with suppress(OSError):
            if written := Path(container.cidfile).read_text(errors="replace").strip():
                return [written] if _ID.fullmatch(written) else []
    query = ("ps", "-q", "--filter", f"label={LABEL}={container.mark}")
    listed = run([*container.engine, *query], container.environ, timeout_s=KILL_S)
    return listed.output.decode(errors="replace").split() if listed.code == 0 else []


def _stop(container: Container, name: str) -> None:
    with suppress(OutOfBounds):
        run([*container.engine, "stop", name], container.environ, timeout_s=STOP_S)
        return
    run([*container.engine, "kill", name], container.environ, timeout_s=KILL_S)

"""The project of a client: the folder that it works in, by what is known of it.

It is the client's first root that is a folder; else what a variable of its environment says, which editors
and agents set; else the folder in which it was started, unless that says nothing: `/`, the home folder, a
folder of the system or of the client's own program. A root is asked for once, before the first request for
which it matters, and again after the client has said that its roots have changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import anyio
import msgspec
import structlog

from mcpx.core.calls.project_questions import ProjectQuestions
from mcpx.core.catalog.model import JSON
from mcpx.core.config.project_entries import ProjectServers
from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.handles import answers_in, asked_caller
from mcpx.core.gateway.clients.identity import Connection, is_probe
from mcpx.core.protocol.context import ROOTS, Caller, ClientId
from mcpx.core.system.endpoint import PROJECT_VARIABLES, Surroundings
from mcpx.core.system.environment import loads_code
from mcpx.core.wire.envelope import MCPError

if TYPE_CHECKING:
    from mcp.shared.dispatcher import Outbound

log = structlog.get_logger()
OPENINGS: Final = frozenset({"initialize", "ping", "logging/setLevel"})
"""Methods that wait for nothing."""
LOOK: Final = "inspect"
"""The tool that a model looks around with."""
ROOTS_TIMEOUT_S: Final = 5.0  # for a client to say its roots, before its request goes on without them
MAX_ROOTS: Final = 64  # that are looked at
MAX_ROOTS_ASKED: Final = 8  # times in a row, where they change while they are asked for
MAX_PATH_CHARS: Final = 4096
_OF_SYSTEM: Final = re.compile(
    r"/(?:usr|opt|bin|sbin|lib|etc|dev|proc|sys|run/current-system|snap|nix/store|var/lib/flatpak|Applications"
    r"|System|Library)(?:/.*)?|.*\.app/Contents(?:/.*)?"
)


def client_in(about: Surroundings, forward_env: tuple[str, ...], *, home: str) -> ClientId:
    """A client on a stream, with the project that its surroundings say, and the variables to be passed on."""
    variables = {
        name: value
        for name, value in about.variables.items()
        if is_forwarded(name, forward_env) and not loads_code(name)
    }
    return ClientId(folder=project_of(about, variables, home=home), variables=variables)


def is_forwarded(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if a variable of a client is passed on to servers."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def project_of(about: Surroundings, variables: dict[str, str], *, home: str) -> str | None:
    """The project by what the shim has said: a variable of the client, or the folder where it was started."""
    for name in PROJECT_VARIABLES:
        # Cursor names all folders of the window, separated by commas
        if (found := _folder(variables.get(name, "").partition(",")[0])) is not None:
            return found
    folder = _folder(about.folder)
    if folder is None or _says_nothing(folder, about.program, os.path.realpath(home)):
        return None
    return folder


def _says_nothing(folder: str, program: str, home: str) -> bool:
    above_home = folder == home or home.startswith(folder.rstrip("/") + "/")
    return above_home or folder == os.path.realpath(program) or _OF_SYSTEM.fullmatch(folder) is not None


def first_folder(result: object) -> str | None:
    """The first root of a client that is a folder of this machine; None where there is none."""
    roots = result.get("roots") if isinstance(result, dict) else None
    for root in roots[:MAX_ROOTS] if isinstance(roots, list) else ():
        uri = root.get("uri") if isinstance(root, dict) else None
        if isinstance(uri, str) and (found := _folder(_path_of(uri))) is not None:
            return found
    return None


def _path_of(uri: str) -> str:
    """The path that a `file` URI names; "" for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    is_here = parts.scheme == "file" and parts.netloc in {"", "localhost"}
    return unquote(parts.path, errors="surrogateescape") if is_here else ""


def _folder(path: str) -> str | None:
    """The real path of a folder that is there; None for anything else."""
    if not os.path.isabs(path) or len(path) > MAX_PATH_CHARS or "\0" in path:
        return None
    try:
        path.encode()
        return os.path.realpath(path) if os.path.isdir(path) else None
    except (OSError, ValueError):  # the latter: it is no UTF-8, which no message could hold
        return None


# --- before a request of a client is served


class Arrival(msgspec.Struct, frozen=True, eq=False):
    """A request of a client that has arrived; `outbound` reaches the client along with it."""

    client: ClientId
    connection: Connection
    outbound: Outbound
    method: str
    params: Mapping[str, Any]
    modern: bool = False
    is_local: bool = True

    def caller(self) -> Caller:
        """The client, as its person is asked."""
        return asked_caller(
            self.client,
            self.connection,
            self.outbound,
            self.params if self.modern else None,
            is_local=self.is_local,
        )


async def arrive(hub: Hub, arrival: Arrival) -> JSON | None:
    """Learn the project of a client, and have a person agree to what its request wants, before it is served.

    None where it may be; else the result by which a client of 2026-07-28 is asked.
    """
    client = arrival.client
    if client.sessionless or arrival.method in OPENINGS or is_probe(arrival.connection):
        return None
    await know_project(client, arrival.connection, arrival.outbound, modern=arrival.modern)
    hub.enter(client)
    await hub.projects.known(client)
    found = hub.projects.waiting(client.project)
    if found is None or not _wants(arrival, found):
        return None
    answers = answers_in(arrival.params) if arrival.modern else None
    return await hub.projects.questions.ask(client, arrival.caller(), answers)


def may_be_asked(questions: ProjectQuestions, arrival: Arrival) -> bool:
    """Return True if the person behind a client is to be asked about the files of its project now."""
    return questions.is_due(arrival.client, arrival.caller) and not is_probe(arrival.connection)


async def ask_person(questions: ProjectQuestions, arrival: Arrival) -> None:
    """Ask the person behind a client about the files of its project, beside its requests."""
    await questions.ask(arrival.client, arrival.caller())


def _wants(arrival: Arrival, found: ProjectServers) -> bool:
    """Return True if a request is one for which a person is asked first: a look, or a call to what waits."""
    if arrival.method != "tools/call":
        return False
    name, arguments = arrival.params.get("name"), arrival.params.get("arguments")
    if name == LOOK and (arrival.modern or arrival.connection.transport == "http"):
        return True
    server = arguments.get("server_name") if isinstance(arguments, Mapping) else None
    return isinstance(server, str) and server.rpartition("/")[2] in found.entries


async def know_project(client: ClientId, connection: Connection, outbound: Outbound, *, modern: bool) -> None:
    """Have a client say its roots, where it can and has not; other requests of it wait meanwhile."""
    if client.roots_known:
        return
    if client.roots is not None:
        with anyio.move_on_after(ROOTS_TIMEOUT_S):
            await client.roots.wait()
        return
    client.roots = asked = anyio.Event()
    try:
        declared = None if modern else connection.client_capabilities  # it is asked in results only
        can_say = declared is not None and declared.roots is not None
        for _ in range(MAX_ROOTS_ASKED):
            before = client.roots_changes
            root = await _first_root(outbound) if can_say else None
            if client.roots_changes == before:
                client.has_root(root)
                return
    finally:
        client.roots = None
        asked.set()


async def _first_root(outbound: Outbound) -> str | None:
    with anyio.move_on_after(ROOTS_TIMEOUT_S):
        try:
            return first_folder(await outbound.send_raw_request(ROOTS, {}))
        except (MCPError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            log.debug("client.no_roots", reason=str(error))
            return None
    log.info("client.no_roots", reason=f"no answer in {ROOTS_TIMEOUT_S:g} s")
    return None

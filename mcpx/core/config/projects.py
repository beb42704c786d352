"""The project of a client in the entry of a server: `${project}`, and the transport that it makes.

An entry that names the project is read once, and started once for each project. Its strings keep the
reference as `${project}`, or `${project:-DEFAULT}`, until a client is there whose project is known.
`${workspaceFolder}` and `${CLAUDE_PROJECT_DIR}` mean the same, as other clients write it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from mcpx.core.config.server_config import Http, ServerConfig, Sse, Transport
from mcpx.paths import home

PROJECT_KEYS: Final = frozenset({"cwd", "args", "env", *("url", "serverUrl", "httpUrl")})
"""Keys of an entry in which the project may be named."""
_NAMES: Final = re.compile(
    r"(?:project|workspaceFolder|workspaceRoot|(?:env:)?CLAUDE_PROJECT_DIR)(?::-(.*))?", re.DOTALL
)
_REFERENCE: Final = re.compile(r"\$\{project(?::-([^{}]*))?\}")


def project_reference(body: str) -> tuple[bool, str | None]:
    """Return True if the text between braces names the project, and the default that it gives."""
    found = _NAMES.fullmatch(body)
    return (True, found[1]) if found else (False, None)


def as_reference(default: str | None) -> str:
    """The reference as it stays in a string, with its default; the default alone where that holds braces."""
    if default is None:
        return "${project}"
    return default if set("{}") & set(default) else f"${{project:-{default}}}"


def _strings(transport: Transport) -> list[str]:
    program = transport.program
    found = [] if program is None else [program.cwd or "", *program.args, *program.env.values()]
    return [transport.url, *found] if isinstance(transport, Http | Sse) else found


def in_need_of_project(text: str) -> bool:
    """Return True if a string names the project of a client, and no default for where there is none."""
    return any(match[1] is None for match in _REFERENCE.finditer(text))


def names_project(transport: Transport) -> bool:
    """Return True if the transport depends on the project of a client."""
    return any(_REFERENCE.search(text) for text in _strings(transport))


def needs_project(transport: Transport) -> bool:
    """Return True if a server that runs once for each project cannot run without one."""
    return not names_project(transport) or any(map(in_need_of_project, _strings(transport)))


def stand_in(server: ServerConfig) -> str | None:
    """The project of a session that belongs to no client, and lists for those of clients; None for most.

    It is none where the entry has defaults, else the home folder, until a client in a project is there.
    """
    if server.sessions != "per_client" or not names_project(server.transport):
        return None
    return home() if needs_project(server.transport) else ""


def in_project(
    transport: Transport, project: str, variables: Mapping[str, str], *, runs_there: bool = True
) -> Transport:
    """The transport for clients in that project ("": none, so that defaults count).

    A program is given those `variables` of the client that its entry does not set. One without a working
    folder of its own runs in the project, unless `runs_there` says otherwise. In a URL the path of the
    project is percent-encoded.
    """
    if (program := transport.program) is not None:
        own = {name: with_project(value, project) for name, value in program.env.items()}
        unset = project or None if runs_there else None
        cwd = unset if program.cwd is None else with_project(program.cwd, project)
        args = tuple(with_project(each, project) for each in program.args)
        program = replace(program, args=args, env={**variables, **own}, cwd=cwd)
    if isinstance(transport, Http | Sse):
        return replace(transport, url=with_project(transport.url, quote(project)), program=program)
    return program or transport


def with_project(text: str, project: str) -> str:
    """A string with the project in place of each reference; without one, with the default that it gives."""
    return _REFERENCE.sub(lambda found: project or found[1] or "", text)

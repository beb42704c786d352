"""Names for shell completion: servers, tools, arguments, prompts and resources.

From the daemon, if one runs; else from the configuration file and what its servers offered last. Nothing is
started, nothing that the configuration names is run, and after `PATIENCE_S` there are no names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from mcpx.core.system.reaping import time_limit
from mcpx.core.text import is_clean, one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mcpx.core.catalog.model import JSON
    from mcpx.core.config import Config

PATIENCE_S: Final = 1.5
_HELP_CHARS: Final = 60


def complete_server(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the servers."""
    return _offered(lambda: [(name, "") for name in _servers(_config_of(ctx))], incomplete)


def complete_tool(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tools of the server that the command line names, but those that it names already."""
    named = ctx.params.get("tools") or ()
    return _offered(
        lambda: [
            (tool["name"], tool.get("description") or "") for tool in _tools(ctx) if tool["name"] not in named
        ],
        incomplete,
    )


def complete_argument(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """`name=` for the parameters of the tool, and the values of one that has a list of them."""
    words = [*(ctx.params.get("arguments") or ())]
    return _offered(lambda: _arguments(_schema(ctx), words, incomplete), incomplete)


def complete_prompt(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The prompts of the server that the command line names."""
    return _offered(lambda: _of_server(ctx, "prompts", "name", "description"), incomplete)


def complete_uri(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The resources of the server that the command line names."""
    return _offered(lambda: _of_server(ctx, "resources", "uri", "name"), incomplete)


def _of_server(ctx: click.Context, kind: str, name: str, about: str) -> list[tuple[str, str]]:
    """The entries of one kind that the server has: of each these two members."""
    server = ctx.params.get("server") or ""
    listed = _ask(_config_of(ctx), {"mcpx": kind, "server": server}) or {}
    return [(each[name], each.get(about) or "") for each in listed.get(kind, {}).get(server, ())]


def complete_client(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The AI clients that MCPX knows."""

    def names() -> list[tuple[str, str]]:
        from mcpx.setup.clients import CLIENTS  # for completion of clients alone

        return [(client.name, client.title) for client in CLIENTS]

    return _offered(names, incomplete)


def complete_profile(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The profiles of the configuration."""
    return _offered(lambda: [(name, "") for name in _read(_config_of(ctx)).profiles], incomplete)


def complete_token(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The tokens with names."""

    def names() -> list[tuple[str, str]]:
        from mcpx.core.policy.tokens import load_named  # for that of tokens alone

        return [(token.name, token.profile or "") for token in load_named()]

    return _offered(names, incomplete)


def _offered(names: Callable[[], list[tuple[str, str]]], incomplete: str) -> list[CompletionItem]:
    """The names that begin so, in time or not at all: completion never fails and never waits."""
    try:
        with time_limit(PATIENCE_S):
            found = names()
    except Exception:  # noqa: BLE001 - the boundary: a person who types is not told of errors
        return []
    from click.shell_completion import CompletionItem  # for completion alone, as all below

    return [
        CompletionItem(name, help=one_line(text, _HELP_CHARS) or None)
        for name, text in found
        if name.startswith(incomplete) and is_clean(name) and not any(map(str.isspace, name))
    ]


def _config_of(ctx: click.Context) -> str | None:
    path = ctx.params.get("config_path")
    return path if isinstance(path, str) else None


def _ask(config_path: str | None, control_request: JSON) -> JSON | None:
    from mcpx.core.daemon.control_client import request
    from mcpx.core.store.paths import daemon_paths

    return request(daemon_paths(config_path), control_request, within=PATIENCE_S)


def _servers(config_path: str | None) -> list[str]:
    status = _ask(config_path, {"mcpx": "status"})
    if status is not None:
        return [server["name"] for server in status["servers"]]
    return list(_read(config_path).servers)


def _read(config_path: str | None) -> Config:
    """The configuration as it stands in the file: read, and nothing else."""
    from mcpx.core.config import parse  # where no daemon runs
    from mcpx.paths import config_file

    path = config_file(config_path)
    return parse(path.read_bytes(), where=str(path), folder=path.parent)


def _tools(ctx: click.Context) -> list[JSON]:
    server, config_path = ctx.params.get("server") or "", _config_of(ctx)
    response = _ask(config_path, {"mcpx": "inspect", "server": server})
    if response is not None:
        return list(response["shaped"]["structuredContent"]["tools"])
    from mcpx.core.policy.policy import ServerPolicy  # likewise
    from mcpx.core.servers.offers.catalogue_store import CatalogueStore  # likewise

    config = _read(config_path).servers[server]
    known = CatalogueStore().load(config)
    shown = ServerPolicy(config).shown(known.catalogue if known else None)
    return [] if shown is None else [tool.to_dict() for tool in shown.tools.values()]


def _schema(ctx: click.Context) -> JSON:
    """The input schema of the tool that the command line names."""
    tool = ctx.params.get("tool")
    found: JSON = next(each["input_schema"] for each in _tools(ctx) if each["name"] == tool)
    return found


def _arguments(schema: JSON, words: list[str], incomplete: str) -> list[tuple[str, str]]:
    """Continuations of an argument. bash gives `mode=f` as three words, other shells as one."""
    properties: dict[str, Any] = schema.get("properties", {})
    if words and words[-1] in properties:  # behind its `=`, which click leaves out
        return [(value, "") for value in _values(properties[words[-1]])]
    if words[-1:] == ["="] and len(words) > 1:
        return [(value, "") for value in _values(properties.get(words[-2]))]
    name, equals, _ = incomplete.partition("=")
    if equals:
        return [(f"{name}={value}", "") for value in _values(properties.get(name))]
    given = {word.partition("=")[0] for word in words}
    return [(f"{name}=", "") for name in properties if name not in given]


def _values(schema: Any) -> list[str]:
    """The values that a parameter can have, if there is a list of them."""
    if not isinstance(schema, dict):
        return []
    if schema.get("type") == "boolean":
        return ["true", "false"]
    options: list[Any] = schema.get("enum") or next(
        (each["enum"] for each in schema.get("anyOf", ()) if isinstance(each, dict) and each.get("enum")), []
    )
    return [option for option in options if isinstance(option, str)]

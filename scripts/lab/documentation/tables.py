"""The tables of the documentation that come from the code, as Markdown: one function for each region.

What the code does not say (when an error occurs, what to do about it) stands here, keyed by the code's own
values, so that a value without a text is an error.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from mcpx.attach.command import USAGE
from mcpx.cli.main import cli
from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import json_schema
from mcpx.core.config.entries import FORMS
from mcpx.core.config.strings import TYPES
from mcpx.core.daemon.metric_families import FAMILIES
from mcpx.core.daemon.service import launchd_agent, systemd_unit
from mcpx.core.gateway.clients.known_clients import KNOWN_CLIENTS
from mcpx.core.gateway.tools.definitions import tools
from mcpx.core.rendering.descriptions import describe, instructions
from mcpx.core.rendering.mending import MEANINGS, Mend
from mcpx.core.servers.offers.catalogue_cache import _TEXT_TYPES as TEXT_TYPES
from mcpx.core.system.environment import GROUPS
from mcpx.errors import CallError, Code
from mcpx.setup.clients.rows import CLIENTS

_EXAMPLE: Final = tuple(
    ServerInfo(
        name=name,
        state=State.READY,
        transport="stdio",
        catalogue=Catalogue(
            generation=1,
            tools={str(n): ToolInfo(server_name=name, name=str(n), input_schema={}) for n in range(count)},
        ),
    )
    for name, count in (("git", 12), ("time", 2))
)
ERRORS: Final = {
    "unknown_server": (
        "No server has this name.",
        "The error names the nearest ones. Correct and repeat.",
    ),
    "unknown_tool": (
        "The server has no tool of this name.",
        "The error names the nearest ones, and other servers that have it. Correct and repeat.",
    ),
    "unknown_resource": (
        "The server offers no such resource, or the URI is refused.",
        "The error says which. Correct and repeat.",
    ),
    "invalid_arguments": (
        "The arguments do not fit the tool's input schema, or cannot be read.",
        "The error names each offending path and shows the schema. Correct and repeat.",
    ),
    "not_approved": (
        "It requires your approval, and you have not given it: refused, no answer, or you cannot be asked.",
        "The error says how to agree. Do not repeat without it.",
    ),
    "server_unavailable": (
        "The server was not ready within `queue_timeout`, is parked, disabled, or needs setup or a sign-in.",
        "The error gives the cause, and when a call triggers another attempt.",
    ),
    "overloaded": (
        (
            "`queue_size` calls are waiting, no slot of `max_concurrency` became free, the server answered"
            " HTTP 429, or `limits` are exceeded. Or the call was carried out, but its result waited too"
            " long to be processed; then the outcome is `unknown`."
        ),
        "Repeat later; `retry_in_s`, or `retry_after_s` if the server said so, says when.",
    ),
    "server_died": (
        "The connection was lost while the call was in flight.",
        "The error gives the exit code or signal and the last lines of stderr. Check before repeating.",
    ),
    "timeout": ("No response and no progress within `call_timeout`.", "Check before repeating."),
    "cancelled": ("The client cancelled the call.", "Check before repeating."),
    "upstream_error": (
        (
            "The server responded with a JSON-RPC error, or with an HTTP status instead of a response. After"
            " 502 and 504, by which a proxy says that it got no response, the outcome is `unknown`."
        ),
        "`upstream` has code, message and data, with secrets redacted; `http_status` has an HTTP status.",
    ),
    "response_too_large": (
        "The response exceeded `max_message_bytes`, or could not be shaped within 10 s.",
        "Ask for less, or raise the limit.",
    ),
    "protocol_error": (
        "The response was not valid MCP.",
        "The server has a bug. Check before repeating.",
    ),
    "internal_error": (
        "A bug in MCPX itself, contained in this request. The outcome is `not_sent` if nothing was sent.",
        "The log says more. Please report it.",
    ),
}
"""For each code: when it occurs, and what to do."""


STATES: Final = {
    State.STARTING: "Its process or connection is being set up, or its tools are being listed.",
    State.READY: "Calls are sent to it.",
    State.ASLEEP: "Nobody needs it, so it does not run. A call starts it; its tools are known.",
    State.WAITING: "It failed and restarts after a pause. A call starts it at once.",
    State.PARKED: "It failed too often, or in a way that a retry cannot fix. Calls fail at once.",
    State.NEEDS_SIGN_IN: "You have to sign in to it: `mcpx login NAME`. Until then, calls fail at once, and"
    " it is not retried.",
    State.STOPPED: "MCPX is shutting down, or the server was removed.",
    State.NEEDS_SETUP: "Something that it needs is missing: a variable, an entry of the keychain, a file or"
    " a folder. Every place that shows the state says what is missing and how to set it. Calls fail at"
    " once.",
    State.INVALID: "Its entry in the configuration contains a mistake, which `mcpx check` shows. It is not"
    " started.",
    State.DISABLED: "You have switched it off: `mcpx enable NAME` switches it on. Models do not see it.",
}
"""For each state of a server: what it means."""


def tables() -> dict[str, str]:
    """Every generated region by its name."""
    return {
        "settings": settings(),
        "server-keys": server_keys(),
        "transport-types": transport_types(),
        "environment": _table(
            ("about", "variables"),
            [(group.about, " ".join(f"`{name}`" for name in group.names)) for group in GROUPS],
        ),
        "errors": errors(),
        "states": _table(("state", "meaning"), [(f"`{state}`", STATES[state]) for state in State]),
        "commands": commands(),
        "command-reference": command_reference(),
        "text-types": ", ".join(f"`{each}`" for each in ("text/*", "*+json", "*+xml", *sorted(TEXT_TYPES))),
        "three-tools": three_tools(),
        "instructions": f"> {instructions(_EXAMPLE)}",
        "structured-content-clients": ", ".join(
            f"`{each.prefix}`" for each in KNOWN_CLIENTS if each.shows_structured_content
        ),
        "cut-descriptions-clients": ", ".join(
            f"`{each.prefix}` ({each.description_chars:,})"
            for each in KNOWN_CLIENTS
            if each.description_chars
        ),
        "string-arguments-clients": ", ".join(
            f"`{each.prefix}` ({each.title})" for each in KNOWN_CLIENTS if each.arguments == "string"
        ),
        "mends": mends(),
        "clients": clients(),
        "metrics": metrics(),
        "systemd-unit": systemd(),
        "launchd-agent": launchd(),
    }


def mends() -> str:
    """The mends of native tools, and the clients that are shown them."""
    rows = [
        (f"`{mend}`", f"{meaning[0].upper()}{meaning[1:]}", _clients_with(mend))
        for mend, meaning in MEANINGS.items()
    ]
    return _table(("mend", "in these forms", "for"), rows)


def _clients_with(mend: Mend) -> str:
    titles = [each.title for each in KNOWN_CLIENTS if mend in each.mends]
    return ", ".join(titles) or "only with `on`"


# --- configuration


def settings() -> str:
    """Every setting, with its default and whether one server can have its own."""
    schema = json_schema()
    for_one = schema["$defs"]["server"]["properties"]
    rows = []
    for key, value in schema["properties"].items():
        if key in FORMS:
            continue
        for name, one in _leaves(key, value):
            default = json.dumps(one["default"])
            rows.append((f"`{name}`", f"`{default}`", "yes" if key in for_one else "", one["description"]))
    return _table(("setting", "default", "per server", "meaning"), rows)


def _leaves(name: str, rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A setting by its dotted name; of a group, those in it."""
    if not (inside := rule.get("properties")):
        yield name, rule
        return
    for key, one in inside.items():
        yield from _leaves(f"{name}.{key}", one)


def server_keys() -> str:
    """The keys of a server's entry that are not settings."""
    schema = json_schema()
    entry = schema["$defs"]["server"]["properties"]
    rows = []
    for key, rule in entry.items():
        if key not in schema["properties"]:
            rows.append((f"`{key}`", _type(rule), rule["description"]))
            of_object = next((each for each in rule.get("anyOf", ()) if "properties" in each), rule)
            inside = of_object.get("properties", {})
            rows += [(f"`{key}.{name}`", _type(one), one["description"]) for name, one in inside.items()]
    return _table(("key", "value", "meaning"), rows)


def _type(rule: dict[str, Any]) -> str:
    options = [each for each in rule.get("anyOf", (rule,)) if each.get("type") != "null"]
    kind = next((each for each in options if "properties" in each), options[0])
    match kind.get("type"):
        case "array" | ["array", "string"]:
            return "list of strings"
        case "object":
            of_objects = isinstance(of := kind.get("additionalProperties"), dict) and "properties" in of
            is_plain = len(options) > 1 or "properties" in kind or of_objects
            return "object" if is_plain else "object of strings"
        case None if "enum" in kind:
            return ", ".join(f"`{word}`" for word in kind["enum"])
        case None:
            return "string"
        case single:
            return str(single)


def transport_types() -> str:
    """The values of `type`, by the transport that they mean."""
    named = {
        "stdio": "a command, over stdio",
        "http": "Streamable HTTP",
        "sse": "the older HTTP+SSE transport",
    }
    rows = [
        (", ".join(f"`{word}`" for word, kind in TYPES.items() if kind == each), meaning)
        for each, meaning in named.items()
    ]
    return _table(("`type`", "transport"), rows)


# --- clients


def clients() -> str:
    """The clients whose files MCPX knows, and where these are."""
    rows = [
        (
            f"`{client.name}`",
            client.title,
            *(_where(client.files[system]) for system in ("linux", "macos")),
            f"`{'.'.join(client.key)}`",
        )
        for client in CLIENTS
    ]
    return _table(("name", "client", "file on Linux", "on macOS", "servers under"), rows)


def _where(templates: tuple[str, ...]) -> str:
    """The preferred file of those that no variable names."""
    folders = {"home": "~", "config": "~/.config", "support": "~/Library/Application Support"}
    preferred = next(each for each in templates if not each.startswith("$"))
    return f"`{preferred.format(**folders)}`"


# --- errors


def errors() -> str:
    """Every error code, its outcome, when it occurs and what to do."""
    rows = [(f"`{code}`", f"`{CallError(code, '', server='').outcome}`", *ERRORS[str(code)]) for code in Code]
    return _table(("code", "outcome", "when", "what to do"), rows)


# --- monitoring


def metrics() -> str:
    """Every metric with its labels, and what it means."""
    rows = [
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help)
        for each in FAMILIES
    ]
    return _table(("metric", "type", "labels", "meaning"), rows)


# --- commands


def commands() -> str:
    """Every command in one line."""
    rows = []
    for path, command in _walk(cli, ("mcpx",)):
        rows.append((f"`{' '.join((*path, *_arguments(command)))}`", _first_sentence(command.help or "")))
    return _table(("command", "does"), rows)


def command_reference() -> str:
    """Every command with its help, its arguments and its options."""
    return "\n\n".join(
        _attach() if path[-1] == "attach" else _reference(path, command)
        for path, command in _walk(cli, ("mcpx",))
    )


def _first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return f"{paragraph.partition('. ')[0].rstrip('.')}."


def _walk(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden or command.name != name:  # another name of one
            continue
        if isinstance(command, click.Group):
            yield from _walk(command, (*path, name))
        else:
            yield (*path, name), command


def _arguments(command: click.Command) -> list[str]:
    """The arguments as a usage line has them."""
    if command.name == "attach":
        return []
    found = []
    for each in command.params:
        if isinstance(each, click.Argument):
            name = (each.name or "").upper() + ("..." if each.nargs == -1 else "")
            found.append(each.metavar or (name if each.required else f"[{name}]"))
    return found


def _reference(path: tuple[str, ...], command: click.Command) -> str:
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    usage = " ".join((*path, *(["[OPTIONS]"] if options else []), *_arguments(command)))
    parts = [f"### {' '.join(path)}", f"```text\n{usage}\n```", *_paragraphs(command.help or "")]
    if options:
        rows = [(_names(each), _meaning(each)) for each in options]
        parts.append(_table(("option", "meaning"), rows))
    return "\n\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    """The help of a command as Markdown; click's verbatim paragraphs become code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        stripped = paragraph.strip("\n")
        if stripped.startswith("\b"):
            yield "```text\n" + stripped.removeprefix("\b").strip("\n") + "\n```"
        elif stripped:
            yield " ".join(stripped.split())


def _names(option: click.Option) -> str:
    value = ""
    if not option.is_flag:
        kind = option.type
        value = " " + ("|".join(kind.choices) if isinstance(kind, click.Choice) else _metavar(option))
    return f"`{', '.join([*option.opts, *option.secondary_opts])}{value}`"


def _metavar(option: click.Option) -> str:
    return {"config_path": "FILE", "lines": "NUMBER", "host": "ADDRESS", "port": "NUMBER"}.get(
        option.name or "", "VALUE"
    )


def _meaning(option: click.Option) -> str:
    text = " ".join((option.help or "").split())
    if option.show_default and not option.is_flag:
        text = f"{text} Default: `{option.default}`.".strip()
    return text


def _attach() -> str:
    return f"### mcpx attach\n\n```text\n{USAGE.strip()}\n```"


# --- what clients are shown


def three_tools() -> str:
    """The parameters and annotations of the three tools."""
    rows = []
    for tool in tools(describe([], budget=4000)):
        required = tool["inputSchema"].get("required", [])
        given = [
            f"`{name}`" if name in required else f"`{name}?`" for name in tool["inputSchema"]["properties"]
        ]
        hints = tool["annotations"].items()
        shown = ", ".join(f"`{key}: {json.dumps(value)}`" for key, value in hints)
        rows.append((f"`{tool['name']}`", tool["title"], ", ".join(given), shown))
    return _table(("tool", "title", "parameters", "annotations"), rows)


# --- service managers


def systemd() -> str:
    """The unit that `mcpx daemon install` writes, with example paths."""
    mcpx = ("/home/me/.venv/bin/python", "-P", "-m", "mcpx")
    at = ("--config", "/home/me/mcpx.json")
    unit = systemd_unit(
        (*mcpx, "daemon", "run", *at), (*mcpx, "reload", *at), {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    )
    return f"```ini\n{unit.strip()}\n```"


def launchd() -> str:
    """The agent that `mcpx daemon install` writes, with example paths."""
    mcpx = ("/Users/me/.venv/bin/python", "-P", "-m", "mcpx")
    command = (*mcpx, "daemon", "run", "--config", "/Users/me/mcpx.json")
    log = Path("/Users/me/Library/Application Support/mcpx/daemon.log")
    agent = launchd_agent(command, {"PATH": "/opt/homebrew/bin:/usr/bin:/bin"}, log=log)
    return f"```xml\n{agent.strip()}\n```"


# --- Markdown


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

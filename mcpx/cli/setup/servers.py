"""`mcpx add`, `add-json`, `rename`, `remove`, `enable` and `disable`: the servers of the configuration.

Each edits the file that is in force, with its comments, in a change that `mcpx undo` takes back; then a
daemon that runs takes it in, and a server that was added or enabled is started to see what it offers.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mcpx.cli.known_names import complete_server
from mcpx.cli.operations.running import status
from mcpx.cli.options import Manner, changing_options
from mcpx.cli.setup.entry_arguments import (
    SCOPES,
    TRANSPORTS,
    arranged,
    kept_secret,
    pasted_entry,
    read_entry,
    with_secret,
)
from mcpx.errors import ConfigError, MCPXError
from mcpx.paths import config_hint

if TYPE_CHECKING:
    from mcpx.cli.setup.changing import ConfigurationEdit

_scope = click.option("--scope", "-s", type=click.Choice(SCOPES), hidden=True)  # of claude mcp; no effect


def _adding_options(command: Any) -> Any:
    """Add the options that `add` and `add-json` have in common."""
    for option in (
        click.option("--no-check", is_flag=True, help="Do not start it to see whether it works."),
        click.option("--replace", is_flag=True, help="Replace the server of that name, if there is one."),
        _scope,
    ):
        command = option(command)
    return changing_options(command)


class _Adding(click.Command):
    """Takes options behind the name, too, and leaves those of the server's command to it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [each for each in self.params if isinstance(each, click.Option) and not each.is_flag]
        with_value = {name for option in options for name in option.opts}
        return super().parse_args(ctx, arranged(args, with_value) if args else args)


@click.command(cls=_Adding, short_help="Add a server.", no_args_is_help=True)
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND_OR_URL [ARGS]...")
@click.option("--env", "-e", multiple=True, metavar="K=V", help="Environment variable; K alone: yours.")
@click.option("--header", "-H", "headers", multiple=True, metavar="K: V", help="Header, for a URL.")
@click.option("--transport", "-t", type=click.Choice(TRANSPORTS), help="How it is reached; usually guessed.")
@click.option("--cwd", metavar="FOLDER", help="Working folder of the command.")
@click.option(
    "--client-id", metavar="ID", help="Client that it is signed in to as, where MCPX cannot register."
)
@click.option("--client-secret", is_flag=True, help="That client has a secret: mcpx secret set NAME.")
@click.option("--callback-port", type=click.IntRange(1, 65535), help="Port that a sign-in returns to.")
@click.option("--url", hidden=True)
@click.option("--bearer-token-env-var", "bearer", hidden=True)
@_adding_options
def add(
    *,
    name: str,
    words: tuple[str, ...],
    env: tuple[str, ...],
    headers: tuple[str, ...],
    transport: str | None,
    cwd: str | None,
    url: str | None,
    bearer: str | None,
    client_id: str | None,
    client_secret: bool,
    callback_port: int | None,
    **options: Any,
) -> None:
    """Add a server NAME, which is started by COMMAND or reached at URL, and say what it offers.

    \b
    mcpx add git -- uvx mcp-server-git --repository '${project}'
    mcpx add -e API_KEY weather -- npx -y weather-mcp
    mcpx add docs https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

    Understands what claude mcp add does. Values are written into the configuration as they are given; ${NAME}
    stands for an environment variable. A server that does not start stays added.
    """  # noqa: D301 - click's mark for lines that are not wrapped
    words = (*words, *([url] if url else []))
    secret = kept_secret(name) if client_secret else None
    auth = {"client_id": client_id, "client_secret": secret, "callback_port": callback_port}
    entry = read_entry(
        words, env=env, headers=headers, transport=transport, cwd=cwd, bearer=bearer, auth=auth
    )
    _add(name, entry, **options)


@click.command("add-json", short_help="Add a server, given as JSON.")
@click.argument("name")
@click.argument("entry", metavar="JSON")
@click.option("--client-secret", is_flag=True, help="Its client has a secret: mcpx secret set NAME.")
@_adding_options
def add_json(*, name: str, entry: str, client_secret: bool, **options: Any) -> None:
    """Add a server NAME whose entry is JSON, as it stands in a client's file; - reads standard input.

    \b
    mcpx add-json weather '{"command": "npx", "args": ["-y", "weather-mcp"]}'

    With --replace, a value that MCPX showed as *** stays unchanged.
    """  # noqa: D301 - click's mark for lines that are not wrapped
    given = pasted_entry(sys.stdin.read() if entry == "-" else entry, name)
    given = with_secret(given, kept_secret(name)) if client_secret else given
    _add(name, given, is_masked=True, **options)


@click.command(short_help="Take servers out.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_server)
@_scope
@changing_options
def remove(*, names: tuple[str, ...], **options: Any) -> None:
    """Take each server NAME out of the configuration. mcpx undo puts it back."""
    from mcpx.cli.server_states import reached  # configuration and documents: completion needs none
    from mcpx.setup.documents.configuration import entry_at, places_of, without_server

    edit = _open(**options)
    for name in names:
        if (own := edit.own_names([name])) != (name,):
            whole = f"mcpx remove {shlex.quote(own[0])}{config_hint(edit.path)}"
            raise MCPXError(f"{name} is another name of {own[0]}; nothing was changed; to remove it: {whole}")
    edit.require(names)
    after = edit.before or b""
    for name, path in places_of(edit.document):
        if name in names:
            edit.say(f"{name}: {reached(entry_at(edit.document, path))}")
    for name in dict.fromkeys(names):
        after = edit.edited(partial(without_server, after, name))
    done = edit.change(f"remove {' '.join(names)}", after, f"Remove {', '.join(names)}?", is_asked=True)
    edit.report |= {"removed": list(dict.fromkeys(names)) if done else []}
    if done:
        edit.say(f"removed {', '.join(names)}; mcpx undo puts it back")
    edit.show_daemon()
    edit.end(is_changed=done)


@click.command(short_help="Give a server another name.")
@click.argument("old", shell_complete=complete_server)
@click.argument("new")
@changing_options
def rename(*, old: str, new: str, **options: Any) -> None:
    """Give the server OLD the name NEW.

    The old name stays as an alias: rules, profiles and clients that still use it find the server.
    """
    from mcpx.setup.documents.configuration import renamed

    edit = _open(**options)
    if (own := edit.own_names([old])) != (old,):
        raise MCPXError(
            f"{old} is another name of {own[0]}; nothing was changed; again: mcpx rename {own[0]} {new}"
        )
    edit.require([old])
    if new == old or new in edit.names() or edit.own_names([new]) not in {(new,), (old,)}:
        raise MCPXError(f"{new} is the name of a server already; nothing was changed; all names: mcpx status")
    after = edit.edited(partial(renamed, edit.before or b"", old, new))
    _examine(edit, new, after, is_started=True)
    edit.say(f"{old} becomes {new}, and stays an alias")
    done = edit.change(f"rename {old} {new}", after, f"Rename {old}?")
    edit.report |= {"server": new if done else old}
    edit.show_daemon()
    edit.end(is_changed=done)


@click.command(short_help="Switch servers on.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_server)
@changing_options
def enable(*, names: tuple[str, ...], **options: Any) -> None:
    """Switch each server NAME on, and say what it offers."""
    _switch(names, on=True, **options)


@click.command(short_help="Switch servers off, and keep them.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_server)
@changing_options
def disable(*, names: tuple[str, ...], **options: Any) -> None:
    """Switch each server NAME off: it stays in the configuration, and is not started."""
    _switch(names, on=False, **options)


@click.group(hidden=True)
def mcp() -> None:
    """Add, list and remove servers, as in other clients: mcpx mcp add is mcpx add, like claude mcp add."""


for _command in (add, add_json, rename, remove, enable, disable):
    mcp.add_command(_command)
mcp.add_command(status, "list")


def _open(config_path: str | None, manner: Manner, *, scope: str | None = None) -> ConfigurationEdit:
    """Open the configuration that is edited, by the options that all commands here have."""
    from mcpx.cli.setup.changing import ConfigurationEdit

    edit = ConfigurationEdit(config_path, manner)
    if scope:
        edit.note(f"--scope {scope} has no effect: MCPX has one configuration for all clients")
    return edit


def _add(
    name: str,
    entry: Mapping[str, Any],
    *,
    replace: bool,
    no_check: bool,
    is_masked: bool = False,
    **options: Any,
) -> None:
    """Write an entry, and start the server. One that `is_masked` may have `***` for values that are there."""
    from mcpx.cli.server_states import reached
    from mcpx.core.config.entry_auth import AUTH_KEYS
    from mcpx.setup.clients.masking import masked_entry, unmasked_entry
    from mcpx.setup.documents.configuration import with_server

    edit = _open(**options)
    if name in edit.names() and not replace:
        again = f"mcpx remove {shlex.quote(name)}{config_hint(edit.path)} takes it out, --replace replaces it"
        raise MCPXError(f"{name} is in {edit.path} already; {again}")
    if is_masked:
        try:
            entry = unmasked_entry(entry, edit.entry(name))
        except ValueError as error:
            raise MCPXError(f"{name}: {error}; nothing was changed") from None
    after = edit.edited(partial(with_server, edit.before, name, entry))
    edit.report |= {"server": name, "entry": masked_entry(entry)}
    edit.say(f"{name}: {reached(entry)}")
    for key in ("env", "headers", *AUTH_KEYS, "tls"):
        if isinstance(entry.get(key), dict):
            edit.say(f"  {key}: {', '.join(entry[key])}")
    if "cwd" in entry:
        edit.say(f"  cwd: {entry['cwd']}")
    runs_commands = edit.show_commands(name, entry)
    _examine(edit, name, after, is_started=not no_check)
    question = f"Add {name} to {edit.path}?"
    if not edit.change(f"add {name}", after, question, runs_commands=runs_commands):
        edit.end(is_changed=False)
    edit.say(f"added to {edit.path}; mcpx undo takes it out again")
    if not _works(edit, [] if no_check else [name]):
        edit.offer_to_take_back(f"Keep {name} all the same?")
        edit.end(is_good=False)
    edit.end()


def _examine(edit: ConfigurationEdit, name: str, after: bytes, *, is_started: bool) -> None:
    """Note what is odd with a server's entry; why it is disabled is known better once it `is_started`."""
    from mcpx.core.config.diagnosis import diagnose
    from mcpx.core.config.document import as_text
    from mcpx.core.config.reading import read

    where = str(edit.path)
    reading = read(as_text(after, where=where), where=where, environ=os.environ, folder=edit.path.parent)
    server = reading.config.servers.get(name)
    for mistake in reading.notices.mistakes:
        if mistake.server == name or server is None:
            problem = f"{mistake.problem} (in {mistake.at.path}); nothing was changed"
            raise ConfigError(name, f"{problem}; how it is given: mcpx add --help")
    at = reading.places[name]
    for remark in reading.notices.remarks():
        if at.holds(remark.at):
            edit.note(remark.text)
    found = diagnose(server) if server and not is_started else None
    if found is not None:
        edit.note(f"{found}" + (f"; {found.remedy}" if found.remedy else ""))


def _switch(names: tuple[str, ...], *, on: bool, **options: Any) -> None:
    from mcpx.setup.documents.configuration import entry_at, places_of, switched

    edit = _open(**options)
    names = edit.own_names(names)
    edit.require(names)
    after, what = edit.before or b"", "enable" if on else "disable"
    for name in names:
        after = edit.edited(partial(switched, after, name, on=on))
    runs_commands = False
    if on and after != edit.before:
        for name, path in places_of(edit.document):
            if name in names:
                runs_commands |= edit.show_commands(name, entry_at(edit.document, path))
    question = f"{what.title()} {', '.join(names)}?"
    if after == edit.before:
        edit.say(f"{', '.join(names)}: {'not disabled' if on else 'disabled already'}")
    elif not edit.change(f"{what} {' '.join(names)}", after, question, runs_commands=runs_commands):
        edit.end(is_changed=False)
    else:
        edit.say(f"{what}d {', '.join(names)}")
    works = _works(edit, [*names] if on else [])
    if not on:
        works = _are_off(edit, names)
    edit.end(is_good=works)


def _are_off(edit: ConfigurationEdit, names: tuple[str, ...]) -> bool:
    """Look whether servers are off in the daemon, if one runs, and say so if one is not."""
    from mcpx.cli.server_states import states

    found = states(str(edit.path))
    still = {name: found[name] for name in names if found.get(name, "disabled") != "disabled"}
    for name, state in still.items():
        edit.say(f"{name} is {state} in the daemon all the same: mcpx doctor says why", fg="red")
    edit.report |= {"still": still} if still else {}
    return not still


def _works(edit: ConfigurationEdit, started: list[str]) -> bool:
    """Start servers, and print what came of it; whether all of them work."""
    from mcpx.cli.server_states import check_server, show_check

    edit.show_daemon()
    checks = {name: check_server(str(edit.path), name) for name in started}
    for name, check in checks.items():
        edit.report.setdefault("checks", {})[name] = check.to_dict()
        if not edit.manner.as_json:
            show_check(name, check, edit.path)
    return all(check.started or check.needs_sign_in for check in checks.values())

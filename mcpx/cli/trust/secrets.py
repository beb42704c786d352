"""`mcpx secret` and `mcpx token`: secrets that configurations name, and tokens for HTTP clients.

Secrets are in the system's keychain, for `${keychain:NAME}` in a configuration. Daemons see at once what is
changed of tokens.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from mcpx.cli.group import Group
from mcpx.cli.known_names import complete_profile, complete_token
from mcpx.cli.options import Manner, changing_options, duration_of, json_option, with_config
from mcpx.cli.printing import NO_WRAP, Columns, duration, echo, print_table
from mcpx.core.config import load, read_config
from mcpx.core.config.document import as_text
from mcpx.core.config.reading import fetched_values
from mcpx.core.daemon.control_client import request
from mcpx.core.policy.profiles import check_endpoint
from mcpx.core.policy.tokens import NamedToken, issue, load_named
from mcpx.core.policy.tokens import revoke as revoke_token
from mcpx.core.running import keychain
from mcpx.core.store.paths import daemon_paths
from mcpx.core.system.endpoint import Endpoint
from mcpx.errors import MCPXError
from mcpx.paths import config_file, config_hint

# --- tokens for HTTP clients


def _lifetime(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> timedelta | None:
    """A time from now: 90m, 12h, 30d or 4w."""
    found = None if value is None else duration_of(value)
    if value is not None and not found:
        raise click.BadParameter(f"{value!r} is no time such as 90m, 12h, 30d or 4w")
    return found


@click.group(cls=Group, short_help="Tokens for HTTP clients.")
def token() -> None:
    """Make tokens for HTTP clients, each with a name, and if you want a profile and an end, and revoke them.

    A client sends its token as Authorization: Bearer TOKEN. Sessions and results belong to the token: who has
    another one cannot get at them. The default token, in the file that the daemon's log names, shows
    everything and stays.
    """


@token.command(short_help="Make one.")
@click.argument("name")
@click.option(
    "--profile", shell_complete=complete_profile, help="The profile that its clients see, and nothing else."
)
@click.option(
    "--expires", metavar="TIME", callback=_lifetime, help="When it ends, from now: 90m, 12h, 30d or 4w."
)
@with_config
@json_option
def new(
    *, name: str, profile: str | None, expires: timedelta | None, config_path: str | None, as_json: bool
) -> None:
    """Create the token NAME and print it, only once: MCPX keeps only its hash.

    With --profile, its clients see only that profile, at /mcp and at /mcp/PROFILE; no other endpoint exists
    for them.
    """
    if profile is not None:
        check_endpoint(Endpoint(profile=profile), load(config_file(config_path), resolve=False))
    now = datetime.now(UTC).replace(microsecond=0)
    secret, made = issue(name, profile=profile, expires=None if expires is None else now + expires, now=now)
    if as_json:
        echo(json.dumps({**_as_json(made, now), "token": secret}, indent=2))
        return
    echo(secret)
    shows = "everything" if profile is None else f"the profile {profile}"
    end = "until it is revoked" if made.expires is None else f"until {_local(made.expires)}"
    echo(f"{name} shows {shows}, {end}; it is not shown again", err=True)


@token.command("list", short_help="Their names.")
@with_config
@json_option
def list_tokens(*, config_path: str | None, as_json: bool) -> None:  # noqa: ARG001 - click passes it by name
    """List the tokens that were made with mcpx token new. The tokens themselves are kept nowhere."""
    tokens, now = load_named(), datetime.now(UTC)
    if as_json:
        echo(json.dumps({"tokens": [_as_json(each, now) for each in tokens]}, indent=2))
    elif not tokens:
        echo("no token was made; begin with: mcpx token new NAME", err=True)
    else:
        _print_table(tokens, now)


@token.command(short_help="End one.")
@click.argument("name", shell_complete=complete_token)
@with_config
@json_option
def revoke(*, name: str, config_path: str | None, as_json: bool) -> None:  # noqa: ARG001 - click passes it by name
    """End the token NAME for good, and the sessions of its clients with it."""
    revoke_token(name)
    echo(json.dumps({"revoked": name}) if as_json else f"revoked {name}; the sessions of its clients end")


def _as_json(token: NamedToken, now: datetime) -> dict[str, Any]:
    return {
        "name": token.name,
        "profile": token.profile,
        "created": token.created.isoformat(),
        "expires": None if token.expires is None else token.expires.isoformat(),
        "expired": token.is_expired(now),
    }


def _print_table(tokens: tuple[NamedToken, ...], now: datetime) -> None:
    rows = []
    for each in tokens:
        end = "never" if each.expires is None else _local(each.expires)
        shows = "everything" if each.profile is None else f"profile {each.profile}"
        style = "dim" if each.is_expired(now) else ""
        end = f"expired {end}" if each.is_expired(now) else end
        rows.append([(cell, style) for cell in (each.name, shows, _local(each.created), end)])
    print_table({"name": NO_WRAP, "shows": {}, "created": NO_WRAP, "expires": NO_WRAP}, rows)


def _local(time: datetime) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M}"


MAX_SECRET_CHARS = 65_536


@click.group(short_help="Secrets in the keychain.")
def secret() -> None:
    """Keep secrets in the system's keychain: a configuration names them as ${keychain:NAME}."""


@secret.command("set", short_help="Keep one.")
@click.argument("name")
@with_config
@json_option
def set_secret(*, name: str, config_path: str | None, as_json: bool) -> None:
    """Store a secret under NAME, replacing any other of that name.

    It is read from the terminal without echo, or from standard input: never from the command line, which
    other users can see.
    """
    _check(name)
    if sys.stdin.isatty():
        value = click.prompt(f"Secret for {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read(MAX_SECRET_CHARS + 1).rstrip("\r\n")
    if not value:
        raise MCPXError(f"the secret is empty; nothing was changed; again: mcpx secret set {name}")
    if len(value) > MAX_SECRET_CHARS:
        text = f"a secret has at most {MAX_SECRET_CHARS} characters; nothing was changed"
        raise MCPXError(f"{text}; a shorter one: mcpx secret set {name}")
    keychain.put(name, value)
    if as_json:
        echo(json.dumps({"set": name}))
        return
    echo(f"{name} is in the keychain; in a configuration it is ${{keychain:{name}}}")
    echo(f"a daemon that runs takes it in with: mcpx reload{config_hint(config_file(config_path))}", err=True)


@secret.command("list", short_help="Their names, and how old they are.")
@with_config
@json_option
def list_secrets(*, config_path: str | None, as_json: bool) -> None:
    """List the names that were set with mcpx secret set, and how old each value is that servers use.

    Values of ${keychain:...}, ${cmd:...} and env_file are fetched at each start of a server, and when one
    over HTTP refuses them. Values are never shown.
    """
    names, values = keychain.names(), _fetched(config_path)
    if as_json:
        echo(json.dumps({"secrets": list(names), "set": names, "values": values}))
        return
    if names:
        rows = [[name, _local(datetime.fromisoformat(at)) if at else "-"] for name, at in names.items()]
        print_table({"name": NO_WRAP, "set": NO_WRAP}, rows)
    else:
        echo("no secret was set; begin with: mcpx secret set NAME", err=True)
    if values:
        echo("")
        headers: Columns = {
            "server": NO_WRAP,
            "value": {"overflow": "ellipsis"},
            "fetched": {},
            "changed": {},
        }
        print_table(headers, [_value_row(each) for each in values])


def _fetched(config_path: str | None) -> list[dict[str, Any]]:
    """The values that the entries of servers fetch, each with how old it is in the daemon, if one runs."""
    file = config_file(config_path)
    try:
        values = fetched_values(as_text(read_config(file).data, where=str(file)), str(file))
    except MCPXError:
        return []
    ages: dict[str, Any] = {}
    if values:
        with suppress(MCPXError):
            ages = (request(daemon_paths(str(file)), {"mcpx": "secrets"}) or {}).get("fetched", {})
    return [
        {"server": server, "value": value, **ages.get(server, {})}
        for server, found in values.items()
        for value in found
    ]


def _value_row(value: dict[str, Any]) -> list[str]:
    """A row of the table: of a server without a daemon, its value was not fetched."""
    if "fetched_s" not in value:
        return [value["server"], value["value"], "not by a daemon", "-"]
    fetched = f"{duration(value['fetched_s'])} ago"
    if problem := value.get("problem"):
        fetched = f"failed {fetched}: {problem}"
    return [value["server"], value["value"], fetched, f"{duration(value['changed_s'])} ago"]


@secret.command(short_help="Remove one.")
@click.argument("name")
@changing_options
def remove(*, name: str, config_path: str | None, manner: Manner) -> None:  # noqa: ARG001 - click passes it
    """Remove the secret of NAME from the keychain, for good."""
    _check(name)
    if not manner.agrees(f"Remove {name} for good?"):
        manner.exit_unchanged()
    if not keychain.remove(name):
        raise MCPXError(f"the keychain holds no {name}; what it holds: mcpx secret list")
    echo(json.dumps({"removed": name}) if manner.as_json else f"removed {name}")


def _check(name: str) -> None:
    """Refuse a name that no configuration could name."""
    if not name.isprintable() or not name.strip() or any(sign in name for sign in ("{", "}", ":-")):
        raise click.UsageError("a name holds printable characters, and neither braces nor :-")

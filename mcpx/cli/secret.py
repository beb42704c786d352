"""`mcpx secret`: secrets in the system's keychain, for `${keychain:NAME}` in a configuration."""

from __future__ import annotations

import json
import sys

import click

from mcpx.cli.consent import changing_options, exit_unchanged, may_go_on
from mcpx.cli.daemon import json_option, with_config
from mcpx.cli.printing import echo
from mcpx.errors import MCPXError
from mcpx.paths import config_file, config_hint

MAX_SECRET_CHARS = 65_536


@click.group(short_help="Secrets in the keychain.")
def secret() -> None:
    """Keep secrets in the system's keychain: a configuration names them as ${keychain:NAME}."""


@secret.command("set", short_help="Keep one.")
@click.argument("name")
@with_config
def set_secret(name: str, config_path: str | None) -> None:
    """Keep a secret under NAME, in place of another of that name.

    It is read from the terminal, unseen, or from standard input: never from the command line, which other
    users can see.
    """
    from mcpx.core.running import keychain

    _check(name)
    if sys.stdin.isatty():
        value = click.prompt(f"Secret for {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read(MAX_SECRET_CHARS + 1).rstrip("\r\n")
    if not value:
        raise MCPXError("the secret is empty; nothing was changed")
    if len(value) > MAX_SECRET_CHARS:
        raise MCPXError(f"a secret has at most {MAX_SECRET_CHARS} characters; nothing was changed")
    keychain.put(name, value)
    echo(f"{name} is in the keychain; in a configuration it is ${{keychain:{name}}}")
    echo(f"a daemon that runs takes it in with: mcpx reload{config_hint(config_file(config_path))}", err=True)


@secret.command("list", short_help="Their names.")
@with_config
@json_option
def list_secrets(config_path: str | None, as_json: bool) -> None:  # noqa: ARG001, FBT001 - click passes them by name
    """List the names that were set with mcpx secret set. Values are never shown."""
    from mcpx.core.running import keychain

    names = keychain.names()
    if as_json:
        echo(json.dumps({"secrets": names}))
    elif not names:
        echo("no secret was set; begin with: mcpx secret set NAME", err=True)
    else:
        echo("\n".join(names))


@secret.command(short_help="Remove one.")
@click.argument("name")
@changing_options
def remove(name: str, config_path: str | None, dry_run: bool, as_json: bool, yes: bool) -> None:  # noqa: ARG001, FBT001 - click passes them by name
    """Remove the secret of NAME from the keychain, for good."""
    from mcpx.core.running import keychain

    _check(name)
    if not may_go_on(f"Remove {name} for good?", yes=yes, dry_run=dry_run, as_json=as_json):
        exit_unchanged(dry_run=dry_run)
    if not keychain.remove(name):
        raise MCPXError(f"the keychain holds no {name}")
    echo(json.dumps({"removed": name}) if as_json else f"removed {name}")


def _check(name: str) -> None:
    """Refuse a name that no configuration could name.

    Raises:
        UsageError: It is one.
    """
    if not name.isprintable() or not name.strip() or any(sign in name for sign in ("{", "}", ":-")):
        raise click.UsageError("a name holds printable characters, and neither braces nor :-")

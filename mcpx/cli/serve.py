"""`mcpx serve`: one process in the foreground."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mcpx.cli.daemon import config_of, with_config
from mcpx.cli.printing import echo
from mcpx.door import EXPOSURES, Door, Expose, only_of

if TYPE_CHECKING:
    from mcpx.config import Config


@click.command(short_help="Serve a client over stdio, or many over HTTP.")
@click.argument("config", required=False, type=click.Path())
@with_config
@click.option("--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True)
@click.option("--host", help="Address to listen on (http).  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (http).  [default: 8765]")
@click.option("--no-auth", is_flag=True, help="Ask HTTP clients for no token.")
@click.option("--expose", type=click.Choice(EXPOSURES), help="Show tools as the three, all, or both (stdio).")
@click.option("--profile", metavar="NAME", help="The servers and tools of a profile, no others (stdio).")
@click.option("--only", metavar="NAMES", help="These servers, separated by commas, no others (stdio).")
@click.option("--server", metavar="NAME", help="This server alone, exactly as it is (stdio).")
@click.option("--yes-everybody", is_flag=True, help="Ask for none on an address that others reach, too.")
def serve(
    *,
    config: str | None,
    config_path: str | None,
    transport: str,
    host: str | None,
    port: int | None,
    no_auth: bool,
    yes_everybody: bool,
    expose: Expose | None,
    profile: str | None,
    only: str | None,
    server: str | None,
) -> None:
    """Serve the servers of CONFIG in the foreground, until the client leaves or a signal comes.

    \b
    stdio: one client on standard input and output; this is what desktop clients start.
    http:  Streamable HTTP for any number of clients, on loopback, with a bearer token that is made at the
           first start and kept in the state folder.
    """  # noqa: D301 - click's own mark, not an escape
    from functools import partial

    import anyio
    from msgspec.structs import replace

    from mcpx.config import read_config
    from mcpx.config.transport import is_loopback
    from mcpx.core.profiles import select
    from mcpx.daemon.paths import check_state_folder
    from mcpx.environment import begin
    from mcpx.light_imports import import_structlog, light_sdk

    import_structlog()
    from mcpx.observe.log import configure
    from mcpx.upstream.early_start import early_children

    configure()
    text = read_config(config_of(config, config_path))
    loaded = text.parse(resolve=False)
    if loaded.login_shell:
        begin()
    address = host or loaded.http.host
    if transport == "http" and no_auth and not yes_everybody and not is_loopback(address):
        raise click.UsageError(
            f"--no-auth on {address} lets everybody who reaches that address run every tool;"
            " leave --no-auth out, listen on 127.0.0.1, or say --yes-everybody as well"
        )
    if transport == "http" and (expose or profile or only or server):
        raise click.UsageError(
            "HTTP has these in its URL: /mcp?expose=all, /mcp/PROFILE, /mcp?only=NAMES, /mcp/servers/NAME"
        )
    if transport == "stdio" and (host or port is not None or no_auth or yes_everybody):
        raise click.UsageError("--host, --port, --no-auth and --yes-everybody go with --transport http")
    door = _door(loaded, expose, profile, only, server)
    check_state_folder()
    if transport == "stdio" and sys.stdin.isatty():
        from mcpx.attach.command import WAITS_FOR_CLIENT

        echo(WAITS_FOR_CLIENT.format("serve"), err=True)
    # over HTTP a port or a token that cannot be had must end it before anything is started, or swept up
    early = server is None and transport == "stdio"

    def needed(config: Config) -> Config:
        return select(door, config).config if early else replace(config, servers={})

    with early_children(text.parse, needed) as resolved:
        with light_sdk(serves_http=transport == "http"):
            from mcpx import app

        if transport == "http":
            run = partial(app.serve_http, resolved(), host=host, port=port, auth=not no_auth)
        else:
            run = partial(app.serve_stdio, resolved(), door)
        code = anyio.run(run, backend_options=app.LOOP)
    sys.exit(code)


def _door(
    config: Config, expose: Expose | None, profile: str | None, only: str | None, server: str | None
) -> Door:
    """The door that the options name.

    Raises:
        UsageError: They do not go together, or name what there is not.
    """
    from mcpx.core.profiles import DoorError, check_door
    from mcpx.text.nearest import nearest

    if expose and server:
        raise click.UsageError("--server shows one server as it is; --expose says how all are shown")
    if server and (profile or only is not None):
        raise click.UsageError("--server shows one server as it is; --profile and --only choose among all")
    if server is not None and server not in config.servers:
        near = nearest(server, config.servers)
        hint = f"; did you mean {near[0]}?" if near else f"; there is {', '.join(config.servers)}"
        raise click.UsageError(f"{config.source} has no server {server!r}{hint}")
    door = Door(expose, server, None if only is None else only_of([only]), profile)
    try:
        check_door(door, config)
    except DoorError as error:
        raise click.UsageError(f"{config.source}: {error}") from None
    return door

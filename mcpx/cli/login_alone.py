"""`mcpx login` and `mcpx logout` where no daemon runs: in this process, with no server started.

The sign-in is stored where the next daemon finds it. The responses are those of the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.from_thread
import anyio.lowlevel

from mcpx.core.config import Config, ServerConfig, read_config
from mcpx.core.system.light_imports import light_sdk
from mcpx.core.system.paths import check_state_folder
from mcpx.core.telemetry.log import configure
from mcpx.core.text.nearest import suggestion
from mcpx.errors import MCPXError
from mcpx.oauth.accounts import Accounts, account_at, needs_sign_in, person_account, signed_in
from mcpx.oauth.callback import CallbackListeners
from mcpx.oauth.pending import PendingSignIn, callback_ports
from mcpx.oauth.record import identity_of

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON

TICK_S: Final = 0.2  # between empty reports, which may end the sign-in
Report = Callable[[Any, Callable[[str], None]], None]


def perform_alone(config_path: str | None, request: JSON) -> JSON:
    """The response to `logout`, and to a `login` that names no server.

    Raises:
        ConfigError: The configuration cannot be used.
        MCPXError: There is no such server, or what is stored cannot be removed.
    """
    config = _prepared(config_path, request.get("server"))
    if request["mcpx"] == "login":
        return {"needed": anyio.run(_needed, config)}
    if request.get("server") is None:
        return {"signed_in": anyio.run(_signed_in, config)}
    name = config.server_named(request["server"])
    return {"server": name, "signed_out": anyio.run(_log_out, config, name)}


def sign_in_alone(config_path: str | None, request: JSON, report: Report) -> JSON:
    """The response to a `login`. `report` is called with the address to open, and often with nothing.

    Raises:
        ConfigError: The configuration cannot be used.
        MCPXError: There is no such server, or the sign-in failed (`SignInError`).
    """
    name = request["server"]
    config = _prepared(config_path, name)
    name = config.server_named(name)
    with light_sdk():
        import mcpx.oauth.sign_in  # noqa: F401 - before the loop runs
    scopes, timeout_s = request["scopes"], request["timeout"] or config.login_timeout
    failure, done = anyio.run(_sign_in, config, name, scopes, timeout_s, report)
    if failure is not None:
        raise failure
    return done


def _prepared(config_path: str | None, name: str | None) -> Config:
    """The configuration, with the secrets of the server that is named, or of all that are signed in to."""
    configure("error")  # the command itself prints what fails
    check_state_folder()
    text = read_config(config_path)
    config = text.parse(resolve=False)
    servers = _entries(config)
    name = name and config.server_named(name)
    if name is not None and name not in servers:
        raise MCPXError(f"no server {name!r}; {suggestion(name, servers)}")
    names = [each.name for each in servers.values() if identity_of(each) is not None]
    return text.parse(secrets_of=names if name is None else [name])


async def _sign_in(
    config: Config, name: str, scopes: list[str], timeout_s: float, report: Report
) -> tuple[MCPXError | None, JSON]:
    """What came of a sign-in; the error is returned, not raised through the task group."""
    server = _entries(config)[name]
    try:
        account = person_account(server, Accounts(kind=config.token_store).of(server))
    except MCPXError as error:
        return error, {}
    token = anyio.lowlevel.current_token()
    failure: MCPXError | None = None

    def answer(address: str) -> None:
        anyio.from_thread.run_sync(sign_in.answer, address, token=token)

    async with anyio.create_task_group() as tasks:  # it ends when the browser has its last page
        ports = callback_ports(server, config)
        sign_in = PendingSignIn(account, ports=ports, timeout_s=timeout_s, scopes=scopes)
        tasks.start_soon(sign_in.run, CallbackListeners(tasks))
        try:
            await sign_in.url()
            report(sign_in.report(), answer)
            while sign_in.is_open:
                report({}, answer)
                with anyio.move_on_after(TICK_S):
                    await sign_in.wait()
            await sign_in.wait()
        except MCPXError as error:
            failure = error
            sign_in.cancel(str(error))
    return failure, {} if failure else sign_in.result()


async def _needed(config: Config) -> list[str]:
    """The servers that want a sign-in and have none that is good: those without any are asked."""
    accounts = Accounts(kind=config.token_store)
    needed: list[str] = []

    async def look(server: ServerConfig) -> None:
        account = accounts.of(server)
        if account is not None and account.is_of_person and await needs_sign_in(account):
            needed.append(server.name)

    async with anyio.create_task_group() as tasks:
        for server in _entries(config).values():
            tasks.start_soon(look, server)
    return [name for name in _entries(config) if name in needed]


async def _signed_in(config: Config) -> list[str]:
    accounts = Accounts(kind=config.token_store)
    return await signed_in({name: accounts.of(server) for name, server in _entries(config).items()})


def _entries(config: Config) -> dict[str, ServerConfig]:
    """All that MCPX may sign in to: servers, and other MCPX."""
    return config.servers | config.peers


async def _log_out(config: Config, name: str) -> bool:
    with light_sdk():
        from mcpx.oauth.token_requests import revoke

    server = _entries(config)[name]
    account = account_at(server, Accounts(kind=config.token_store).of(server))
    await account.load()
    if (record := await account.forget()) is None or record.tokens is None:
        return False
    await revoke(server, record)
    return True

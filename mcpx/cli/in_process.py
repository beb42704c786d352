"""Control requests of a command, carried out in its own process because no daemon runs.

Each is answered as the daemon answers it (`mcpx.core.gateway.frontends.control`). An approval is one of the
files of the pins, and a sign-in is stored where the next daemon finds it: nothing is started for them, unless
a tool is named that the files do not know, or a server whose file cannot be believed. Everything else has the
servers that it needs started, and ended again (`mcpx.cli.own_servers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import anyio.from_thread
import anyio.lowlevel
import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.config import Config, ServerConfig, load, read_config
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.policy.pin_files import PinFiles
from mcpx.core.policy.pin_record import entry_key, pin_identity
from mcpx.core.policy.pin_review import Agreed, NothingToApproveError, agreed_to, edit_of, review, reviewed
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.store.paths import check_state_folder
from mcpx.core.system.light_imports import light_sdk
from mcpx.core.telemetry.log import configure
from mcpx.core.text.nearest import suggestion
from mcpx.errors import MCPXError
from mcpx.oauth.accounts import Accounts, account_at, needs_sign_in, person_account, signed_in
from mcpx.oauth.callback import CallbackListeners
from mcpx.oauth.record import identity_of
from mcpx.oauth.sign_in import SignIn, callback_ports

TICK_S: Final = 0.2  # between empty reports, which may end the sign-in
Report = Callable[[JSON], None]
"""Takes what a request has done so far, and often nothing; what it raises ends the request."""

_answering: Final[dict[str, Callable[[str], None]]] = {}
"""What takes the address that the browser came back to, by the server that is being signed in to."""


def perform(config_path: str | None, request: JSON, report: Report) -> JSON:
    """Carry out a control request, and return the response.

    Raises:
        ConfigError: The configuration cannot be used.
        DaemonError: Others may change the state folder.
        CallError: As the tool of that name.
        MCPXError: There is no such server, profile or tool; files cannot be written; a sign-in failed.
    """
    operation, server = request["mcpx"], request.get("server")
    if operation == "login_answer":
        _answering[request["server"]](request["address"])
        return {}
    configure("error")  # the command itself prints what fails
    check_state_folder()
    if operation == "login" and server is not None:
        return _sign_in(config_path, request, report)
    if operation in {"login", "logout"}:
        return _signed_in_or_out(config_path, operation, server)
    if "project" in request:
        return anyio.run(_approve_project, request)
    if operation == "approve" and (reviewed_files := _review_files(config_path, request)) is not None:
        return reviewed_files
    with light_sdk():
        from mcpx.cli.own_servers import perform as perform_on_servers  # the SDK: half a second

    return perform_on_servers(config_path, request, report)


# --- approvals


async def _approve_project(request: JSON) -> JSON:
    """The response to a control request about the files of a project; the next daemon finds what it keeps."""
    from mcpx.core.daemon.project_files import ProjectFiles

    return await ProjectFiles(None, anyio.lowlevel.checkpoint).answer(
        request["project"], request.get("digest", "")
    )


def _review_files(config_path: str | None, request: JSON) -> JSON | None:
    """The response to a control request `approve`; None where only the server itself could give it."""
    servers, files = load(config_path).servers, PinFiles()
    if request.get("agreed") is not None:
        agreed = msgspec.convert(request["agreed"], list[Agreed])
        if any(each.kind != "pins" for each in agreed) and _must_be_asked(request["server"], servers, files):
            return None
        return _approve(servers, files, agreed, of_all=request["of_all"])
    names = [_known(request["server"], servers)] if request["server"] is not None else list(servers)
    found = []
    for name in names:
        if servers[name].disabled is None:
            if _must_be_asked(request["server"], servers, files):
                return None
            pins = _pins(servers[name], files)
            try:
                changes = review(pins, ServerPolicy(servers[name]), request["tool"])
            except NothingToApproveError:
                if pins.problem is None and request["tool"] not in pins.names():
                    return None
                raise
            if changes:
                found.append(reviewed(pins, changes))
        elif request["server"] is not None:
            raise MCPXError(f"{name}: {diagnose(servers[name])}; to switch it on: mcpx enable {name}")
    return {"waiting": found}


def _must_be_asked(name: str | None, servers: dict[str, ServerConfig], files: PinFiles) -> bool:
    """Return True if the server has to be asked before it is pinned, as its pins are lost."""
    if name is None:
        return False
    pins = _pins(servers[_known(name, servers)], files)
    return pins.is_active and pins.problem is not None


def _pins(server: ServerConfig, files: PinFiles) -> ServerPins:
    return ServerPins(server, *files.load(pin_identity(server)))


def _approve(
    servers: dict[str, ServerConfig], files: PinFiles, agreed: list[Agreed], *, of_all: bool
) -> JSON:
    try:
        for name in dict.fromkeys(each.server for each in agreed):
            server, its = servers[_known(name, servers)], [each for each in agreed if each.server == name]
            pins = _pins(server, files)
            anew = None if pins.problem is None else pins.record
            base, entry = files.base(server), entry_key(server)
            files.update(pin_identity(server), edit_of(its), base, entry=entry, anew=anew)
        if of_all:
            files.forget_losses()
    except OSError as error:
        raise MCPXError(f"{files.folder}: {error.strerror}; nothing was approved") from None
    return agreed_to(agreed)


def _known(name: str, servers: dict[str, ServerConfig]) -> str:
    if name in servers:
        return name
    raise MCPXError(f"no server {name!r}; {suggestion(name, servers)} To see them: mcpx status")


# --- sign-ins


def _signed_in_or_out(config_path: str | None, operation: str, server: str | None) -> JSON:
    """Answer a `logout`, or a `login` that names no server."""
    config = _prepared(config_path, server)
    if operation == "login":
        return {"needed": anyio.run(_needed, config)}
    if server is None:
        return {"signed_in": anyio.run(_signed_in, config)}
    name = config.server_named(server)
    return {"server": name, "signed_out": anyio.run(_log_out, config, name)}


def _sign_in(config_path: str | None, request: JSON, report: Report) -> JSON:
    config = _prepared(config_path, request["server"])
    with light_sdk():
        import mcpx.oauth.code_grant  # noqa: F401 - before the loop runs
    failure, done = anyio.run(_signing_in, config, request, report)
    _answering.pop(request["server"], None)
    if failure is not None:
        raise failure
    return done


def _prepared(config_path: str | None, name: str | None) -> Config:
    """The configuration, with the secrets of the server that is named, or of all that are signed in to."""
    text = read_config(config_path)
    config = text.parse(resolve=False)
    servers = _entries(config)
    if name is not None:
        return text.parse(secrets_of=[_known(config.server_named(name), servers)])
    names = [each.name for each in servers.values() if identity_of(each) is not None]
    return text.parse(secrets_of=names)


async def _signing_in(config: Config, request: JSON, report: Report) -> tuple[MCPXError | None, JSON]:
    """Return what came of a sign-in: the error too, not raised through the task group."""
    timeout_s = request["timeout"] or config.login_timeout
    name = config.server_named(request["server"])
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
        sign_in = SignIn(account, ports=ports, timeout_s=timeout_s, scopes=request["scopes"])
        tasks.start_soon(sign_in.run, CallbackListeners(tasks))
        try:
            await sign_in.url()
            _answering[request["server"]] = answer
            report(sign_in.report())
            while sign_in.is_open:
                report({})
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
        from mcpx.oauth.token_requests import revoke  # the SDK's HTTP

    server = _entries(config)[name]
    account = account_at(server, Accounts(kind=config.token_store).of(server))
    await account.load()
    if (record := await account.forget()) is None or record.tokens is None:
        return False
    await revoke(server, record)
    return True

"""`mcpx approve` where no daemon runs: on the files of the pins, with nothing started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mcpx.core.config import ServerConfig, load
from mcpx.core.config.diagnosis import diagnose
from mcpx.core.policy.pin_files import PinFiles
from mcpx.core.policy.pin_record import entry_key, pin_identity
from mcpx.core.policy.pin_review import Agreed, NothingToApproveError, agreed_to, edit_of, review, reviewed
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.system.paths import check_state_folder
from mcpx.core.text.nearest import suggestion
from mcpx.errors import MCPXError

if TYPE_CHECKING:
    from mcpx.core.catalog.model import JSON


def review_files(config_path: str | None, request: JSON) -> JSON | None:
    """The response to a control request `approve`; None where only the server itself could give it.

    Raises:
        ConfigError: The configuration cannot be used.
        MCPXError: There is no such server or tool, or the files cannot be written.
    """
    check_state_folder()
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
            raise MCPXError(f"{name}: {diagnose(servers[name])}")
    return {"waiting": found}


def _must_be_asked(name: str | None, servers: dict[str, ServerConfig], files: PinFiles) -> bool:
    """Whether it is to be seen what the server has now before that is pinned: what was pinned is lost."""
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
    raise MCPXError(f"no server {name!r}; {suggestion(name, servers)}")

"""What has changed since it was approved, and records of that which cannot be believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcpx.core.policy.pin_files import PinFiles
from mcpx.core.policy.pin_record import pin_identity
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.policy import ServerPolicy
from mcpx.setup.doctor.findings import Finding, note, wrong
from mcpx.setup.doctor.installation import Installation

MAX_NAMED: Final = 5  # changes of one server


def check_approvals(installation: Installation) -> Iterator[Finding]:
    """Check what is pinned of each server. That nothing waits is no finding."""
    config = installation.config
    if config is None:
        return
    files = PinFiles()
    for server in config.servers.values():
        if server.disabled is not None:
            continue
        policy = ServerPolicy(server)
        policy.pin(ServerPins(server, *files.load(pin_identity(server))))
        advice = installation.command("approve", server.name)
        changes = policy.changes()
        lost = [each.summary() for each in changes if each.kind == "pins"]
        if lost:
            yield wrong(server.name, lost[0], advice)
        elif changes:
            named = "; ".join(each.summary() for each in changes[:MAX_NAMED])
            more = f"; and {len(changes) - MAX_NAMED} more" if len(changes) > MAX_NAMED else ""
            found = wrong if any(each.blocked for each in changes) else note
            yield found(server.name, f"waits for approval: {named}{more}", advice)

"""The examination: which checks there are, and running them. Called by `mcpx doctor`.

A check is a function from an `Installation` to findings. It changes nothing, bounds every wait, and need not
catch what goes wrong in it: that becomes a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mcpx.setup.doctor.clients import check_clients
from mcpx.setup.doctor.configuration import check_approvals, check_changes, check_configuration
from mcpx.setup.doctor.daemon import check_daemon
from mcpx.setup.doctor.installation import Finding, Installation, wrong
from mcpx.setup.doctor.machine import check_machine, check_service, check_versions
from mcpx.setup.doctor.servers import check_servers


class Check(NamedTuple):
    """A check, and the heading under which its findings stand."""

    title: str
    run: Callable[[Installation], Iterable[Finding]]


class Section(NamedTuple):
    """The findings of one check."""

    title: str
    findings: tuple[Finding, ...]


CHECKS: Sequence[Check] = (
    Check("versions", check_versions),
    Check("configuration", check_configuration),
    Check("servers", check_servers),
    Check("approvals", check_approvals),
    Check("daemon", check_daemon),  # before the clients, for which one may be started
    Check("service", check_service),
    Check("clients", check_clients),
    Check("changes", check_changes),
    Check("machine", check_machine),
)


def examine(
    installation: Installation,
    *,
    checks: Iterable[Check] = CHECKS,
    on_check: Callable[[str], None] = lambda _title: None,
) -> list[Section]:
    """Run the checks in turn. `on_check` is called with the title of each before it runs."""
    sections = []
    for check in checks:
        on_check(check.title)
        if findings := _run(check, installation):
            sections.append(Section(check.title, findings))
    return sections


def _run(check: Check, installation: Installation) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    try:
        findings.extend(check.run(installation))
    except Exception as error:  # noqa: BLE001 - what is broken here is what the user wants to know
        problem = f"this check could not be made: {type(error).__name__}: {error}"
        findings.append(wrong(check.title, problem))
    return tuple(findings)

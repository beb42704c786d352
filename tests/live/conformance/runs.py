"""What is run against what, what differs from the reference server alone, and which difference is explained.

`PLAN` lists the runs of each reference server. `baseline.toml` names what a reference server fails by itself
and each difference through MCPX, with the reason; `unexplained` gives what it does not name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from tests.live.conformance.suite import REVISIONS, Check, Found, Revision
from tests.live.conformance.targets import DIRECT, REFERENCES, TARGETS, Reference, Target

BASELINE: Final = Path(__file__).parent / "baseline.toml"


class Run(msgspec.Struct, frozen=True):
    """One revision of the suite against one way to one reference server."""

    reference: Reference
    revision: Revision
    target: Target

    def __str__(self) -> str:
        return f"{self.reference.name}, {self.revision.name}, {self.target.name}"


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the baseline. What it leaves out may be anything.

    `target` is the beginning of a name, or with `exact` the name.
    """

    because: str
    target: str
    scenario: str | None = None
    exact: bool = False
    check: str | None = None
    reference: str | None = None
    revision: str | None = None

    def covers(self, run: Run, check: Check) -> bool:
        """Whether it explains this check of this run."""
        return (
            (run.target.name == self.target or (not self.exact and run.target.name.startswith(self.target)))
            and self.scenario in {None, check.scenario}
            and self.check in {None, check.id}
            and self.reference in {None, run.reference.name}
            and self.revision in {None, run.revision.name}
        )


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that is known to fail or to differ."""

    reference: list[Entry] = []
    difference: list[Entry] = []
    client: list[Entry] = []


def baseline() -> Baseline:
    """The baseline as it stands in its file."""
    return msgspec.convert(tomllib.loads(BASELINE.read_text("utf-8")), Baseline)


def applicable(run: Run) -> bool:
    """Whether a run says anything: the server speaks that revision, and is not pinned to the other era."""
    if run.revision.modern and not run.reference.modern:
        return False
    if run.target.era is not None and not run.reference.modern:
        return False
    return run.target.era in {None, "modern" if run.revision.modern else "handshake"}


PLAN: Final = tuple(
    run
    for reference in REFERENCES
    for revision in REVISIONS
    for target in (DIRECT, *TARGETS)
    if applicable(run := Run(reference, revision, target))
)
"""Every run, that of the reference server alone before those that are compared with it."""


def failures(found: Found) -> list[Check]:
    """What a server fails by itself."""
    return sorted(check for check in found.checks if check.status == "FAILURE")


def differences(alone: Found, through: Found) -> list[Check]:
    """The checks that came out worse through MCPX, as they came out there; one that is gone as `MISSING`."""
    worse = [check for check in through.checks - alone.checks if check.status != "SUCCESS"]
    there = {(check.scenario, check.id) for check in through.checks}
    gone = [check for check in alone.checks - through.checks if (check.scenario, check.id) not in there]
    return sorted(worse + [msgspec.structs.replace(check, status="MISSING") for check in gone])


def unexplained(run: Run, checks: Iterable[Check], entries: list[Entry]) -> list[Check]:
    """Those that no entry covers."""
    return [check for check in checks if not any(entry.covers(run, check) for entry in entries)]

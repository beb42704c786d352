"""MCPX as the client that the suite looks at: which scenarios, and the command that plays them.

The suite starts a server of its own for each scenario, and `driver.py` with its URL. The driver runs `mcpx
serve` with that server as an upstream, and does through MCPX what the scenario asks of a client.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from tests.live.conformance.suite import Found, Revision, check_client

ROOT: Final = Path(__file__).parents[3]
_BOTH: Final = ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"]
_MODERN: Final = [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
]
SCENARIOS: Final = {
    "0.1.16": _BOTH,
    "0.2.0-alpha.12 at 2025-11-25": [*_BOTH, "json-schema-2020-12-preservation"],
    "0.2.0-alpha.12 at 2026-07-28": _MODERN,
}
"""Those that apply to an upstream connection, by the name of the revision. No authorization."""


DOORS: Final = ("exec", "transparent")
"""How the driver calls the tools of the suite's server."""


async def check_mcpx(revision: Revision, door: str, scenarios: list[str]) -> Found:
    """What the suite finds about MCPX as a client, used at one of DOORS."""
    command = shlex.join([sys.executable, "-m", "tests.live.conformance.driver", door])
    return await check_client(revision, command, scenarios, {"PYTHONPATH": str(ROOT)})

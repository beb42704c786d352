"""MCPX as the client that the suite looks at: which scenarios, and the command that plays them.

The suite starts a server of its own for each scenario, and `driver.py` with its URL. The driver runs `mcpx
serve` with that server as an upstream, and does through MCPX what the scenario asks of a client. Where the
server wants a sign-in, it is `signing_in.py`, which runs a daemon and the commands of MCPX.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from tests.forking.client import command
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
"""Those that apply to an upstream connection, by the name of the revision."""

_SIGN_INS: Final = [
    *(f"auth/metadata-{which}" for which in ("default", "var1", "var2", "var3")),
    "auth/basic-cimd",
    *(f"auth/token-endpoint-auth-{method}" for method in ("basic", "post", "none")),
    "auth/pre-registration",
    "auth/resource-mismatch",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
]
_NEWER_SIGN_INS: Final = [
    "auth/authorization-server-migration",
    "auth/metadata-issuer-mismatch",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
]
SIGN_INS: Final = {
    "0.1.16": [*_SIGN_INS, "auth/client-credentials-basic", "auth/client-credentials-jwt"],
    "0.2.0-alpha.12 at 2025-11-25": _SIGN_INS,
    "0.2.0-alpha.12 at 2026-07-28": [
        *_SIGN_INS,
        *_NEWER_SIGN_INS,
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
    ],
}
"""Those with a server that wants a sign-in. Left out: those of extensions that MCPX does not have, and of
the revision of 2025-03-26, whose metadata in 0.1.16 are for another issuer."""

ENDPOINTS: Final = ("exec", "transparent")
"""How the driver calls the tools of the suite's server."""


async def check_mcpx(revision: Revision, endpoint: str, scenarios: list[str]) -> Found:
    """What the suite finds about MCPX as a client, used at one of ENDPOINTS."""
    play = shlex.join([sys.executable, "-m", "tests.live.conformance.driver", endpoint])
    return await check_client(revision, play, scenarios, {"PYTHONPATH": str(ROOT)})


async def check_sign_ins(revision: Revision, scenarios: list[str]) -> Found:
    """What the suite finds about MCPX as a client that signs in, by its commands."""
    play = shlex.join(command("-m", "tests.live.conformance.signing_in"))
    return await check_client(revision, play, scenarios, {"PYTHONPATH": str(ROOT)})

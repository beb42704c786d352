"""Questions of one era in the words of the other. Pure.

An elicitation in url mode carries an `elicitationId` up to 2025-11-25 (and may be announced as completed by
it), and none from 2026-07-28 on; questions that ask to be made tasks exist at 2025-11-25 only.
"""

from __future__ import annotations

import uuid
from typing import Final

from mcpx.upstream.context import ELICITATION, JSON

_NOT_MODERN: Final = frozenset({"elicitationId", "task"})


def for_handshake(method: str, params: JSON) -> JSON:
    """A 2026-07-28 question for a client of an older revision."""
    if method == ELICITATION and params.get("mode") == "url" and "elicitationId" not in params:
        return {**params, "elicitationId": str(uuid.uuid4())}
    return params


def for_modern(params: JSON) -> JSON:
    """An older server's question for a client of 2026-07-28."""
    return {key: value for key, value in params.items() if key not in _NOT_MODERN}

"""What another MCPX says of a call that failed at its endpoint: the same error here. Pure.

It is a JSON-RPC error whose data is `{"mcpx": {code, outcome, ...details}}`
(`mcpx.core.gateway.peer.errors`). A server behind that MCPX cannot make one up, for what it says is inside,
under `upstream`. The outcome is never better than what was said, and `unknown` where nothing that is
understood was said.
"""

from __future__ import annotations

from typing import Any, Final

from mcp import MCPError

from mcpx.core.config import Redactor
from mcpx.core.text import paragraphs
from mcpx.errors import CallError, Code, Outcome

FAILURE_KEY: Final = "mcpx"
"""The member of a JSON-RPC error's `data` in which a peer endpoint says how a call failed."""
_NEXT_LINE: Final = "\n  "  # of what is quoted: each line shows whose it is
_CODES: Final = {str(code): code for code in Code}
_OUTCOMES: Final = {str(outcome): outcome for outcome in Outcome}
_NAMES: Final = frozenset({"error", "code", "outcome", "server", "tool"})


def error_of_mcpx(
    error: MCPError, *, server: str, tool: str | None, redact: Redactor, peer: str | None = None
) -> CallError | None:
    """The error that the other side means, with the names that server and tool have here.

    None for one that is no failure of an MCPX. The words of a `peer` are quoted: they must not pass for those
    of this MCPX, by which a model or a person goes.
    """
    said = error.data.get(FAILURE_KEY) if isinstance(error.data, dict) else None
    if not isinstance(said, dict):
        return None
    code = _CODES.get(str(said.get("code")), Code.PROTOCOL_ERROR)
    outcome = _OUTCOMES.get(str(said.get("outcome")), Outcome.UNKNOWN)
    found = redact.data({name: its for name, its in said.items() if name not in _NAMES})
    details: dict[str, Any] = found if isinstance(found, dict) else {}
    if "upstream" in details and not _is_error(details["upstream"]):
        del details["upstream"]
    text = redact(error.message)
    if peer is not None and code is not Code.UPSTREAM_ERROR:  # which has the words of a server, as any
        quoted = paragraphs(text).replace("\n", _NEXT_LINE)
        text = f"{peer} says: {quoted}"
    return CallError(code, text, server=server, tool=tool, details=details, outcome=outcome)


def _is_error(said: object) -> bool:
    """Whether this is what a server may say: it is read as one elsewhere."""
    return isinstance(said, dict) and type(said.get("code")) is int and isinstance(said.get("message"), str)

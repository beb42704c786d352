"""The MCP server of a scripted issuer: over Streamable HTTP, in both eras, for whoever has a token.

Tools: `count` notes the `key` of its arguments and answers with it; `look` does so too, and is read-only;
`whoami` answers with the person whose token it is; `admin` wants the scope that `Options.tool_scopes` names.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from tests.mcpx.oauth.scripted_grants import Access
from tests.mcpx.oauth.scripted_http import Answer, Seen

if TYPE_CHECKING:
    from tests.mcpx.oauth.scripted_issuer import ScriptedIssuer

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ANY = {"type": "object", "properties": {"key": {"type": "string"}}}
TOOLS: list[dict[str, Any]] = [
    {"name": "count", "description": "Counts.", "inputSchema": ANY},
    {"name": "look", "description": "Looks.", "inputSchema": ANY, "annotations": {"readOnlyHint": True}},
    {"name": "whoami", "description": "Says who you are.", "inputSchema": ANY},
    {"name": "admin", "description": "Wants another scope.", "inputSchema": ANY},
]
ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "scripted", "version": "1"}}
CACHED = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


class Resource:
    """The protected server of an issuer."""

    def __init__(self, issuer: ScriptedIssuer) -> None:
        self._issuer = issuer
        self._sessions: set[str] = set()
        self.calls: list[str] = []

    def method(self, seen: Seen) -> str:
        """The JSON-RPC method of a request, or the HTTP method of one without a message."""
        return str(seen.json.get("method", "")) if seen.method == "POST" else seen.method

    def answer(self, seen: Seen) -> Answer:
        """Answer a request to the MCP server."""
        access = self._access(seen)
        if isinstance(access, Answer):
            return access
        if seen.method == "DELETE":
            self._sessions.discard(seen.headers.get("mcp-session-id", ""))
            return Answer(200)
        if seen.method != "POST":
            return Answer(405)
        message = seen.json
        if "id" not in message:
            return Answer(202)
        params = message.get("params") or {}
        modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
        era = self._issuer.options.era
        if era not in {"both", "modern" if modern else "legacy"}:
            return self._error(message, -32601, "Method not found: another era", status=400)
        session = seen.headers.get("mcp-session-id")
        if not modern and message["method"] != "initialize" and session not in self._sessions:
            return Answer(404)
        if (refused := self._scope_missing(message, access)) is not None:
            return refused
        return self._result(message, params, access, modern=modern)

    def _access(self, seen: Seen) -> Access | Answer:
        """What the token of a request allows; or the refusal."""
        if self._issuer.options.is_open:
            return Access("", "anonymous", "", None, None, "")
        scheme, _, token = seen.headers.get("authorization", "").partition(" ")
        access = self._issuer.grants.access_of(token) if scheme.lower() == "bearer" else None
        if access is None or not self._is_for_us(access):
            return Answer(401, {"error": "invalid_token"}, self._challenge(error=bool(token)))
        return access

    def _is_for_us(self, access: Access) -> bool:
        return access.resource is None or access.resource.rstrip("/") in {
            self._issuer.mcp_url,
            self._issuer.url("resource"),
        }

    def _challenge(self, *, error: bool = False, scope: str | None = None) -> dict[str, str]:
        issuer = self._issuer
        if issuer.challenge is not None:
            return {"www-authenticate": issuer.challenge} if issuer.challenge else {}
        if issuer.options.discovery in {"none", "well-known"}:
            return {"www-authenticate": "Bearer"}
        parts = {}
        if scope is not None:
            parts["error"] = "insufficient_scope"
        elif error:
            parts["error"] = "invalid_token"
        if (scope := scope or issuer.options.challenge_scope) is not None:
            parts["scope"] = scope
        if issuer.options.discovery == "header":
            path = f"/.well-known/oauth-protected-resource{issuer.options.path}"
            parts["resource_metadata"] = issuer.url("resource", path)
        return {"www-authenticate": "Bearer " + ", ".join(f'{key}="{text}"' for key, text in parts.items())}

    def _scope_missing(self, message: dict[str, Any], access: Access) -> Answer | None:
        if message["method"] != "tools/call":
            return None
        wanted = self._issuer.options.tool_scopes.get(message["params"]["name"])
        if wanted is None or wanted in access.scope.split():
            return None
        return Answer(403, {"error": "insufficient_scope"}, self._challenge(scope=wanted))

    def _error(self, message: dict[str, Any], code: int, text: str, *, status: int = 200) -> Answer:
        return Answer(
            status, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}
        )

    def _result(
        self, message: dict[str, Any], params: dict[str, Any], access: Access, *, modern: bool
    ) -> Answer:
        headers = {}
        match message["method"]:
            case "initialize" if not modern:
                session = uuid.uuid4().hex
                self._sessions.add(session)
                headers["mcp-session-id"] = session
                result: dict[str, Any] = {"protocolVersion": LEGACY, **ABOUT}
            case "server/discover" if modern:
                result = {"supportedVersions": [MODERN], **ABOUT}
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                result = {"content": [{"type": "text", "text": self._called(params, access)}]}
            case method:
                return self._error(message, -32601, f"Method not found: {method}")
        if modern:
            result = {**result, **CACHED}
        return Answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers)

    def _called(self, params: dict[str, Any], access: Access) -> str:
        tool = str(params["name"])
        key = str((params.get("arguments") or {}).get("key", tool))
        self.calls.append(key)
        return access.person if tool == "whoami" else key

"""The options of a scripted issuer, and of its MCP server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Options:
    """How the two servers behave while nothing is wrong."""

    discovery: Literal["header", "well-known", "origin", "none"] = "header"
    """Who says where to sign in: the 401's header; RFC 9728 metadata alone; the server's own origin has
    the authorization server's metadata, as in 2025-03-26; nobody."""
    path: str = "/mcp"
    issuer_path: str = ""
    """Such as `/tenant`: a part of the issuer's identifier."""
    openid: bool = False
    """Whether its metadata is an OpenID configuration."""
    era: Literal["both", "legacy", "modern"] = "both"
    is_open: bool = False
    """Whether the MCP server wants no token."""
    lifetime_s: float | None = 3600.0
    """Of access tokens; None: they are for ever, and it is not said."""
    refresh_tokens: bool = True
    rotates: bool = True
    consent: Literal["allow", "deny", "page"] = "allow"
    """What comes of a person's visit: a code, access_denied, or a page that goes nowhere."""
    registers: bool = True
    secret_clients: bool = False
    """Whether registered clients get a secret, where they take one."""
    takes_documents: bool = False
    """Whether the URL of a client metadata document is a client."""
    token_auth: tuple[str, ...] = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
    scopes: tuple[str, ...] = ("read", "write")
    more_scopes: tuple[str, ...] = ()
    """Such as offline_access: named by the authorization server alone."""
    default_scope: str = "read"
    """What is granted to whoever asks for nothing."""
    grants_at_most: str | None = None
    """The scopes that are granted, whatever is asked for."""
    challenge_scope: str | None = "read"
    tool_scopes: dict[str, str] = field(default_factory=lambda: {"admin": "write"})
    sends_iss: bool = True
    takes_resource: bool = True
    """Whether `resource` (RFC 8707) is taken; else a request with one is refused."""

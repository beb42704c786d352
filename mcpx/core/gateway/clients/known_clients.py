"""Clients that are known to show a model less, or more, than they are sent.

A table, as data: one row a client, each with its source. A client that is not in it is taken to show
descriptions whole and to keep `structuredContent` from the model. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from mcpx.core.config import StructuredContent
from mcpx.core.rendering.pictures import PictureLimits


class KnownClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client, by the beginning of the name that it gives itself, in lower case with dashes for spaces.

    `title` is what people call it. `description_chars` is the most characters of a tool's description that
    its model is shown, None for all; `instructions_chars` and `instructions_bytes` are the most of the
    instructions. `note` says what else its model is not shown.
    `shows_structured_content` is whether its model is given `structuredContent`, in place of `content` or
    beside it, which undoes the saving. `pictures` is what it takes of those; None: it is not known.
    """

    prefix: str
    title: str
    source: str
    description_chars: int | None = None
    instructions_chars: int | None = None
    instructions_bytes: int | None = None
    note: str | None = None
    shows_structured_content: bool = False
    pictures: PictureLimits | None = None


_MAX_PREFIX_LEN: Final = 32  # characters of a name that are looked at
KNOWN_CLIENTS: Final = (
    KnownClient(
        prefix="claude-code",
        title="Claude Code",
        description_chars=2048,
        instructions_chars=2048,
        note="With its tool search on, its model sees a tool's name alone until it is loaded; inspect and"
        " exec ask to be loaded at once.",
        shows_structured_content=True,
        pictures=PictureLimits(),
        source="code.claude.com/docs/en/mcp; anthropics/claude-code #41593, #87650; #55677, #79944;"
        " pictures: #21230, #50530; docs.claude.com, Vision",
    ),
    KnownClient(
        prefix="claude-ai",
        title="Claude Desktop",
        note="It refuses a result of more than 1 MB.",
        pictures=PictureLimits(of_result=1_000_000),
        source="mobile-next/mobile-mcp #140; trycua/cua #884",
    ),
    KnownClient(
        prefix="cursor",
        title="Cursor",
        shows_structured_content=True,
        source="modelcontextprotocol/modelcontextprotocol #1411",
    ),
    KnownClient(
        prefix="github-copilot",
        title="GitHub Copilot",
        description_chars=1024,  # some endpoints refuse longer ones
        shows_structured_content=True,
        source="higebu/3gpp-mcp #238; github/copilot-cli #3258, #4515",
    ),
    KnownClient(
        prefix="copilot",
        title="Copilot",
        description_chars=1024,
        shows_structured_content=True,
        source="as github-copilot",
    ),
    KnownClient(
        prefix="codex",
        title="Codex",
        instructions_bytes=1000,
        shows_structured_content=True,
        source="openai/codex core/src/tools/handlers/mcp.rs, protocol/src/models.rs; #38287",
    ),
    KnownClient(
        prefix="opencode",
        title="opencode",
        shows_structured_content=True,
        source="anomalyco/opencode #32074",
    ),
    KnownClient(
        prefix="visual-studio-code",
        title="VS Code",
        note="It cuts the descriptions of parameters at 1,024 characters for GPT-4.",
        source="microsoft/vscode-copilot-chat src/extension/tools/common/toolSchemaNormalizer.ts",
    ),
)


def known_client(name: str | None) -> KnownClient | None:
    """The row of a client of that name; None for one that is not known, or has no name."""
    return _row(name[:_MAX_PREFIX_LEN]) if name else None


@lru_cache(maxsize=64)  # since 2026-07-28 the name comes with each request
def _row(name: str) -> KnownClient | None:
    normal = name.lower().replace(" ", "-")
    return next((client for client in KNOWN_CLIENTS if normal.startswith(client.prefix)), None)


def shows_structured_content(name: str | None) -> bool:
    """Return True if a client of that name gives `structuredContent` to its model."""
    client = known_client(name)
    return client is not None and client.shows_structured_content


def gets_structured_content_whole(policy: StructuredContent, name: str | None) -> bool:
    """Return True if a client of that name is given all `structuredContent`, however long."""
    return wants_structured_content(policy, name) and not shows_structured_content(name)


def wants_structured_content(policy: StructuredContent, name: str | None) -> bool:
    """Return True if a client of that name (None: unknown) is given `structuredContent`."""
    if policy != "auto":
        return policy == "always"
    return not shows_structured_content(name)

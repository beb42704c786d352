"""Clients that are known to need something else than most: a table, as data, with their sources.

A client that is not in it is taken to show descriptions whole, to keep `structuredContent` from the model, to
pay no heed to annotations, and to take an object of any members. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

import msgspec

from mcpx.core.config import ArgumentsForm, Config, StructuredContent, Tiers
from mcpx.core.rendering.mending import ALL_MENDS, Mend
from mcpx.core.rendering.pictures import PictureLimits


class KnownClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client, by the beginning of the name that it gives itself, in lower case with dashes for spaces.

    With `is_whole_name`, by that name alone. `title` is what people call it. `description_chars` is the most
    characters of a tool's description that its model is shown, None for all; `instructions_chars` and
    `instructions_bytes` are the most of the instructions. `note` says what else its model is not shown.
    `shows_structured_content` is whether its model is given `structuredContent`, in place of `content` or
    beside it, which undoes the saving. `pictures` is what it takes of those; None: it is not known.
    `acts_on_annotations` is whether what it runs in parallel, unasked, or while planning depends on
    `readOnlyHint`, so that it is given the query tool. `arguments` is the form of exec's `arguments` that it
    passes on to its model unharmed. `mends` are what schemas of native tools must not have for it, or for the
    models that it works with (`mcpx.core.rendering.mending`).
    """

    prefix: str
    is_whole_name: bool = False
    title: str
    source: str
    description_chars: int | None = None
    instructions_chars: int | None = None
    instructions_bytes: int | None = None
    note: str | None = None
    shows_structured_content: bool = False
    pictures: PictureLimits | None = None
    acts_on_annotations: bool = False
    arguments: ArgumentsForm = "object"
    mends: tuple[Mend, ...] = ()


OF_COPILOT: Final[tuple[Mend, ...]] = ("top", "items", "texts")
TOP: Final[tuple[Mend, ...]] = ("top",)
WITH_ITEMS: Final[tuple[Mend, ...]] = ("top", "items")
OF_GEMINI: Final[tuple[Mend, ...]] = ("top", "items", "refs", "choices", "formats")
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
        acts_on_annotations=True,
        mends=TOP,
        source="code.claude.com/docs/en/mcp; anthropics/claude-code #41593, #87650; #55677, #79944;"
        " pictures: #21230, #50530; docs.claude.com, Vision; annotations: #14353, #12368, #90058"
        "; schemas: anthropics/claude-code #657, #95504",
    ),
    KnownClient(
        prefix="claude-ai",
        title="Claude Desktop",
        note="It refuses a result of more than 1 MB.",
        pictures=PictureLimits(of_result=1_000_000),
        acts_on_annotations=True,
        mends=TOP,
        source="mobile-next/mobile-mcp #140; trycua/cua #884; annotations: Donatoni/accela-mcp v0.4.3"
        "; schemas: as Claude Code",
    ),
    KnownClient(
        prefix="cursor",
        title="Cursor",
        shows_structured_content=True,
        acts_on_annotations=True,
        mends=WITH_ITEMS,
        source="modelcontextprotocol/modelcontextprotocol #1411; annotations: colbymchenry/codegraph #1018"
        "; schemas: as Claude Code and GitHub Copilot, whose models it has",
    ),
    KnownClient(
        prefix="github-copilot",
        title="GitHub Copilot",
        description_chars=1024,  # some endpoints refuse longer ones
        shows_structured_content=True,
        mends=OF_COPILOT,
        source="higebu/3gpp-mcp #238; github/copilot-cli #3258, #4515"
        "; schemas: vespo92/SolidworksMCP-TS #30, DeusData/codebase-memory-mcp #1524",
    ),
    KnownClient(
        prefix="copilot",
        title="Copilot",
        description_chars=1024,
        shows_structured_content=True,
        mends=OF_COPILOT,
        source="as github-copilot; schemas: likewise",
    ),
    KnownClient(
        prefix="codex",
        title="Codex",
        instructions_bytes=1000,
        shows_structured_content=True,
        acts_on_annotations=True,
        mends=WITH_ITEMS,
        source="openai/codex core/src/tools/handlers/mcp.rs, protocol/src/models.rs; #38287; annotations:"
        " core/src/mcp_tool_call.rs, #23750"
        "; schemas: dcc-mcp/dcc-mcp-blender #64",
    ),
    KnownClient(
        prefix="opencode",
        title="opencode",
        shows_structured_content=True,
        mends=OF_GEMINI,
        source="anomalyco/opencode #32074; schemas: anomalyco/opencode #250, #12295",
    ),
    KnownClient(
        prefix="visual-studio-code",
        title="VS Code",
        note="It cuts the descriptions of parameters at 1,024 characters for GPT-4.",
        acts_on_annotations=True,
        mends=WITH_ITEMS,
        source="microsoft/vscode-copilot-chat src/extension/tools/common/toolSchemaNormalizer.ts;"
        " microsoft/vscode workbench/contrib/mcp/common/mcpLanguageModelToolContribution.ts, #266399"
        "; schemas: microsoft/vscode #246119, #257537",
    ),
    KnownClient(
        prefix="gemini-cli",
        title="Gemini CLI",
        acts_on_annotations=True,
        mends=OF_GEMINI,
        source="google-gemini/gemini-cli packages/core/src/policy/policies/plan.toml, #18229"
        "; schemas: google-gemini/gemini-cli #13326, #2237, #6948",
    ),
    KnownClient(
        prefix="qwen",
        title="Qwen Code",
        acts_on_annotations=True,
        mends=WITH_ITEMS,
        source="QwenLM/qwen-code #1837, #740; schemas: as those that take OpenAI's functions",
    ),
    KnownClient(
        prefix="goose",
        title="Goose",
        acts_on_annotations=True,
        mends=TOP,
        source="aaif-goose/goose #1957, #7690; schemas: as Claude Code",
    ),
    KnownClient(
        prefix="mcp",
        is_whole_name=True,
        title="Python SDK: google-genai, openai-agents, LangChain, mistralai",
        note="The schemas of tools may be made strict, or Gemini's, where an object without named members is"
        " refused or closed.",
        arguments="string",
        source="google-genai _mcp_utils.py; openai-agents strict_schema.py; langchain-core"
        " utils/function_calling.py; mistralai extra/mcp/base.py; home-assistant/core #122403",
    ),
)


def known_client(name: str | None) -> KnownClient | None:
    """The row of a client of that name; None for one that is not known, or has no name."""
    return _row(name[:_MAX_PREFIX_LEN]) if name else None


@lru_cache(maxsize=64)  # since 2026-07-28 the name comes with each request
def _row(name: str) -> KnownClient | None:
    normal = name.lower().replace(" ", "-")
    return next((client for client in KNOWN_CLIENTS if _is_of(normal, client)), None)


def _is_of(name: str, client: KnownClient) -> bool:
    return name == client.prefix if client.is_whole_name else name.startswith(client.prefix)


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


def wants_query(tiers: Tiers, client: KnownClient | None) -> bool:
    """Return True if a client (None: unknown) is given the query tool."""
    if tiers == "auto":
        return client is not None and client.acts_on_annotations
    return tiers in {True, "on"}


def chars_of(name: str | None) -> int | None:
    """The most characters of a tool's description that a client of that name shows its model; None: all."""
    client = known_client(name)
    return None if client is None else client.description_chars


def mends_for(config: Config, name: str | None) -> frozenset[Mend]:
    """The mends with which a client of that name is shown native tools."""
    client = known_client(name)
    if config.sanitize == "on":
        return ALL_MENDS if writes_strictly(config, name) else ALL_MENDS - {"strict"}
    return frozenset(() if client is None or config.sanitize == "off" else client.mends)


def writes_strictly(config: Config, name: str | None) -> bool:
    """Return True if a client of that name is shown native tools in the strict form.

    It is one whose schemas are made strict: by itself none, because programs have its name as well.
    """
    return (
        config.sanitize == "on" and form_of_arguments(config.exec_arguments, known_client(name)) == "string"
    )


def form_of_arguments(wanted: Literal["auto", ArgumentsForm], client: KnownClient | None) -> ArgumentsForm:
    """The form of exec's `arguments` that a client (None: unknown) is shown."""
    if wanted != "auto":
        return wanted
    return "object" if client is None else client.arguments

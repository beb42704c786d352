"""The table of clients: where each keeps its servers on each system, under which key, in which form.

Data alone, one row a client. `find` says where a client's file is for one user and system; both are given, so
that every row can be tested everywhere. Read by `mcpx import`, `install`, `uninstall` and `doctor`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mcpx.setup.documents.editing import Syntax

System = Literal["linux", "macos", "windows"]
Form = Literal[
    "plain",
    "typed",
    "copilot",
    "zed",
    "opencode",
    "goose",
    "continue",
    "codex",
]
"""How an entry is written: see `mcpx.setup.clients.forms`."""


class ClientCommand(msgspec.Struct, frozen=True):
    """A client's own command to add a server.

    In `add`, `{name}` and `{command}` are replaced by one word, `{json}` by the entry with its name as JSON,
    `{args}` and `{env}` by any number of words; each variable is `--env` and `NAME=VALUE`.
    """

    program: str
    add: tuple[str, ...]


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """One client.

    `files` are templates, the preferred one first: `{home}`, `{config}` (XDG_CONFIG_HOME, ~/.config),
    `{support}` (~/Library/Application Support), `{roaming}` and `{local}` (APPDATA, LOCALAPPDATA). One that
    starts with `$NAME` counts only where that variable is set, and is then the only one. A `*` stands for
    part of a name. `key` is the path of the servers in the file.
    """

    name: str
    title: str
    files: dict[System, tuple[str, ...]]
    key: tuple[str, ...] = ("mcpServers",)
    form: Form = "plain"
    syntax: Syntax = "json"
    command: ClientCommand | None = None
    timeout_unit_s: float = 0.001
    """Seconds that 1 means in the `timeout` of an entry; most clients count milliseconds."""
    variables: tuple[Literal["${NAME}", "${env:NAME}", "$NAME"], ...] = ("${NAME}", "${env:NAME}")
    """The spellings that the client replaces in an entry by an environment variable; others are text to it.
    Both in braces where its makers do not say."""
    folder: str | None = None
    """A folder that is there where the client is installed; without one, that of the file."""


def _everywhere(*templates: str) -> dict[System, tuple[str, ...]]:
    return {"linux": templates, "macos": templates, "windows": templates}


def _each(linux: str, macos: str, windows: str) -> dict[System, tuple[str, ...]]:
    return {"linux": (linux,), "macos": (macos,), "windows": (windows,)}


def _in_user_folder(inside: str, *editors: str) -> dict[System, tuple[str, ...]]:
    """A file in the user folder of an editor of VS Code's family."""
    return {
        "linux": tuple(f"{{config}}/{editor}/User/{inside}" for editor in editors),
        "macos": tuple(f"{{support}}/{editor}/User/{inside}" for editor in editors),
        "windows": tuple(f"{{roaming}}/{editor}/User/{inside}" for editor in editors),
    }


def _user_folder_and_server(editor: str, server: str) -> dict[System, tuple[str, ...]]:
    """VS Code's own file; on Linux also that of its server side, for those who come over SSH."""
    places = _in_user_folder("mcp.json", editor)
    return {**places, "linux": (*places["linux"], f"{{home}}/{server}/data/User/mcp.json")}


def _of_extension(extension: str, file: str, *more: str) -> dict[System, tuple[str, ...]]:
    """A file of an extension, which may live in several editors; `more` are places without one."""
    inside = f"globalStorage/{extension}/settings/{file}"
    places = _in_user_folder(inside, "Code", "Code - Insiders", "Cursor", "Windsurf", "VSCodium")
    return {system: (*templates, *more) for system, templates in places.items()}


_EDITOR: Final = ("${env:NAME}",)
_SHELL: Final = ("${NAME}", "$NAME")

_ADD_MCP: Final = ("--add-mcp", "{json}")

CLIENTS: Final[tuple[Client, ...]] = (
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        variables=(),
        files={
            "linux": (
                "{config}/Claude/claude_desktop_config.json",
                "{config}/claude/claude_desktop_config.json",
            ),
            "macos": ("{support}/Claude/claude_desktop_config.json",),
            "windows": (
                "{roaming}/Claude/claude_desktop_config.json",
                "{local}/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
            ),
        },
    ),
    Client(
        name="claude-code",
        title="Claude Code",
        variables=("${NAME}",),
        files=_everywhere("$CLAUDE_CONFIG_DIR/.claude.json", "{home}/.claude.json"),
        form="typed",
        command=ClientCommand(
            "claude",
            ("mcp", "add", "--scope", "user", "{name}", "{env}", "--", "{command}", "{args}"),
        ),
        folder="{home}/.claude",
    ),
    Client(name="cursor", title="Cursor", variables=_EDITOR, files=_everywhere("{home}/.cursor/mcp.json")),
    Client(
        name="vscode",
        title="VS Code",
        variables=_EDITOR,
        files=_user_folder_and_server("Code", ".vscode-server"),
        key=("servers",),
        form="typed",
        command=ClientCommand("code", _ADD_MCP),
    ),
    Client(
        name="vscode-insiders",
        title="VS Code Insiders",
        variables=_EDITOR,
        files=_user_folder_and_server("Code - Insiders", ".vscode-server-insiders"),
        key=("servers",),
        form="typed",
        command=ClientCommand("code-insiders", _ADD_MCP),
    ),
    Client(
        name="vscodium",
        title="VSCodium",
        variables=_EDITOR,
        files=_in_user_folder("mcp.json", "VSCodium"),
        key=("servers",),
        form="typed",
        command=ClientCommand("codium", _ADD_MCP),
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        variables=_EDITOR,
        files=_everywhere("{home}/.codeium/windsurf/mcp_config.json", "{home}/.codeium/mcp_config.json"),
    ),
    Client(
        name="codex",
        title="Codex",
        variables=(),
        files=_everywhere("$CODEX_HOME/config.toml", "{home}/.codex/config.toml"),
        key=("mcp_servers",),
        form="codex",
        syntax="toml",
        command=ClientCommand(
            "codex",
            ("mcp", "add", "{name}", "{env}", "--", "{command}", "{args}"),
        ),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        variables=_SHELL,
        files=_everywhere("{home}/.gemini/settings.json"),
        command=ClientCommand(
            "gemini",
            ("mcp", "add", "--scope", "user", "{env}", "{name}", "{command}", "--", "{args}"),
        ),
    ),
    Client(
        name="antigravity",
        title="Antigravity",
        files=_everywhere("{home}/.gemini/antigravity/mcp_config.json"),
    ),
    Client(
        name="copilot",
        title="Copilot CLI",
        variables=_SHELL,
        files=_everywhere("$COPILOT_HOME/mcp-config.json", "{home}/.copilot/mcp-config.json"),
        form="copilot",
    ),
    Client(
        name="cline",
        title="Cline",
        timeout_unit_s=1,
        files=_of_extension(
            "saoudrizwan.claude-dev",
            "cline_mcp_settings.json",
            "{home}/.cline/data/settings/cline_mcp_settings.json",
        ),
    ),
    Client(
        name="roo",
        title="Roo Code",
        variables=_EDITOR,
        timeout_unit_s=1,
        files=_of_extension("rooveterinaryinc.roo-cline", "mcp_settings.json"),
    ),
    Client(
        name="kilo",
        title="Kilo Code",
        variables=_EDITOR,
        timeout_unit_s=1,
        files=_of_extension("kilocode.kilo-code", "mcp_settings.json"),
    ),
    Client(
        name="zed",
        title="Zed",
        variables=(),
        timeout_unit_s=1,
        files=_each(
            "{config}/zed/settings.json", "{home}/.config/zed/settings.json", "{roaming}/Zed/settings.json"
        ),
        key=("context_servers",),
        form="zed",
    ),
    Client(
        name="opencode",
        title="OpenCode",
        variables=(),
        files={
            "linux": ("{config}/opencode/opencode.jsonc", "{config}/opencode/opencode.json"),
            "macos": ("{config}/opencode/opencode.jsonc", "{config}/opencode/opencode.json"),
            "windows": (
                "{config}/opencode/opencode.jsonc",
                "{config}/opencode/opencode.json",
                "{local}/opencode/opencode.jsonc",
                "{local}/opencode/opencode.json",
            ),
        },
        key=("mcp",),
        form="opencode",
    ),
    Client(
        name="goose",
        title="Goose",
        variables=("${NAME}",),
        timeout_unit_s=1,
        files=_each(
            "{config}/goose/config.yaml",
            "{config}/goose/config.yaml",
            "{roaming}/Block/goose/config/config.yaml",
        ),
        key=("extensions",),
        form="goose",
        syntax="yaml",
    ),
    Client(
        name="lmstudio",
        title="LM Studio",
        files=_everywhere("{home}/.lmstudio/mcp.json", "{home}/.cache/lm-studio/mcp.json"),
    ),
    Client(
        name="continue",
        title="Continue",
        variables=(),
        files=_everywhere("{home}/.continue/config.yaml"),
        form="continue",
        syntax="yaml",
    ),
    Client(
        name="kiro",
        title="Kiro",
        files=_everywhere("{home}/.kiro/settings/mcp.json"),
        folder="{home}/.kiro",
    ),
    Client(
        name="crush",
        title="Crush",
        variables=_SHELL,
        timeout_unit_s=1,
        files=_each("{config}/crush/crush.json", "{config}/crush/crush.json", "{local}/crush/crush.json"),
        key=("mcp",),
        form="typed",
    ),
    Client(
        name="amp",
        title="Amp",
        files=_each(
            "{config}/amp/settings.json", "{home}/.config/amp/settings.json", "{roaming}/amp/settings.json"
        ),
        key=("amp.mcpServers",),
    ),
    Client(name="trae", title="Trae", files=_in_user_folder("mcp.json", "Trae")),
    Client(name="kimi", title="Kimi CLI", files=_everywhere("{home}/.kimi/mcp.json")),
    Client(
        name="factory",
        title="Factory",
        files=_everywhere("{home}/.factory/mcp.json"),
        form="typed",
    ),
    Client(name="qwen", title="Qwen Code", files=_everywhere("{home}/.qwen/settings.json"), variables=_SHELL),
)
"""Every client that MCPX knows, in the order in which they are shown."""

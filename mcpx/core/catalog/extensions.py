"""Apps and Skills: extensions of the protocol whose marks stand in the lists of servers. Pure.

A tool of an app names in its `_meta` the page that a host shows with its results, a `ui://` resource that no
list need have, and says who may call it: the model, the app, or both. Neither era of the protocol has a way
to say that a call comes from an app; a client that declares the extension keeps the two apart itself.

The entry of a skill has the frontmatter of its `SKILL.md` as it is, and a manifest: each file of the skill
with size and digest. All of these are resources, whether they are listed as such or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

JSON = dict[str, Any]
UI: Final = "io.modelcontextprotocol/ui"
"""The extension of MCP Apps (SEP-1865)."""
SKILLS: Final = "io.modelcontextprotocol/skills"
"""The extension of Agent Skills (SEP-2640)."""
DIRECTORIES: Final = "directoryRead"
"""The setting of a server that lists the folders of its skills."""
CARRIED: Final[dict[str, JSON]] = {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}, SKILLS: {}}
"""The extensions that work across eras, and as which client MCPX declares them to servers."""


def settings_of(capabilities: JSON, extension: str) -> JSON | None:
    """Return the settings with which a server declares an extension; None where it does not."""
    declared = capabilities.get("extensions")
    found = declared.get(extension) if isinstance(declared, dict) else None
    return found if isinstance(found, dict) else None


def united(extension: str, one: JSON, other: JSON) -> JSON:
    """Unite the settings of two servers: those that are the same, and of skills what one of them can do."""
    if one == other:
        return one
    reads = extension == SKILLS and (one.get(DIRECTORIES) is True or other.get(DIRECTORIES) is True)
    return {DIRECTORIES: True} if reads else {}


def carried(extensions: Mapping[str, Any]) -> dict[str, JSON]:
    """The declared extensions that work across eras; settings that are no object count as none."""
    return {
        name: each if isinstance(each, dict) else {} for name, each in extensions.items() if name in CARRIED
    }


UI_SCHEME: Final = "ui://"
MODEL: Final = "model"
APP: Final = "app"
_FLAT: Final = ("ui/resourceUri", "openai/outputTemplate")
"""Earlier members of `_meta` for the page, and that of the Apps SDK."""


def audience(meta: JSON | None) -> frozenset[str]:
    """Return who may call a tool, by its `_meta`: `model`, `app`, or both, as where nothing is said."""
    ui = (meta or {}).get("ui")
    said = ui.get("visibility") if isinstance(ui, dict) else None
    if isinstance(said, str):
        return frozenset({said})
    if not isinstance(said, list):
        return frozenset({MODEL, APP})
    return frozenset(each for each in said if isinstance(each, str))


def pages_of(meta: JSON | None) -> list[str]:
    """Return the `ui://` resources that the `_meta` of a tool names."""
    found: list[str] = []

    def note(uri: str) -> str:
        found.append(uri)
        return uri

    with_pages(meta, note)
    return found


def with_pages(meta: JSON | None, change: Callable[[str], str | None]) -> JSON | None:
    """The `_meta` of a tool with other URIs for its pages; without those for which there is None.

    What holds nothing else goes with them.
    """
    if not meta:
        return meta
    changed, ui = _with(meta, _FLAT, change), meta.get("ui")
    if isinstance(ui, dict) and (shown := _with(ui, ("resourceUri",), change)) is not ui:
        changed = {name: shown if name == "ui" else each for name, each in changed.items()}
        if not shown:
            del changed["ui"]
    return changed or None


def _with(given: JSON, names: tuple[str, ...], change: Callable[[str], str | None]) -> JSON:
    """An object with other URIs at those names; the members that are no URI of a page stay."""
    uris = {name: given[name] for name in names if _is_page(given.get(name))}
    if not uris:
        return given
    new = {name: change(uri) for name, uri in uris.items()}
    return {
        name: new.get(name, each) for name, each in given.items() if name not in new or new[name] is not None
    }


def with_files(skill: JSON, change: Callable[[str], str | None]) -> JSON:
    """The entry of a skill with other URIs for its files; without the files for which there is None.

    What stands beside the URI of a file, its digest above all, stays as it is.
    """
    files = skill.get("resources")
    if not isinstance(files, list):
        return skill
    changed = [
        {**file, "uri": uri} if is_file else file
        for file in files
        if not (is_file := _is_file(file)) or (uri := change(file["uri"])) is not None
    ]
    return skill if changed == files else {**skill, "resources": changed}


def files_of(skill: JSON) -> list[str]:
    """Return the URIs of the files of a skill, where its entry lists them."""
    files = skill.get("resources")
    return [file["uri"] for file in files if _is_file(file)] if isinstance(files, list) else []


def _is_file(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("uri"), str)


def _is_page(value: object) -> bool:
    return isinstance(value, str) and value.startswith(UI_SCHEME)

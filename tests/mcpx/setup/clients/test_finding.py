"""The table of clients, and where each client's file is for a user of each system."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from mcpx.errors import ConfigError
from mcpx.setup.clients import CLIENTS, System, candidates, client_named, find, find_all

SYSTEMS = get_args(System)


def touch(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_client_has_a_path_on_every_system(client, tmp_path: Path) -> None:
    for system in SYSTEMS:
        path = find(client, {"HOME": str(tmp_path)}, system).path
        assert path.is_relative_to(tmp_path)
        assert path.suffix == {"json": ".json", "toml": ".toml", "yaml": ".yaml"}[client.syntax] or (
            path.suffix == ".jsonc"
        )


def test_names_are_unique_and_one_that_is_not_known_is_answered_with_the_nearest() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
    assert client_named("VSCode").title == "VS Code"
    with pytest.raises(ConfigError, match="did you mean cursor"):
        client_named("cusror")


PLACES = {
    ("claude-desktop", "linux"): ".config/Claude/claude_desktop_config.json",
    ("claude-desktop", "macos"): "Library/Application Support/Claude/claude_desktop_config.json",
    ("claude-desktop", "windows"): "AppData/Roaming/Claude/claude_desktop_config.json",
    ("claude-code", "linux"): ".claude.json",
    ("vscode", "linux"): ".config/Code/User/mcp.json",
    ("vscode", "macos"): "Library/Application Support/Code/User/mcp.json",
    ("vscode-insiders", "windows"): "AppData/Roaming/Code - Insiders/User/mcp.json",
    ("codex", "macos"): ".codex/config.toml",
    ("goose", "windows"): "AppData/Roaming/Block/goose/config/config.yaml",
    ("zed", "macos"): ".config/zed/settings.json",
    ("crush", "windows"): "AppData/Local/crush/crush.json",
}


@pytest.mark.parametrize(("name", "system"), PLACES)
def test_places_of_a_system(name: str, system: System, tmp_path: Path) -> None:
    found = find(client_named(name), {"HOME": str(tmp_path)}, system)
    assert found.path == tmp_path / PLACES[name, system]
    assert not found.exists


def test_the_first_candidate_that_exists_is_taken(tmp_path: Path) -> None:
    older = touch(tmp_path / ".cache/lm-studio/mcp.json")
    assert find(client_named("lmstudio"), {"HOME": str(tmp_path)}).path == older
    newer = touch(tmp_path / ".lmstudio/mcp.json")
    assert find(client_named("lmstudio"), {"HOME": str(tmp_path)}).path == newer
    assert [each.path for each in find_all(client_named("lmstudio"), {"HOME": str(tmp_path)})] == [
        newer,
        older,
    ]


def test_a_variable_of_the_client_moves_its_file(tmp_path: Path) -> None:
    touch(tmp_path / ".codex/config.toml")
    environ = {"HOME": str(tmp_path), "CODEX_HOME": "~/elsewhere"}
    found = find(client_named("codex"), environ, "linux")
    assert found.path == tmp_path / "elsewhere/config.toml"
    assert not found.exists


def test_xdg_config_home_counts_where_it_is_absolute(tmp_path: Path) -> None:
    goose = client_named("goose")
    assert find(goose, {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "linux").path == Path("/x/goose/config.yaml")
    assert find(goose, {"HOME": "/h", "XDG_CONFIG_HOME": "x"}, "linux").path == Path(
        "/h/.config/goose/config.yaml"
    )


def test_a_package_of_the_windows_store_is_found_by_its_pattern(tmp_path: Path) -> None:
    inside = "Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"
    file = touch(tmp_path / inside)
    environ = {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    assert find(client_named("claude-desktop"), environ, "windows").path == file


def test_a_client_without_its_file_is_known_by_its_folder(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert not find(client_named("claude-code"), environ).installed
    (tmp_path / ".claude").mkdir()
    assert find(client_named("claude-code"), environ).installed
    assert not find(client_named("cursor"), environ).installed
    (tmp_path / ".cursor").mkdir()
    assert find(client_named("cursor"), environ).installed


def test_a_folder_in_the_place_of_the_file_is_no_file(tmp_path: Path) -> None:
    (tmp_path / ".cursor/mcp.json").mkdir(parents=True)
    assert not find(client_named("cursor"), {"HOME": str(tmp_path)}).exists


def test_every_candidate_of_a_client_is_given(tmp_path: Path) -> None:
    paths = list(candidates(client_named("opencode"), {"HOME": "/h"}, "linux"))
    assert [path.name for path in paths] == ["opencode.jsonc", "opencode.json"]

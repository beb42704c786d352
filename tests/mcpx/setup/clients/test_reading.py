"""Clients' files as people have them: where they are on each system, and what is read from each."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given as given_values
from hypothesis import strategies as st

from mcpx.core.config import read_config
from mcpx.errors import ConfigError
from mcpx.setup.clients import (
    CLIENTS,
    ClientServers,
    LeftOut,
    System,
    candidates,
    client_named,
    find,
    find_all,
    read_client_file,
)
from tests.mcpx.setup.clients.homes import given, placed, read_at

GIT = {"command": "uvx", "args": ["mcp-server-git"]}
PLAIN = json.dumps({"mcpServers": {"git": GIT}}, indent=2)


def entries(found: ClientServers) -> dict[str, object]:
    assert found.problem is None, found.problem
    return {server.name: server.entry for server in found.servers}


FILES = {
    "as it is": PLAIN,
    "with a mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16, big end first": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "trailing commas": PLAIN.replace("]", "],").replace("}", "},", 1),
    "comments": f"// mine\n{PLAIN.replace('{', '{ /* a */', 1)} // end",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_file_is_read_as_people_have_it(content: str | bytes) -> None:
    assert entries(given("cursor", content)) == {"git": GIT}


@pytest.mark.parametrize(
    "content", ["", " \n", "{}", '{"mcpServers": {}}', '{"mcpServers": null}', '{"other": 1}']
)
def test_a_file_without_servers_is_no_problem(content: str) -> None:
    found = given("cursor", content)
    assert (found.problem, found.servers, found.left_out) == (None, (), ())


BROKEN = {
    '{\n "mcpServers": {"a" 1}}': "line 2, column 20: a colon is missing",
    '{"mcpServers": []}': "mcpServers: expected an object, got an array",
    '{"mcpServers": "text"}': "mcpServers: expected an object, got a string",
    "[1]": "expected an object, got an array",
    b"\xff{}": "line 1, column 1: ",
    "[mcp_servers.a]\n": "line 1, column ",
}


@pytest.mark.parametrize(("content", "problem"), BROKEN.items())
def test_a_broken_file_is_a_problem_with_its_place(content: str | bytes, problem: str) -> None:
    found = given("cursor", content)
    assert found.problem is not None
    assert problem in found.problem
    assert found.servers == ()


def test_broken_toml_and_yaml_are_problems_with_their_places() -> None:
    assert (given("codex", '[mcp_servers.a\ncommand = "x"').problem or "").startswith("line 1, column ")
    assert (given("goose", "extensions:\n  a: [1\n").problem or "").startswith("line ")
    assert given("continue", "mcpServers: {}").problem == "mcpServers: expected a list, got an object"


def test_one_entry_that_is_no_server_leaves_the_others() -> None:
    found = given("cursor", '{"mcpServers": {"bad": 1, "git": {"command": "uvx"}, "": {"command": "x"}}}')
    assert list(entries(found)) == ["git"]
    assert found.left_out == (
        LeftOut("bad", "it is not an object"),
        LeftOut("", "its name cannot be that of a server"),
    )


def test_mcpx_itself_is_no_server_of_the_client() -> None:
    own = {"command": "/opt/bin/mcpx", "args": ["attach"]}
    found = given("cursor", json.dumps({"mcpServers": {"mcpx": own, "git": GIT}}))
    assert entries(found) == {"git": GIT}
    assert found.own == ("mcpx",)


def test_a_name_that_is_given_twice_is_said() -> None:
    found = given("cursor", '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    assert entries(found) == {"a": {"command": "y"}}
    assert found.notes == ("the name a is given twice; the client takes the last",)


def test_servers_for_single_folders_have_these_as_their_projects(tmp_path: Path) -> None:
    shop, other = tmp_path / "shop", tmp_path / "else" / "shop"
    other.mkdir(parents=True)
    shop.mkdir()
    db = {"command": "./db", "args": ["./schema"]}
    document = {
        "mcpServers": {"git": GIT},
        "projects": {
            str(shop): {"mcpServers": {"db": db, "mcpx": {"command": "mcpx", "args": ["attach"]}}},
            str(other): {"mcpServers": {"db": db | {"cwd": "sub"}}},
            str(tmp_path): {"mcpServers": {}},
            "/w/gone": {"mcpServers": {"lost": GIT}},
            "/w/three": 3,
        },
    }
    found = given("claude-code", json.dumps(document))
    label = next(name for name in entries(found) if name.startswith("shop-"))
    assert entries(found) == {
        "git": GIT,
        "shop/db": db | {"project": str(shop)},
        label: db | {"cwd": "sub", "disabled": True, "project": str(other)},
    }
    assert [(each.name, each.reason) for each in found.left_out] == [
        ("gone/lost", "its folder is not there: /w/gone")
    ]
    assert found.folders == (str(shop), str(other), str(tmp_path))


@pytest.mark.parametrize("version", ["first", "second"])
def test_both_forms_of_opencode_are_read(version: str) -> None:
    servers = {"git": {"type": "local", "command": ["uvx", "mcp-server-git"]}, "servers": {"type": "remote"}}
    if version == "second":
        del servers["servers"]
    document = {"mcp": servers if version == "first" else {"servers": servers}}
    found = given("opencode", json.dumps(document))
    assert entries(found) == {"git": GIT}
    assert [each.name for each in found.left_out] == (["servers"] if version == "first" else [])


CODEX = """\
model = "gpt"

[mcp_servers.git]  # mine
command = "uvx"
args = ["mcp-server-git"]

[mcp_servers."with space".env]
K = "v"

[mcp_servers.docs]
url = "https://h/mcp"
bearer_token_env_var = "DOCS_TOKEN"
"""
GOOSE = """\
GOOSE_MODEL: x
extensions:
  git:   # mine
    cmd: uvx
    args:
    - mcp-server-git
    enabled: true
    name: git
    type: stdio
  developer: {type: builtin, name: developer, bundled: true, enabled: true}
"""
CONTINUE = """\
name: Config
mcpServers:
  - name: git
    command: uvx
    args: [mcp-server-git]
    env:
      PORT: 8080
      DEBUG: on
  - uses: someone/block
"""


def test_toml_and_yaml_are_read() -> None:
    codex = given("codex", CODEX)
    assert entries(codex) == {
        "git": GIT,
        "docs": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}},
    }
    assert codex.left_out == (LeftOut("with space", "it has neither a command nor a URL"),)
    goose = given("goose", GOOSE)
    assert entries(goose) == {"git": GIT}
    assert [each.name for each in goose.left_out] == ["developer"]
    found = given("continue", CONTINUE)
    assert entries(found) == {"git": {**GIT, "env": {"PORT": "8080", "DEBUG": "on"}}}
    assert found.left_out == (LeftOut("[1]", "a block of the Continue hub"),)


def test_amp_has_its_servers_under_a_key_with_a_dot() -> None:
    assert entries(given("amp", json.dumps({"amp.mcpServers": {"git": GIT}}))) == {"git": GIT}


def test_servers_that_gemini_excludes_are_turned_off() -> None:
    servers = {"git": GIT, "off": GIT, "other": GIT}
    lists = {"allowed": ["git", "off"], "excluded": ["off"]}
    found = given("gemini", json.dumps({"mcpServers": servers, "mcp": lists}))
    assert [server.name for server in found.servers if "disabled" not in server.entry] == ["git"]


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.sampled_from(["a", "\ud800", ""]),
    ),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(["mcpServers", "mcp", "servers", "a", "command", "projects", "inputs"]), inside
        )
    ),
    max_leaves=12,
)


@given_values(JSON, st.sampled_from(["cursor", "claude-code", "vscode", "opencode", "gemini"]))
def test_no_document_is_a_fault(document: object, client: str) -> None:
    found = given(client, json.dumps(document))
    assert found.problem is None or found.servers == ()


def test_a_file_behind_a_link_is_read(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(PLAIN)
    path = placed(tmp_path, "cursor", "")
    path.unlink()
    path.symlink_to(real)
    assert entries(read_at(tmp_path, "cursor", PLAIN)) == {"git": GIT}
    assert path.is_symlink()


def test_a_file_in_a_folder_that_may_not_be_looked_into_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed(tmp_path, "cursor", PLAIN)

    def refuse(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr("mcpx.setup.changes.files.os.open", refuse)
    (file,) = find_all(client_named("cursor"), {"HOME": str(tmp_path)}, "linux")
    assert read_client_file(file).problem == "cannot be read: Permission denied"


def test_a_file_that_is_gone_meanwhile_is_a_problem(tmp_path: Path) -> None:
    file = find(client_named("cursor"), {"HOME": str(tmp_path)}, "linux")
    assert read_client_file(file).problem == "cannot be read: No such file or directory"


def test_a_file_of_any_size_is_refused_at_once(tmp_path: Path) -> None:
    path = placed(tmp_path, "cursor", "")
    with path.open("wb") as file:
        file.truncate(1 << 30)
    (file,) = find_all(client_named("cursor"), {"HOME": str(tmp_path)}, "linux")
    tracemalloc.start()
    assert read_client_file(file).problem == "cannot be read: larger than 64 MiB"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with pytest.raises(ConfigError, match="larger than 64 MiB"):
        read_config(path)


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

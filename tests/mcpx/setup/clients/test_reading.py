"""Clients' files as people have them: what is read from each, and what is said of those that are broken."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given as given_values
from hypothesis import strategies as st

from mcpx.core.config import read_config
from mcpx.errors import ConfigError
from mcpx.setup.clients import ClientServers, LeftOut, client_named, find, find_all, read_client_file
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


def test_servers_of_single_projects_are_named_and_not_taken() -> None:
    document = {
        "mcpServers": {"git": GIT},
        "projects": {"/w/one": {"mcpServers": {"db": GIT}}, "/w/two": {"mcpServers": {}}, "/w/three": 3},
    }
    found = given("claude-code", json.dumps(document))
    assert list(entries(found)) == ["git"]
    assert found.notes == ("not taken, as they are for one folder alone (/w/one): db",)


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

"""`mcpx install` and `uninstall` in a home with the files of many clients, as people have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpx.setup.documents.editing import read
from tests.mcpx.cli.setup.ten_clients import FILES, SERVERS, look, mcpx

ROOT = Path(__file__).parents[4]
OWN_CLIENTS = "claude-desktop claude-code cursor vscode windsurf codex gemini copilot zed goose continue kiro"


def servers(home: Path, name: str, *key: str) -> object:
    suffix = Path(name).suffix
    value = read(
        (home / name).read_bytes(), "toml" if suffix == ".toml" else "yaml" if suffix == ".yaml" else "json"
    )
    for step in key:
        value = value[step]
    return value


def test_every_file_is_as_before_when_all_is_taken_back(home: Path) -> None:
    original = look(home)
    looks = [original]
    for command in ("import", "install", "install --adopt"):
        result = mcpx(home, *command.split(), "--yes")
        assert result.exit_code in (0, 1), result.output
        looks.append(look(home))
        assert looks[-1] != looks[-2], result.output

    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert look(home) == looks[2]
    assert mcpx(home, "install", "--adopt", "--yes").exit_code == 1
    assert look(home) == looks[3]

    assert mcpx(home, "uninstall", "--yes").exit_code == 0
    after = look(home)
    assert {name: held for name, held in after.items() if not name.startswith(".config/mcpx")} == original

    for _ in range(4):
        assert mcpx(home, "undo", "--yes").exit_code == 0
    assert look(home) == original
    assert mcpx(home, "undo", "--yes").output == "nothing to take back\n"


def test_nothing_is_changed_unless_it_is_agreed_to(home: Path) -> None:
    before = look(home)
    for options, code in ((("--dry-run",), 0), ((), 1), (("--json",), 1), (("--dry-run", "--yes"), 0)):
        for command in (("install", "cursor"), ("install", "--adopt", "cursor")):
            result = mcpx(home, *command, *options)
            assert result.exit_code == code, result.output
            assert "nothing was changed" in result.stderr
            assert look(home) == before
            assert not (home / ".local").exists()


def test_comments_order_and_style_are_kept(home: Path) -> None:
    mcpx(home, "install", "--yes")
    cursor = (home / "dotfiles/cursor.json").read_text()
    assert cursor.startswith('// cursor\n{\n\t"mcpServers": {\n\t\t/* mine */\n')
    assert "// the graph" in cursor
    desktop = (home / ".config/Claude/claude_desktop_config.json").read_bytes()
    assert desktop.startswith(b"\xef\xbb\xbf{\r\n")
    assert desktop.count(b"\n") == desktop.count(b"\r\n")
    codex = (home / ".codex/config.toml").read_text()
    assert "[mcp_servers.docs] # the docs" in codex
    assert "'time', # which" in codex
    assert (home / ".codex/config.toml").stat().st_mode & 0o777 == 0o666


def test_each_client_gets_the_entry_in_its_form(home: Path) -> None:
    mcpx(home, "install", "--yes")
    command = servers(home, ".cursor/mcp.json", "mcpServers", "mcpx", "command")
    assert isinstance(command, str)
    assert os.path.isabs(command)
    assert os.access(command, os.X_OK)
    plain = {"command": command, "args": ["attach"]}
    assert servers(home, ".config/Code/User/mcp.json", "servers", "mcpx") == {"type": "stdio", **plain}
    assert servers(home, ".codex/config.toml", "mcp_servers", "mcpx") == plain
    assert servers(home, ".config/zed/settings.json", "context_servers", "mcpx") == {
        "source": "custom", **plain, "env": {},
    }  # fmt: skip
    goose = servers(home, ".config/goose/config.yaml", "extensions", "mcpx")
    assert goose["cmd"] == command  # type: ignore[index]
    assert servers(home, ".continue/config.yaml", "mcpServers", 2) == {"name": "mcpx", **plain}  # type: ignore[arg-type]
    assert servers(home, ".copilot/mcp-config.json", "mcpServers", "mcpx", "tools") == ["*"]
    assert (home / ".copilot/mcp-config.json").stat().st_mode & 0o777 == 0o600


def test_a_broken_file_is_named_and_stays_and_the_others_go_on(home: Path) -> None:
    result = mcpx(home, "install", "--yes", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    outcomes = {each["client"]: each["outcome"] for each in report["clients"]}
    assert outcomes == dict.fromkeys(OWN_CLIENTS.split(), "added") | {"lmstudio": "refused"}
    [problem] = [each["problem"] for each in report["clients"] if "problem" in each]
    assert problem.startswith("line 1, column ")
    assert (home / ".lmstudio/mcp.json").read_bytes() == FILES[".lmstudio/mcp.json"][1]


@pytest.mark.parametrize(
    "content", ['{"mcpServers": []}', '{"mcpServers": {"mcpx": {"command": "other"}}}', "[]"]
)
def test_a_file_with_something_else_in_the_place_is_refused(home: Path, content: str) -> None:
    path = home / ".kiro/settings/mcp.json"
    path.write_text(content)
    result = mcpx(home, "install", "kiro", "--yes")
    assert result.exit_code == 1
    assert "refused" in result.stdout
    assert path.read_text() == content


def test_no_secret_is_shown(home: Path) -> None:
    for options in ((), ("--json",), ("--yes",), ("--yes", "--json")):
        result = mcpx(home, "install", "--adopt", *options)
        assert "s3cret" not in result.output
    assert "s3cret" not in mcpx(home, "uninstall", "--json").output


def test_adopting_moves_the_servers_and_leaves_mcpx_alone(home: Path) -> None:
    result = mcpx(home, "install", "--adopt", "--yes", "--json")
    config = json.loads((home / ".config/mcpx/config.json").read_bytes())["mcpServers"]
    assert "git" in config
    assert config["git-windsurf"]["command"] == "git-mcp"
    assert config["far"]["url"] == "https://example.com/mcp"
    assert (home / ".config/mcpx/config.json").stat().st_mode & 0o777 == 0o600
    assert [*servers(home, ".cursor/mcp.json", "mcpServers")] == ["mcpx"]  # type: ignore[misc]
    assert [*servers(home, ".config/zed/settings.json", "context_servers")] == ["ext", "mcpx"]  # type: ignore[misc]
    assert {*servers(home, ".config/goose/config.yaml", "extensions")} == {"developer", "mcpx"}  # type: ignore[misc]
    assert {*servers(home, ".codex/config.toml", "mcp_servers")} == {"mcpx"}  # type: ignore[misc]
    reports = {each["client"]: each for each in json.loads(result.stdout)["clients"]}
    assert "its folder is not there" in reports["claude-code"]["stays"]["shop/local"]
    assert reports["windsurf"]["adopted"] == {"git": "git-windsurf", "far": "far"}
    assert "asks" in reports["vscode"]["stays"]
    assert "ext" in reports["zed"]["stays"]
    kept = {name for each in reports.values() for name in (*each["adopted"], *each["stays"])}
    assert kept == SERVERS - {"broken"} | {"shop/local"}


def test_what_is_lost_of_an_adopted_server_is_named(home: Path) -> None:
    path = home / ".kiro/settings/mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "a", "autoApprove": ["x"]}}}')
    shown = mcpx(home, "install", "--adopt", "kiro").stdout
    assert "mcpServers.a: moves to ~/.config/mcpx/config.json\n      left out: autoApprove" in shown


def test_said_again_there_is_nothing_to_do(home: Path) -> None:
    mcpx(home, "install", "--adopt", "cursor", "--yes")
    before = look(home)
    result = mcpx(home, "install", "--adopt", "cursor")
    assert result.exit_code == 0
    assert result.stdout.endswith("nothing to do\n")
    assert look(home) == before


def test_an_entry_of_another_path_and_name_is_brought_up_to_date(home: Path) -> None:
    path = home / ".kiro/settings/mcp.json"
    text = (
        '{"mcpServers": {\n  "tools": { // all of them\n    "command": "/gone/bin/mcpx", // where it was\n'
        '    "args": ["attach", "--profile", "work"],\n    "autoApprove": ["inspect"]\n  }\n}}\n'
    )
    path.write_text(text)
    result = mcpx(home, "install", "kiro", "--yes")
    assert result.exit_code == 0, result.output
    command = servers(home, ".kiro/settings/mcp.json", "mcpServers", "tools", "command")
    assert path.read_text() == text.replace("/gone/bin/mcpx", str(command))
    mcpx(home, "undo", "--yes")
    assert path.read_text() == text


def test_the_configuration_that_is_named_is_in_the_entry(home: Path) -> None:
    mcpx(home, "install", "kiro", "--config", str(home / "other.json"), "--yes")
    args = servers(home, ".kiro/settings/mcp.json", "mcpServers", "mcpx", "args")
    assert args == ["attach", "--config", str(home / "other.json")]

    result = mcpx(home, "install", "kiro", "--yes")
    assert f"mcpx keeps its configuration, {home}/other.json" in result.stdout
    assert servers(home, ".kiro/settings/mcp.json", "mcpServers", "mcpx", "args") == args


@pytest.mark.parametrize("more", [(), ("--adopt",)])
def test_mcpx_is_not_put_into_its_own_configuration(home: Path, more: tuple[str, ...]) -> None:
    path = home / ".cursor/mcp.json"
    link = home / "link.json"
    link.symlink_to(path)
    before = path.read_bytes()
    result = mcpx(home, "install", "cursor", *more, "--config", str(link), "--yes")
    assert result.exit_code == 1
    assert "MCPX takes its own servers from this file" in result.stdout
    assert path.read_bytes() == before


def test_servers_are_not_adopted_into_a_configuration_that_the_client_does_not_see(home: Path) -> None:
    mcpx(home, "install", "cursor", "--config", str(home / "other.json"), "--yes")
    before = look(home)
    result = mcpx(home, "install", "--adopt", "cursor", "--yes")
    assert result.exit_code == 1
    assert f"to adopt into it: --config {home}/other.json" in result.stdout
    assert {name: held for name, held in look(home).items() if not name.startswith(".config/mcpx")} == before


def test_uninstalling_keeps_what_was_changed_since(home: Path) -> None:
    mcpx(home, "install", "--adopt", "cursor", "codex", "continue", "--yes")
    for name, line in (
        ("dotfiles/cursor.json", "// more\n"),
        (".codex/config.toml", "[more]\nx = 1\n"),
        (".continue/config.yaml", "more: 1\n"),
    ):
        with (home / name).open("a") as file:
            file.write(line)
    result = mcpx(home, "uninstall", "--yes")
    assert result.exit_code == 0
    assert (home / "dotfiles/cursor.json").read_bytes() == FILES["dotfiles/cursor.json"][1] + b"// more\n"
    codex = servers(home, ".codex/config.toml")
    assert {**read(FILES[".codex/config.toml"][1], "toml"), "more": {"x": 1}} == codex
    theirs = servers(home, ".continue/config.yaml", "mcpServers")
    assert {each["name"] for each in theirs} == {"sq", "pg"}  # type: ignore[attr-defined]


def test_an_entry_that_people_wrote_is_taken_out_alone(home: Path) -> None:
    path = home / ".kiro/settings/mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {"command": "a"}, "mcpx": {"command": "mcpx", "args": ["attach"]}}}'
    )
    result = mcpx(home, "uninstall", "kiro", "--yes")
    assert result.exit_code == 0
    assert path.read_text() == '{"mcpServers": {"a": {"command": "a"}}}'


def test_a_name_that_is_taken_is_not_given_back(home: Path) -> None:
    mcpx(home, "install", "--adopt", "windsurf", "--yes")
    path = home / ".codeium/windsurf/mcp_config.json"
    path.write_bytes(
        path.read_bytes()
        .replace(b'{"mcpServers": {', b'{"mcpServers": {"git": {"command": "new"}, ')
        .replace(b'{"mcpServers":{', b'{"mcpServers":{"git": {"command": "new"}, ')
    )
    result = mcpx(home, "uninstall", "windsurf", "--yes")
    assert "mcpServers.git is there again, and stays" in result.stdout
    found = servers(home, ".codeium/windsurf/mcp_config.json", "mcpServers")
    assert found == {"git": {"command": "new"}, "far": {"serverUrl": "https://example.com/mcp"}}


def test_the_client_may_do_it_itself(home: Path) -> None:
    own = home / "bin" / "claude"
    own.parent.mkdir()
    own.write_text(CLAUDE)
    own.chmod(0o755)
    original = look(home)
    shown = mcpx(home, "install", "claude-code")
    assert f"runs: {own} mcp add --scope user mcpx -- /" in shown.stdout
    assert mcpx(home, "install", "claude-code", "--yes").exit_code == 0
    entry = servers(home, ".claude.json", "mcpServers", "mcpx")
    assert entry["env"] == {}  # type: ignore[index]
    assert mcpx(home, "uninstall", "claude-code", "--yes").exit_code == 0
    assert look(home) == original


@pytest.mark.parametrize(
    "script", ["#!/bin/sh\necho no such command >&2; exit 1\n", "#!/bin/sh\nexit 0\n", ""]
)
def test_where_the_client_does_not_do_it_its_file_is_edited(home: Path, script: str) -> None:
    own = home / "bin" / "claude"
    own.parent.mkdir()
    own.write_text(script)
    own.chmod(0o755)
    result = mcpx(home, "install", "claude-code", "--yes")
    assert result.exit_code == 0, result.output
    assert "was edited instead" in result.stdout
    assert servers(home, ".claude.json", "mcpServers", "mcpx", "type") == "stdio"
    original = FILES[".claude.json"][1]
    assert mcpx(home, "undo", "--yes").exit_code == 0
    assert (home / ".claude.json").read_bytes() == original


def test_two_clients_may_share_a_file(home: Path) -> None:
    (home / ".kiro/settings/mcp.json").unlink()
    (home / ".kiro/settings/mcp.json").symlink_to("../../dotfiles/cursor.json")
    result = mcpx(home, "install", "cursor", "kiro", "--adopt", "--yes")
    assert result.exit_code == 0, result.output
    assert [*servers(home, ".cursor/mcp.json", "mcpServers")] == ["mcpx"]  # type: ignore[misc]
    mcpx(home, "uninstall", "--yes")
    assert (home / "dotfiles/cursor.json").read_bytes() == FILES["dotfiles/cursor.json"][1]


def test_a_client_that_is_not_known_is_named(home: Path) -> None:
    result = mcpx(home, "install", "cursr", "--yes")
    assert result.exit_code == 2
    assert "did you mean cursor?" in result.stderr


def test_without_any_client_it_says_so(tmp_path: Path) -> None:
    result = mcpx(tmp_path, "install", "--yes")
    assert result.exit_code == 1
    assert "no AI client was found here" in result.stderr


@pytest.mark.parametrize("name", [".codex/config.toml", "dotfiles/cursor.json"])
def test_a_read_only_file_is_refused_and_the_others_go_on(home: Path, name: str) -> None:
    (home / name).chmod(0o444)
    result = mcpx(home, "install", "codex", "cursor", "--yes")
    assert result.exit_code == 1
    assert "refused, and not changed: it is read-only" in result.stdout
    assert (home / name).read_bytes() == FILES[name][1]
    assert (
        sum("mcpx" in (home / each).read_text() for each in (".codex/config.toml", ".cursor/mcp.json")) == 1
    )


def test_a_file_that_changes_before_the_answer_is_not_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "dotfiles/cursor.json"

    def edit(*_: object, **__: object) -> bool:
        path.write_bytes(b"{}")
        return True

    monkeypatch.setattr("mcpx.cli.options.Manner.agrees", edit)
    result = mcpx(home, "install", "cursor", "kiro")
    assert result.exit_code == 1
    assert "changed meanwhile, so nothing was written; try again" in result.stderr
    assert path.read_bytes() == b"{}"
    assert (home / ".kiro/settings/mcp.json").read_bytes() == b""


def test_a_command_of_the_client_that_hangs_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = home / "bin" / "claude"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\nsleep 60\n")
    own.chmod(0o755)
    monkeypatch.setattr("mcpx.setup.clients.launching.ADD_TIMEOUT_S", 0.05)
    result = mcpx(home, "install", "claude-code", "--yes")
    assert result.exit_code == 0
    assert "claude did not work (it did not end within 0.05 s)" in result.stdout


def test_a_state_folder_that_cannot_be_written_stops_it(home: Path) -> None:
    (home / ".local").write_bytes(b"")
    before = look(home)
    result = mcpx(home, "install", "cursor", "--yes")
    assert result.exit_code == 1
    assert "no copy of your files can be kept, and nothing was changed" in result.stderr
    assert look(home) == before


def test_a_configuration_that_is_broken_stops_adopting(home: Path) -> None:
    config = home / ".config/mcpx/config.json"
    config.parent.mkdir()
    config.write_text("{broken")
    before = look(home)
    result = mcpx(home, "install", "--adopt", "cursor", "--yes")
    assert result.exit_code == 2
    assert f"{config}:1:2: " in result.stderr
    assert look(home) == before


def test_a_client_without_a_file_gets_one_that_it_can_read(home: Path) -> None:
    (home / ".continue/config.yaml").unlink()
    mcpx(home, "install", "continue", "opencode", "--yes")
    document = servers(home, ".continue/config.yaml")
    assert {"name", "version", "schema"} <= {*document}  # type: ignore[misc]
    command = servers(home, ".config/opencode/opencode.jsonc", "mcp", "mcpx", "command")
    assert command[1] == "attach"  # type: ignore[index]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_kill_in_any_command_loses_nothing(tmp_path: Path) -> None:
    """A sample of all steps; the driver without a number plays every one."""
    driver = Path(__file__).with_name("kill_commands.py")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, driver, tmp_path, "97"], env=environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


CLAUDE = r"""#!/bin/sh
test "$1 $2 $3 $4 $5 $6" = "mcp add --scope user mcpx --" || exit 1
entry='"mcpx": {"type": "stdio", "command": "'$7'", "args": ["'$8'"], "env": {}},'
sed -i "s|\"mcpServers\": {$|\"mcpServers\": {\n$entry|; s/Startups\": 41/Startups\": 42/" ~/.claude.json
"""

"""`mcpx add`, `add-json`, `rename`, `remove`, `enable`, `disable` and `list` as processes."""

from __future__ import annotations

import json
import sys

import pytest

from tests.mcpx.scripted import SERVER
from tests.mcpx.serving import run_cli
from tests.mcpx.terminal import Terminal

BEFORE = """// my servers
{
	"mcpServers": {
		"old": {"command": "true", "env": {"TOKEN": "s3cr3t-value"}}, // keep me
	},
}
"""
WORKING = ("--", sys.executable, "-S", "-E", str(SERVER), "{}")


class Place:
    """A home folder with a configuration, and commands that are run there."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / ".config" / "mcpx" / "config.json"

    def write(self, text=BEFORE):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)

    def run(self, *arguments):
        done = run_cli(self.folder, *arguments, **self.environment)
        assert "s3cr3t" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments):
        done = self.run(*arguments, "--json")
        return done.returncode, json.loads(done.stdout)

    @property
    def environment(self):
        return {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / ".config")}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_the_first_server_makes_a_private_file_and_its_tools_are_listed(place):
    done = place.run("add", "--yes", "-e", "K=s3cr3t", "n", *WORKING)
    assert done.returncode == 0, done
    assert "\n  env: K\n" in done.stdout
    assert "n works: " in done.stdout
    assert "\n  echo(text" in done.stdout
    written = json.loads(place.file.read_text())
    command, *args = WORKING[1:]
    assert written == {"mcpServers": {"n": {"command": command, "args": args, "env": {"K": "s3cr3t"}}}}
    assert place.file.stat().st_mode & 0o777 == 0o600
    assert place.file.parent.stat().st_mode & 0o077 == 0


def test_a_server_may_be_signed_in_to_as_a_client_that_is_registered_there(place):
    given = ("--client-id", "c", "--client-secret", "--callback-port", "3118")
    done = place.run("add", "--no-check", "--yes", "web", "https://127.0.0.1:9/mcp", *given)
    assert done.returncode == 0, done
    auth = {"client_id": "c", "client_secret": "${keychain:web}", "callback_port": 3118}
    written = json.loads(place.file.read_text())
    assert written == {"mcpServers": {"web": {"url": "https://127.0.0.1:9/mcp", "auth": auth}}}
    pasted = json.dumps({"url": "https://127.0.0.1:9/mcp", "auth": {"CLIENT_ID": "c"}})
    done = place.run("add-json", "--no-check", "--yes", "--client-secret", "more", pasted)
    assert done.returncode == 0, done
    entry = json.loads(place.file.read_text())["mcpServers"]["more"]
    assert entry["auth"] == {"CLIENT_ID": "c", "client_secret": "${keychain:more}"}
    done = place.run("add", "--no-check", "--yes", "bad", "https://h/mcp", "--client-secret")
    assert done.returncode == 2
    assert '"client_secret" without "client_id"' in done.stderr
    assert "nothing was changed" in done.stderr


def test_comments_stay_and_undo_gives_the_bytes_back(place):
    place.write()
    assert place.run("add", "--no-check", "--yes", "n", "npx", "-y", "x").returncode == 0
    expected = BEFORE.replace(
        "// keep me\n", '// keep me\n\t\t"n": {\n\t\t\t"command": "npx",\n\t\t\t"args": ["-y", "x"]\n\t\t},\n'
    )
    assert place.file.read_text() == expected
    assert place.run("undo", "--yes").returncode == 0
    assert place.file.read_text() == BEFORE


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("add", "--no-check", "n", "npx"), "n"),
        (("add-json", "--no-check", "n", '{"command": "npx"}'), "n"),
        (("remove", "old"), "old"),
        (("disable", "old"), "old"),
        (("mcp", "add", "--no-check", "-s", "user", "n", "npx"), "n"),
    ],
)
def test_what_was_typed_is_meant_in_a_pipe_too(place, command, name):
    place.write()
    at = 2 if command[0] == "mcp" else 1
    done = place.run(*command[:at], "--dry-run", *command[at:])
    assert done.returncode == 0
    assert "\n@@ " in done.stdout
    assert place.file.read_text() == BEFORE
    assert place.run(*command).returncode == 0
    assert place.file.read_text() != BEFORE
    assert place.run("undo", "--yes").returncode == 0
    done = place.run(*command[:at], "--json", *command[at:])
    assert (done.returncode, json.loads(done.stdout)["changed"]) == (0, True)


PLACES = [
    {"command": "a", "env": {"K": "${cmd:touch PWNED}"}},
    {"command": "a", "args": ["--x", "b${cmd:touch PWNED}"]},
    {"command": "${cmd:touch PWNED}"},
    {"command": "a", "cwd": "/${cmd:touch PWNED}"},
    {"command": "a", "env_file": ["/x/${cmd:touch PWNED}"]},
    {"command": "a", "env": {"K": "${VAR:-${OTHER:-${cmd: touch PWNED }}}"}},
    {"url": "https://127.0.0.1:9/mcp?k=${cmd:touch PWNED}"},
    {"url": "https://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer ${cmd:touch PWNED}"}},
    {"url": "https://127.0.0.1:9/mcp", "auth": {"client_id": "c", "client_secret": "${cmd:touch PWNED}"}},
    {"url": "https://127.0.0.1:9/mcp", "tls": {"ca": "/x/${cmd:touch PWNED}"}},
]


@pytest.mark.parametrize("entry", PLACES, ids=str)
def test_a_command_in_an_entry_is_shown_whole_and_wants_a_yes(place, entry):
    place.write()
    entry = json.loads(json.dumps(entry).replace("PWNED", str(place.folder / "PWNED")))
    command = f"touch {place.folder / 'PWNED'}"
    done = place.run("add-json", "n", json.dumps(entry))
    assert done.returncode == 1
    assert f"\nn runs: /bin/sh -c '{command}'\n" in done.stdout
    assert done.stderr.endswith("nothing was changed; to do it: mcpx add-json --yes ...\n")
    assert place.file.read_text() == BEFORE
    code, report = place.json("add-json", "n", json.dumps(entry))
    assert (code, report["changed"], report["commands"]) == (1, False, {"n": [command]})
    assert not (place.folder / "PWNED").exists()


def test_what_only_looks_at_a_configuration_runs_no_command_of_it(place):
    entries = {f"n{index}": entry for index, entry in enumerate(PLACES)}
    marker = str(place.folder / "PWNED")
    place.write(json.dumps({"mcpServers": entries}).replace("PWNED", marker))
    looks = [
        ("check",),
        ("check", "--json"),
        ("doctor", "--no-start"),
        ("doctor", "--no-start", "--json"),
        ("list",),
        ("list", "--json"),
        ("import", "--dry-run"),
        ("disable", "n0"),
        ("remove", "n1", "--dry-run"),
        ("add", "--no-check", "more", "true"),
        ("enable", "n0"),
        ("status",),
        ("stats",),
        ("audit",),
        ("daemon", "status"),
        ("config", "schema"),
        ("completion", "bash"),
    ]
    for command in looks:
        done = place.run(*command)
        assert not (place.folder / "PWNED").exists(), command
        if command == ("check",):
            assert done.stdout.count(f"its command was not run: touch {marker}") == len(PLACES)
    assert place.run("enable", "n0", "--yes").returncode == 1  # there is no such program as a
    assert (place.folder / "PWNED").exists()
    (place.folder / "PWNED").unlink()
    place.run("check", "--run-commands")
    assert (place.folder / "PWNED").exists()


def test_on_a_terminal_what_was_typed_is_meant_but_a_removal_is_asked_about(place):
    place.write()
    environment = {
        **place.environment,
        "MCPX_STATE_DIR": str(place.folder / "state"),
        "PATH": "/usr/bin:/bin",
    }
    with Terminal("-m", "mcpx", "disable", "old", env=environment) as terminal:
        assert terminal.end() == 0
    assert '"disabled": true' in place.file.read_text()
    with Terminal("-m", "mcpx", "remove", "old", env=environment) as terminal:
        terminal.wait_for("Remove old?")
        terminal.type("n\r")
        assert terminal.end() == 1
    assert '"old"' in place.file.read_text()


@pytest.mark.parametrize(("typed", "stays"), [("\r", True), ("n\r", False)])
def test_on_a_terminal_one_that_does_not_start_can_be_taken_out_at_once(place, typed, stays):
    place.write()
    environment = {
        **place.environment,
        "MCPX_STATE_DIR": str(place.folder / "state"),
        "PATH": "/usr/bin:/bin",
    }
    with Terminal("-m", "mcpx", "add", "n", "there-is-no-such-command", env=environment) as terminal:
        terminal.wait_for("Keep n all the same? [Y/n]")
        terminal.type(typed)
        assert terminal.end() == 1
    assert ('"n"' in place.file.read_text()) is stays
    assert stays or place.file.read_text() == BEFORE


def test_a_server_that_does_not_start_stays_and_its_reason_is_said(place):
    done = place.run("add", "--yes", "n", "--", "there-is-no-such-command")
    assert done.returncode == 1
    assert "n does not work: " in done.stdout
    assert "there-is-no-such-command" in done.stdout
    assert "mcpx logs n" in done.stdout
    assert "n" in json.loads(place.file.read_text())["mcpServers"]


def test_what_was_added_is_reported_as_one_object(place):
    done = place.run("add", "--yes", "--json", "n", *WORKING)
    report = json.loads(done.stdout)
    assert (done.returncode, report["changed"], report["server"]) == (0, True, "n")
    assert report["checks"]["n"]["started"] is True
    assert "echo" in report["checks"]["n"]["tools"]


def test_a_name_that_is_taken_is_refused_unless_it_is_to_be_replaced(place):
    place.write()
    done = place.run("add", "--yes", "old", "npx")
    assert done.returncode == 1
    assert "old is in" in done.stderr
    assert "--replace" in done.stderr
    assert place.file.read_text() == BEFORE
    assert place.run("add", "--yes", "--no-check", "--replace", "old", "npx").returncode == 0
    assert place.file.read_text() == BEFORE.replace('"true", "env": {"TOKEN": "s3cr3t-value"}', '"npx"')


@pytest.mark.parametrize("command", ["remove", "enable", "disable"])
def test_a_name_that_there_is_not_finds_the_nearest(place, command):
    place.write()
    done = place.run(command, "oldd", "--yes")
    assert done.returncode == 1
    assert 'no server "oldd"' in done.stderr
    assert "did you mean old?" in done.stderr


def test_a_removed_server_is_gone_with_its_line(place):
    place.write()
    code, report = place.json("remove", "old", "--yes")
    assert (code, report["removed"]) == (0, ["old"])
    assert place.file.read_text() == '// my servers\n{\n\t"mcpServers": {},\n}\n'


def test_a_server_is_renamed_and_found_by_its_old_name(place):
    place.write()
    code, report = place.json("rename", "old", "new", "--dry-run")
    assert (code, report["changed"]) == (0, False)
    assert '+\t\t"new": {"command": "true"' in report["diff"]
    assert place.file.read_text() == BEFORE
    assert place.run("rename", "old", "new").returncode == 0
    expected = BEFORE.replace('"old"', '"new"').replace('value"}', 'value"}, "aliases": ["old"]')
    assert place.file.read_text() == expected
    assert place.run("disable", "old").returncode == 0
    for names, problem in (
        (("old", "x"), "old is another name of new"),
        (("gone", "x"), 'no server "gone"'),
        (("new", "new"), "the name of a server already"),
        (("new", ""), "nothing was changed"),
    ):
        done = place.run("rename", *names)
        assert (done.returncode, problem in done.stderr) == (2 if names[1] == "" else 1, True), done
    assert place.run("undo", "--yes").returncode == 0
    assert place.run("undo", "--yes").returncode == 0
    assert place.file.read_text() == BEFORE


def test_an_entry_that_was_shown_keeps_its_secrets_when_it_is_replaced(place):
    place.write()
    edited = '{"command": "false", "env": {"TOKEN": "***"}}'
    assert place.run("add-json", "old", edited, "--replace", "--no-check").returncode == 0
    assert place.file.read_text() == BEFORE.replace('"true"', '"false"')
    done = place.run("add-json", "other", edited, "--no-check")
    assert done.returncode == 1
    assert "other: env.TOKEN has ***" in done.stderr
    assert place.file.read_text() == BEFORE.replace('"true"', '"false"')


def test_disabled_and_enabled_again_the_file_is_as_before(place):
    place.write()
    assert place.run("disable", "old", "--yes").returncode == 0
    assert place.json("list")[1]["servers"][0]["state"] == "disabled"
    assert place.run("disable", "old", "--yes").stdout == "old: disabled already\n"
    assert place.run("enable", "old", "--yes").returncode == 1  # it does not speak MCP
    assert place.file.read_text() == BEFORE


def test_a_server_is_started_to_be_enabled_though_its_tools_are_known(place):
    own = place.folder / "server.py"
    own.write_text(SERVER.read_text())
    assert place.run("add", "--yes", "n", "--", sys.executable, "-S", "-E", str(own), "{}").returncode == 0
    assert place.run("disable", "--yes", "n").returncode == 0
    assert "works: " in place.run("enable", "--yes", "n").stdout
    assert place.run("disable", "--yes", "n").returncode == 0
    own.unlink()
    done = place.run("enable", "--yes", "n")
    assert done.returncode == 1
    assert "n does not work: the server process exited" in done.stdout


def test_a_mistake_in_an_entry_is_refused_before_anything_is_written(place):
    done = place.run("add-json", "n", '{"command": 5}', "--yes")
    assert done.returncode == 2
    assert "expected" in done.stderr
    assert not place.file.exists()
    done = place.run("add-json", "n", '{"comand": "x"}', "--yes")
    assert done.returncode == 2
    assert not place.file.exists()


def test_a_file_that_is_not_understood_is_left_alone(place):
    place.write('{"mcpServers": {\n "a": {} "b": {}}}')
    done = place.run("add", "n", "npx", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{place.file}:2:9: a comma is missing here; nothing was changed" in done.stderr
    done = place.run("list")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{place.file}:2:9: " in done.stderr


def test_the_servers_are_listed_without_their_secrets(place):
    place.write(BEFORE.replace('"true"', '"npx", "args": ["--token", "s3cr3t", "x"]'))
    done = place.run("list")
    assert done.stdout.split("\n")[1].split() == [
        "old",
        "not",
        "running",
        "stdio",
        "npx",
        "--token",
        "***",
        "x",
    ]
    code, listed = place.json("list")
    assert (code, listed["daemon"]) == (0, None)
    assert listed["servers"] == [
        {"name": "old", "state": "not running", "transport": "stdio", "command": "npx --token *** x"}
    ]


def test_with_no_configuration_the_list_says_what_to_type(place):
    done = place.run("list")
    assert done.returncode == 0
    assert "mcpx setup" in done.stdout

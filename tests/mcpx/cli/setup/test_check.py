"""`mcpx check` and `mcpx config schema`, and what every command says of a bad configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import jsonschema
import pytest

from mcpx import __version__
from mcpx.attach.command import USAGE
from mcpx.cli.main import cli
from tests.mcpx.scripted import entry
from tests.mcpx.serving import run_cli

GOOD = {
    "mcpServers": {
        "files": {"command": "sh", "args": ["-y", "files"]},
        "web": {"type": "http", "url": "https://example.com/mcp"},
        "unset": {"command": "x", "env": {"KEY": "${THIS_IS_NOT_SET_ANYWHERE}"}},
    },
    "startup_wiat": 3,
}

BAD = {
    "not JSON": ('{"mcpServers": {\n  "a": }\n}', ":2:8: not JSON"),
    "not JSON at the end": ('{"mcpServers": {', ":1:17: not JSON"),
    "empty": ("", ": "),
    "not an object": ("[1]", ": $: expected an object"),
    "wrong setting": (
        '{"startup_wait": "soon", "mcpServers": {"fs": {"command": "x"}}}',
        ": $.startup_wait: expected",
    ),
    "no servers": ("{}", "no servers; give at least one"),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.json"


@pytest.mark.parametrize(("content", "told"), BAD.values(), ids=BAD)
def test_a_bad_configuration_is_one_line_and_exit_code_2(tmp_path, file, content, told):
    file.write_text(content)
    done = run_cli(tmp_path, "serve", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mcpx: {file}")
    assert told in line


def test_a_missing_file_is_one_line_and_exit_code_2(tmp_path, file):
    done = run_cli(tmp_path, "serve", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"mcpx: {file}: no such file; to begin: mcpx setup --config {file}\n"


@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["exec", "s", "t"],
        ["resources"],
        ["serve", "--transport", "http"],
        [],
    ],
    ids=" ".join,
)
def test_every_command_says_so_in_the_same_way(tmp_path, file, command):
    file.write_text('{"mcpServers": 3}')
    done = run_cli(tmp_path, *command, MCPX_CONFIG=str(file))
    assert (done.returncode, done.stdout) == (2, "")
    cure = "to see every mistake: mcpx check"
    assert done.stderr == f"mcpx: {file}: $.mcpServers: expected an object, got a number; {cure}\n"


def test_check_lists_the_servers_and_what_is_odd(tmp_path, file):
    file.write_text(json.dumps(GOOD))
    done = run_cli(tmp_path, "check", str(file))
    assert done.returncode == 1
    assert done.stderr == f"mcpx: {file}: unset: not started until what is missing is there\n"
    assert f"{file}: 3 servers" in done.stdout
    assert "files (stdio): ok" in done.stdout
    assert "web (http): ok" in done.stdout
    assert (
        "unset (stdio): needs setup: environment variable THIS_IS_NOT_SET_ANYWHERE is not set" in done.stdout
    )
    assert "startup_wait" in done.stdout


def test_check_says_how_tools_are_shown_where_that_is_not_by_the_three(tmp_path, file):
    servers = {"plain": {"command": "sh", "expose": "three"}, "own": {"command": "sh", "pinned": ["log"]}}
    file.write_text(json.dumps({"expose": "all", "mcpServers": servers}))
    lines = run_cli(tmp_path, "check", str(file)).stdout.splitlines()
    assert lines[1:] == ["  plain (stdio): ok", "  own (stdio): ok, expose: all, pinned: own.log"]


def test_check_says_what_becomes_of_tools_that_are_known(tmp_path, file):
    tools = [
        {"name": "odd", "inputSchema": {"type": "object", "properties": {"x": {"type": "array"}}}},
        {"name": "look", "inputSchema": {"type": "object", "properties": {"y": {"type": "string"}}}},
    ]
    overrides = {"look": {"fixed": {"z": 1}}, "odd": {"description": "Odd."}}
    server = entry(offers={"tools": tools}, settings={"overrides": overrides, "expose": "all"})
    file.write_text(json.dumps({"mcpServers": {"s": server}}))
    assert run_cli(tmp_path, "inspect", "s", "--config", str(file)).returncode == 0
    shown = run_cli(tmp_path, "check", str(file)).stdout
    assert "warning: s: look: its override in the configuration cannot be applied" in shown
    assert "note: s: shown in another form (sanitize): odd (items, for Cursor" in shown


def test_check_for_programs(tmp_path, file):
    file.write_text(json.dumps(GOOD))
    done = run_cli(tmp_path, "check", "--json", str(file))
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["source"] == str(file)
    assert [(each["name"], each["transport"]) for each in report["servers"]] == [
        ("files", "stdio"),
        ("web", "http"),
        ("unset", "stdio"),
    ]
    assert report["servers"][0]["state"] is None
    unset = report["servers"][2]
    assert (unset["state"], unset["missing"]) == ("needs setup", ["THIS_IS_NOT_SET_ANYWHERE"])
    assert "mcpx restart unset" in unset["remedy"]
    (notice,) = report["notices"]
    assert "startup_wiat" in notice


WRONG = """\
// mine
{
  "mcpServers": {
    "good": {"command": "sh"},
    "typo": {"comand": "npx"}, /* a slip */
    "gone": {"command": "not-there", "cwd": "nowhere", "argz": ["-y"]},
    "line": {"command": "ls -l /tmp"},
    "odd": {"command": "sh", "args": "-y", "env": {"API_TOKEN": "s3cret-s3cret", "A": []}},
  },
}
"""


def test_check_names_all_mistakes_at_once_with_their_places(tmp_path, file):
    file.write_text(WRONG)
    file.chmod(0o600)
    done = run_cli(tmp_path, "check", str(file))
    assert done.returncode == 2
    assert done.stderr == f"mcpx: {file}: 3 mistakes; not started: odd, typo\n"
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        f"{file}: 5 servers",
        "  good (stdio): ok",
        "  typo (stdio): invalid: its entry holds a mistake, see below",
        f"  gone (stdio): needs setup: its working folder {tmp_path}/nowhere is not there",
        "  line (stdio): warning, see below",
        "  odd (stdio): invalid: its entry holds a mistake, see below",
    ]
    told = [line.partition(": ")[::2] for line in lines[6:] if line.startswith(str(file))]
    assert [(place.removeprefix(f"{file}"), text.partition(";")[0]) for place, text in told] == [
        (":5:14", 'error: neither "command" nor "url"'),
        (":6:25", "warning: command not found: not-there"),
        (":6:45", f"warning: no such folder: {tmp_path}/nowhere (in $.mcpServers.gone.cwd)"),
        (":6:56", "warning: unknown key, has no effect"),
        (":7:25", "warning: this is a whole command line"),
        (":8:38", "error: expected an array of strings, got a string (in $.mcpServers.odd.args)"),
        (":8:87", "error: expected a string, got an array (in $.mcpServers.odd.env.A)"),
    ]
    assert lines[7:9] == ['        "typo": {"comand": "npx"}, /* * **** */', " " * 17 + "^"]
    assert "s3cret" not in done.stdout


def test_check_for_programs_says_all_of_it_too(tmp_path, file):
    file.write_text(WRONG)
    file.chmod(0o600)
    done = run_cli(tmp_path, "check", "--json", "--config", str(file))
    assert (done.returncode, done.stderr) == (2, "")
    report = json.loads(done.stdout)
    assert report["usable"] is True
    assert report["error"] == f"{file}: 3 mistakes; not started: odd, typo"
    (typo, *others) = report["problems"]
    assert (typo["line"], typo["column"], typo["server"]) == (5, 14, "typo")
    assert typo["path"] == "$.mcpServers.typo.comand"
    assert [(each["line"], each["server"]) for each in others] == [(8, "odd")] * 2
    assert [each["level"] for each in report["warnings"]] == ["warning"] * 4
    assert "s3cret" not in done.stdout


@pytest.mark.parametrize("content", [None, "", "{,}", "[]", '{"http": 3, "queue_size": 0}'])
def test_check_for_programs_is_json_whatever_is_wrong(tmp_path, file, content):
    if content is not None:
        file.write_text(content)
    done = run_cli(tmp_path, "check", str(file), "--json")
    assert (done.returncode, done.stderr) == (2, "")
    report = json.loads(done.stdout)
    assert report["usable"] is False
    assert "cannot be used" in report["error"]
    assert report["problems"][0]["level"] == "error"
    assert len(report["problems"]) == (3 if content and "http" in content else 1)


def test_a_command_that_is_not_there_ends_the_check_with_1_unless_its_server_is_switched_off(tmp_path, file):
    gone = {"command": str(tmp_path / "nothing")}
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "sh"}, "gone": gone}}))
    done = run_cli(tmp_path, "check", str(file))
    assert done.returncode == 1
    assert done.stderr == f"mcpx: {file}: gone: not started until what is missing is there\n"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "sh"}, "gone": {**gone, "disabled": True}}}))
    assert run_cli(tmp_path, "check", str(file)).returncode == 0


def test_a_file_that_others_can_read_is_a_note_if_secrets_stand_in_it(tmp_path, file):
    env = {"API_TOKEN": "s3cret-s3cret", "GIT_AUTHOR_NAME": "somebody", "OTHER_KEY": "${HOME}"}
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "sh", "env": env}}}))
    file.chmod(0o644)
    done = run_cli(tmp_path, "check", str(file))
    assert done.returncode == 0
    told = "note: other users can read this file (mode 644), and secrets stand in it (a: API_TOKEN)"
    assert done.stdout.splitlines()[-1] == f"{file}: {told}; type: chmod 600 {file}"
    file.chmod(0o600)
    assert "note" not in run_cli(tmp_path, "check", str(file)).stdout


def test_two_configurations_are_a_usage_error(tmp_path, file):
    done = run_cli(tmp_path, "check", str(file), "--config", "other.json")
    assert done.returncode == 2
    assert f"two configurations are given, {file} and other.json" in done.stderr


def test_the_schema_takes_a_good_configuration_and_refuses_bad_ones(tmp_path):
    done = run_cli(tmp_path, "config", "schema")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = {key: value for key, value in GOOD.items() if key == "mcpServers"}
    assert list(validator.iter_errors({**good, "startup_wait": 1, "restart": {"cap": 5}})) == []
    for bad in ({"mcpServers": 3}, {**good, "startup_wait": "soon"}, {"mcpServers": {"a": {"command": 3}}}):
        assert list(validator.iter_errors(bad)) != [], bad


def test_the_version_and_the_help_need_no_configuration(tmp_path):
    version = run_cli(tmp_path, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert __version__ in version.stdout
    told = run_cli(tmp_path, "help", "--all")
    assert told.returncode == 0
    for command in ("serve", "check", "config", "inspect", "exec", "resources", "demo"):
        assert f"\n  {command} " in told.stdout


def test_an_unknown_command_is_a_usage_error(tmp_path):
    done = run_cli(tmp_path, "sevre")
    assert (done.returncode, done.stdout) == (2, "")
    assert "sevre" in done.stderr


def test_profiles_are_shown_with_what_they_show(tmp_path):
    work = {"servers": ["web", "un*"], "tools": {"web": ["get*", "find"]}}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(GOOD | {"profiles": {"work": work, "none": {"servers": []}}}))
    done = run_cli(tmp_path, "check", str(config))
    assert done.returncode == 1  # unset lacks a variable
    shown = ["  profile work: web, unset", "    of web: get*, find", "  profile none: no servers"]
    assert done.stdout.splitlines()[4:7] == shown
    plain = json.loads(run_cli(tmp_path, "check", str(config), "--json").stdout)
    assert plain["profiles"] == {"work": ["web", "unset"], "none": []}


WITHOUT_CONFIGURATION = {"demo", "help", "version", "completion"}


def test_every_command_takes_the_configuration_by_the_same_option():
    lacking = [" ".join(path) for path, command in commands(cli) if "--config" not in options(command)]
    own_ways = {"attach", "cluster node"}  # the one reads its own command line, the other its standard input
    assert set(lacking) == WITHOUT_CONFIGURATION | own_ways
    assert "--config FILE" in USAGE


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}

"""Faults, planted one at a time in a sound home: each is named, with what to do, and nothing else is."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import click
import pytest

from mcpx.cli.main import cli
from mcpx.setup.doctor.installation import wrong
from tests.mcpx.scripted import entry
from tests.mcpx.setup.doctor import planting
from tests.mcpx.setup.doctor.homes import Home, server

pytestmark = pytest.mark.timeout(60)


class Fault(NamedTuple):
    """`plant` breaks the home; or returns a context, in which it is broken. One finding holds the `words`."""

    plant: Callable[[Home], Any]
    words: tuple[str, ...]
    advice: str
    starts: bool = False
    """Whether servers and clients' commands have to be started for it."""


FAULTS = {
    "no configuration": Fault(planting.no_configuration, ("no configuration",), "mcpx setup"),
    "a missing comma": Fault(
        planting.config('{"mcpServers": {"a": {"command": "ls"}\n"b": {}}}'), (":1:39", "comma"), "check"
    ),
    "an entry without command": Fault(
        planting.bad_entry(comand="npx"), ("bad", "command", "comand"), "check"
    ),
    "a key that is misspelt": Fault(planting.bad_entry(command="ls", argz=[]), ("argz", '"args"'), "check"),
    "a variable that is not set": Fault(
        planting.bad_entry(command="ls", env={"X": "${NO_SUCH_TOKEN}"}),
        ("bad", "NO_SUCH_TOKEN"),
        "mcpx restart bad",
    ),
    "a login shell that says nothing": Fault(
        planting.mute_login_shell, ("login shell", "/shell"), '"login_shell": false'
    ),
    "a command that is not there": Fault(
        planting.bad_entry(command="no-such-command"),
        ("bad", "command not found: no-such-command", "searched: /"),
        "path",
    ),
    "a whole command line": Fault(
        planting.bad_entry(command="ls -l /tmp"), ("bad", "whole command line", '"ls"'), "correct it"
    ),
    "a working folder that is gone": Fault(
        planting.bad_entry(command="ls", cwd="gone"), ("bad", "needs setup", "gone is not there"), "mkdir"
    ),
    "a tool that has changed": Fault(
        planting.changed_tool, ("s", "waits for approval", "echo has changed (description)"), "mcpx approve s"
    ),
    "a lost record of approvals": Fault(planting.lost_record, ("s", "pins", "was removed"), "mcpx approve s"),
    "a server that ends at once": Fault(
        planting.script(exit=3, stderr="no licence\n"),
        ("bad", "exited with code 3", "no licence"),
        "terminal",
        starts=True,
    ),
    "a server that hangs": Fault(planting.script(silent=True), ("bad", "no answer"), "terminal", starts=True),
    "a server that is not reached": Fault(
        planting.bad_entry(url="http://127.0.0.1:9/mcp"), ("bad", "cannot be reached"), "address", starts=True
    ),
    "a readable configuration with a secret": Fault(
        planting.config_with_secret, ("config.json", "(s)", "others may read"), "chmod 600"
    ),
    "a readable file of variables": Fault(planting.readable_env_file, ("tokens.env", "can read"), ""),
    "a file of variables that is gone": Fault(
        lambda home: home.write({"bad": {**entry(), "env_file": "gone.env"}}),
        ("bad", "gone.env"),
        "mcpx restart bad",
    ),
    "a certificate that is gone": Fault(
        planting.bad_entry(url="https://127.0.0.1:9/mcp", tls={"ca": "gone.pem"}),
        ("bad", "no such file", "gone.pem"),
        "put a file there",
    ),
    "a header and a sign-in": Fault(
        planting.bad_entry(url="https://h/mcp", headers={"Authorization": "${HOME}"}, auth="oauth"),
        ("contradicts the header",),
        "check",
    ),
    "a client's file that is broken": Fault(
        planting.client('{"mcpServers": {,}}'), ("cursor", "column"), "correct it"
    ),
    "a client that starts what is gone": Fault(
        planting.gone_command, ("cursor", "/old/bin/mcpx"), "mcpx install cursor"
    ),
    "a client with a configuration that is gone": Fault(
        planting.gone_configuration, ("cursor", "gone.json"), "mcpx install cursor"
    ),
    "an attach that does not answer": Fault(
        lambda home: home.write_command(code="raise SystemExit('it is broken')"),
        ("cursor", "does not answer", "it is broken"),
        "mcpx install cursor",
        starts=True,
    ),
    "a description that the client cuts": Fault(
        planting.long_description, ("claude-code", "2,048", "inspect (5,000)"), "three", starts=True
    ),
    "a change that was cut short": Fault(
        planting.interrupted_change, ("install cursor", "cut short", "a.json"), "mcpx undo"
    ),
    "a daemon that does not answer": Fault(
        planting.no_answer, ("daemon", "does not answer"), "daemon restart"
    ),
    "a daemon of another version": Fault(
        lambda home: home.daemon(version="0.0.9"), ("0.0.9",), "daemon restart"
    ),
    "a daemon that cannot use the file": Fault(
        lambda home: home.daemon(config_error="x:1:1: not JSON"), ("cannot be used", "x:1:1"), "check"
    ),
    "a daemon without HTTP": Fault(
        lambda home: home.daemon(http={"error": "cannot listen on 127.0.0.1:1"}),
        ("HTTP", "127.0.0.1:1"),
        "status",
    ),
    "a server that is parked": Fault(
        lambda home: home.daemon(servers=(server("s", "parked", last_error="it died"),)),
        ("s is parked", "it died"),
        "mcpx restart s",
    ),
    "a server that wants a sign-in": Fault(
        lambda home: home.daemon(servers=(server("s", "needs sign-in", sign_in={"problem": "it expired"}),)),
        ("s needs a sign-in: it expired",),
        "mcpx login s",
    ),
    "a server that answers 401": Fault(
        planting.wants_sign_in, ("bad", "needs sign-in"), "mcpx login bad", starts=True
    ),
    "a header that the server refuses": Fault(
        lambda home: planting.refuses_credentials(home, headers={"Authorization": "Bearer x"}),
        ("bad", "HTTP 401"),
        "correct its header Authorization",
        starts=True,
    ),
    "a sign-in that is turned off": Fault(
        lambda home: planting.refuses_credentials(home, auth=False),
        ("bad", "HTTP 401"),
        'take "auth": false out',
        starts=True,
    ),
    "a second daemon": Fault(planting.second_daemon, ("two daemons",), "kill"),
    "a file where the socket is to be": Fault(planting.file_for_socket, ("socket", "in the way"), "rm"),
    "a runtime folder that is open": Fault(
        planting.runtime_folder_open, ("run", "open to others"), "chmod 700"
    ),
    "a state folder that is open": Fault(
        planting.state_folder_open, ("state", "others may change"), "chmod go-w"
    ),
    "a file where the state folder is to be": Fault(planting.state_is_a_file, ("state",), "MCPX_STATE_DIR"),
    "a port that is taken": Fault(planting.port_taken, ("HTTP", "127.0.0.1", "in use"), "port"),
    "a token that others may read": Fault(planting.readable_token, ("HTTP", "state/token"), "chmod 600"),
    "tokens that others may read": Fault(
        lambda home: planting.named_tokens(home, '{"tokens": []}', 0o644),
        ("HTTP", "state/tokens.json"),
        "chmod 600",
    ),
    "tokens that cannot be read": Fault(
        lambda home: planting.named_tokens(home, "{"), ("HTTP", "not a list of tokens"), "mcpx token"
    ),
    "a unit that runs what is gone": Fault(
        planting.stale_unit, ("mcpx.service", "/old/python"), "daemon install"
    ),
    "a unit that is not enabled": Fault(
        planting.disabled_unit, ("mcpx.service", "not enabled"), "daemon install"
    ),
    "a full disk": Fault(planting.full_disk, ("disk", "full"), "free some space"),
    "a proxy before a local server": Fault(planting.proxy, ("proxy", "HTTP_PROXY", "local"), "NO_PROXY"),
    "a home that is not there": Fault(planting.no_home, ("home", "nobody"), "HOME"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_named(home, fault):
    broken = fault.plant(home)
    with ExitStack() as stack:
        if hasattr(broken, "__enter__"):
            stack.enter_context(broken)
        if fault.starts:
            stack.enter_context(home.daemon())
        page = home.examine(starts=fault.starts, timeout_s=10.0)
    assert len(page.of("wrong")) == 1, page
    (finding,) = page.naming("wrong", *fault.words) or [None]
    assert finding is not None, page
    assert fault.advice in (finding.advice or ""), page
    for each in filter(None, (finding.command for finding in page.findings)):
        assert can_run(each), each


def can_run(command: str) -> bool:
    """Whether a shell finds one command in it, and, of MCPX's own, the command line all that it names."""
    program, *words = shlex.split(command)
    if program != "mcpx":
        return program == "export" or shutil.which(program) is not None
    context: click.Context = cli.make_context("mcpx", words)
    while isinstance(context.command, click.Group):
        name, found, words = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert found is not None
        context = found.make_context(name, words, parent=context)
    return True


@pytest.mark.parametrize(
    ("advice", "command"),
    [
        ("mcpx install cursor", "mcpx install cursor"),
        ("mcpx install cursor, which has it join the daemon", None),
        (
            "once that is mended: mcpx restart github --config /a/b.json",
            "mcpx restart github --config /a/b.json",
        ),
        ("mcpx import, or: mcpx add NAME -- COMMAND", None),
        ("mcpx daemon restart; if that does not help: kill -9 17", None),
        ("take it out, then: mcpx login x", "mcpx login x"),
        ("add to ~/.profile: export KEY=VALUE; then: mcpx restart x", "mcpx restart x"),
        ("set what is missing in your shell's start-up files", None),
        ("export NO_PROXY=localhost,127.0.0.1,::1", "export NO_PROXY=localhost,127.0.0.1,::1"),
        (None, None),
    ],
)
def test_a_command_is_told_from_a_sentence(advice, command):
    assert wrong("x", "is broken", advice).command == command


def test_another_programs_readable_file_with_a_secret_is_worth_a_note(home):
    planting.client_with_secret(home)
    page = home.examine(starts=False)
    assert page.of("wrong") == []
    (finding,) = page.naming("note", "cursor", "github", "others may read")
    assert finding.advice.startswith("chmod 600 ")
    assert finding.fix is not None


def test_what_works_in_the_editor_alone_gets_no_advice_that_does_nothing(home):
    servers = {
        "folder": {"type": "stdio", "command": "a", "args": ["${workspaceFolderBasename}"]},
        "asks": {"type": "stdio", "command": "a", "env": {"K": "${input:k}"}},
    }
    file = home.folder / ".config" / "Code" / "User" / "mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"servers": {"mcpx": home.own_entry(), **servers}}))
    page = home.examine(starts=False)
    assert page.of("wrong") == []
    assert page.naming("note", "beside MCPX") == []
    for name, words in (("folder", "known to the editor only"), ("asks", "the editor asks for")):
        (finding,) = page.naming("note", "vscode", f"keeps {name}", words)
        assert finding.advice is None
    home.write({"bad": {"command": "a", "args": ["${workspaceFolderBasename}"]}})
    (finding,) = home.examine(starts=False).naming("wrong", "bad", "has no value outside an editor")
    assert "start-up files" not in finding.advice
    assert 'in place of "${workspaceFolderBasename}"' in finding.advice


@pytest.mark.parametrize(
    ("sign_in", "said"),
    [
        ({"wanted_scopes": ["a", "b"]}, "s wants more than was agreed to: a b"),
        ({"problem": "it is down"}, "the sign-in to s was not renewed: it is down"),
    ],
)
def test_a_sign_in_that_will_want_a_person_is_noted(home, sign_in, said):
    with home.daemon(servers=(server("s", "ready", sign_in=sign_in),)):
        page = home.examine(starts=False, timeout_s=10.0)
    assert page.of("wrong") == []
    assert len(page.naming("note", said)) == 1, page


SERENA = "git+https://github.com/oraios/serena"
OF_PROJECTS = [
    ("npx -y @modelcontextprotocol/server-filesystem .", ".", '"${project}" in'),
    ("uvx mcp-server-git --repository ./sub", "./sub", '"${project}/sub" in'),
    (f"uvx --from {SERENA} serena start", "works on the project", '"sessions": "per_project"'),
    ("npx @eslint/mcp@latest", "works on the project", '"sessions": "per_project"'),
]


@pytest.mark.parametrize(("line", "says", "advice"), OF_PROJECTS)
def test_what_would_have_to_run_in_a_project_is_named(home, line, says, advice):
    command, *args = line.split()
    home.write({"tool": {"command": command, "args": args}})
    (finding,) = home.examine(starts=False).naming("note", "tool", "home folder", says)
    assert finding.advice.startswith("write ")
    assert advice in finding.advice
    assert str(home.config) in finding.advice


@pytest.mark.parametrize(
    "more",
    [
        {"args": ["mcp-server-git", "--repository", "/srv/work"]},
        {"args": ["mcp-server-git"], "cwd": "/srv"},
        {"args": ["mcp-server-git", "--repository", "${project}"]},
        {"args": ["mcp-server-time"]},
        {"args": ["mcp-server-git", "."], "disabled": True},
    ],
)
def test_what_runs_where_it_should_is_not(home, more):
    home.write({"tool": {"command": "uvx", **more}})
    assert home.examine(starts=False).naming("note", "tool", "home folder") == []

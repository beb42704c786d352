"""The group of all commands: help by task, unknown commands, and how errors and interruptions end it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest

import mcpx
from mcpx import __version__
from mcpx.cli.group import HIDDEN, with_cure
from mcpx.cli.main import COMMANDS, COMMON, cli
from mcpx.core.telemetry.log_files import server_log_path
from mcpx.errors import CallError, Code
from mcpx.paths import configuration_folder
from tests.mcpx.serving import environment, run_cli
from tests.mcpx.terminal import CTRL_C, Terminal

FAILING = """
import sys
from mcpx.cli import main
def fail(*_given, **_options):
    raise {}
import mcpx.core.config.findings
mcpx.core.config.findings.examine = fail
main.cli(sys.argv[1:])
"""
NO_JSON = (
    "attach, cluster node, cluster stop, completion, config schema, daemon install, daemon logs, daemon run,"
    " daemon uninstall, help, logs, serve, top, ui"
)
"""Those that print a protocol, a text or a screen, or are one step that says what it did."""
LOOK = "to look for the cause: mcpx doctor"
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is full")


def sections_of(text):
    return [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and line[0] != " "]


def test_the_help_is_ordered_by_task(tmp_path):
    common, text = run_cli(tmp_path, "--help").stdout, run_cli(tmp_path, "help", "--all").stdout
    assert sections_of(common) == [*COMMON]
    assert sections_of(text) == ["Options", *COMMANDS]
    assert text.index("\n  exec ") < text.index("\n  check ") < text.index("\n  serve ")
    for words in (("--help", "--all"), ("--all", "--help")):
        assert run_cli(tmp_path, *words).stdout == text


def test_the_help_fits_a_window_of_usual_size_with_the_next_prompt(tmp_path):
    with Terminal("-m", "mcpx", "--help", env=environment(tmp_path)) as terminal:
        assert terminal.end() == 0
        lines = terminal.written.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    names = {name for lines in COMMON.values() for line in lines for name in line.split()}
    assert names <= {name for known in COMMANDS.values() for name in known} - HIDDEN


def test_the_table_says_of_each_command_what_the_command_says_of_itself():
    context = click.Context(cli)
    for name, (_, text) in {
        name: each for known in COMMANDS.values() for name, each in known.items()
    }.items():
        command = cli.get_command(context, name)
        assert name in HIDDEN or (command.name, command.short_help, command.hidden) == (name, text, False)


def test_every_other_command_reports_in_json_too():
    assert ", ".join(sorted(without_json(cli, []))) == NO_JSON


def without_json(command, words):
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from without_json(command.get_command(context, name), [*words, name])
    elif not any("--json" in each.opts for each in command.params):
        yield " ".join(words)


@pytest.mark.parametrize(
    ("code", "words", "end"),
    [
        ("unknown_server", ["exec"], "Said; to see the servers: mcpx status"),
        ("unknown_tool", ["exec"], "Said; to see what there is: mcpx inspect s"),
        ("unknown_resource", ["resources"], "Said; to see what there is: mcpx resources s"),
        ("upstream_error", ["prompts"], "Said; to see what there is: mcpx prompts s"),
        ("upstream_error", ["exec", "--config", "a b"], "Said; its state: mcpx status s --config 'a b'"),
        ("timeout", [], "Said; its state: mcpx status s"),
    ],
)
def test_an_error_of_a_call_ends_with_its_cure(code, words, end):
    assert with_cure("Said.", CallError(Code(code), "Said.", server="s"), words) == end


def test_an_error_of_words_is_cured_by_others(tmp_path):
    config = tmp_path / "c.json"
    config.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}')
    for words, said in (
        (
            ["rename", "a", "b"],
            "b is the name of a server already; nothing was changed; all names: mcpx status",
        ),
        (["login", "a"], "a program on this computer; for those that need one: mcpx login --all --config"),
        (["token", "new", "../x"], "another: mcpx token new NAME"),
        (["add", "a", "ftp://x"], "ftp://x: a server has a URL that begins with http:// or https://"),
        (["add", "a", "-t", "http", "y"], "y: for transport http, a server has a URL that begins with"),
    ):
        done = run_cli(tmp_path, *words, "--config", str(config))
        assert done.returncode == (2 if words[0] == "add" else 1), done.stderr
        assert said in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["version"]])
def test_help_imports_no_command(words):
    program = (
        "import sys; from mcpx.cli.main import cli; cli.main(sys.argv[1:], standalone_mode=False);"
        "print(*(name for name in sys.modules if name.startswith('mcpx.cli.') and name.count('.') > 2))"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_help_and_version_are_commands_too(tmp_path):
    assert run_cli(tmp_path, "version").stdout == run_cli(tmp_path, "--version").stdout
    assert __version__ in run_cli(tmp_path, "version").stdout
    told = json.loads(run_cli(tmp_path, "version", "--json").stdout)
    assert told["version"] == __version__
    assert told["path"] == str(Path(mcpx.__file__).parent)
    assert (told["sdk"], told["daemon"]) == (version("mcp"), None)
    assert run_cli(tmp_path, "help").stdout == run_cli(tmp_path, "--help").stdout
    for command in (["exec"], ["daemon"], ["daemon", "start"], ["attach"]):
        asked, given = run_cli(tmp_path, "help", *command), run_cli(tmp_path, *command, "--help")
        assert asked.returncode == 0
        assert asked.stdout == given.stdout


@pytest.mark.parametrize(
    "words", [["sttaus"], ["help", "sttaus"], ["daemon", "sttaus"], ["help", "daemon", "sttaus"]]
)
def test_an_unknown_command_is_told_the_nearest(tmp_path, words):
    done = run_cli(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such command: sttaus; did you mean status?" in done.stderr


def test_an_unknown_command_like_no_other_is_told_where_all_are(tmp_path):
    for words, said in (
        (["qqq"], "mcpx help --all lists them"),
        (["daemon", "qqq"], "mcpx daemon --help lists"),
    ):
        assert f"no such command: qqq; {said}" in run_cli(tmp_path, *words).stderr


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("OSError(28, 'No space left on device', '/x/state')", "/x/state: No space left on device"),
        ("PermissionError(13, 'Permission denied', '/x')", "/x: Permission denied"),
        (
            "ExceptionGroup('g', [ExceptionGroup('h', [OSError(30, 'Read-only file system')])])",
            "Read-only file system",
        ),
    ],
)
def test_what_the_system_refuses_is_a_sentence(error, text):
    command = [sys.executable, "-c", FAILING.format(error), "check", "x.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"mcpx: {text}; {LOOK}\n")


def test_an_error_is_json_for_those_who_asked_for_it(tmp_path):
    done = run_cli(tmp_path, "cluster", "status", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == done.stderr.removeprefix("mcpx: ").rstrip()
    wrong = run_cli(tmp_path, "status", "--json", "--wtach")
    assert wrong.returncode == 2
    assert "--wtach" in json.loads(wrong.stdout)["error"]


@needs_full
def test_a_full_disk_under_standard_output_is_a_sentence(tmp_path):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "mcpx", "help"]
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=50,
            check=False,
            env=environment(tmp_path),
        )
    assert (done.returncode, done.stderr) == (1, f"mcpx: No space left on device; {LOOK}\n")


def test_a_reader_that_leaves_costs_no_words(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "mcpx", "config", "schema"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    ) as running:
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(20) == 1


@pytest.fixture
def log(tmp_path):
    """A log file of the server `s`, and the configuration that names it."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"mcpServers": {"s": {"command": "x"}}}))
    path = server_log_path("s", configuration_folder(config, tmp_path / "state"))
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text("first words\n")
    return config


def test_ctrl_c_is_silent_and_130(tmp_path, log):
    command = ("-m", "mcpx", "logs", "s", "-f", "--config", str(log))
    with Terminal(*command, env=environment(tmp_path)) as terminal:
        end = terminal.wait_for("first words\n")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert terminal.written[end:] == "^C\n"


def test_an_interruption_without_a_terminal_says_nothing_at_all(tmp_path, log):
    command = [sys.executable, "-m", "mcpx", "logs", "s", "-f", "--config", str(log)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    heeds = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - workers of xdist ignore it
    with subprocess.Popen(command, env=environment(tmp_path), preexec_fn=heeds, **pipes) as running:  # noqa: PLW1509
        assert running.stdout.readline() == b"first words\n"
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=50) == (b"", b"")
        assert running.returncode == 130


def test_no_color_means_no_style_at_all(tmp_path):
    prints = "console().print(Text('bold', 'bold red')); echo('red', fg='red')"
    command = "-c", f"from mcpx.cli.printing import console, echo; from rich.text import Text; {prints}"
    with Terminal(*command, env=environment(tmp_path, NO_COLOR="1")) as terminal:
        assert terminal.end() == 0
        assert terminal.written == "bold\nred\n"
    with Terminal(*command, env=environment(tmp_path)) as terminal:
        terminal.end()
        assert terminal.written.count("\x1b[") == 4

"""`exec`, `prompts` and `resources` through a daemon, of a server that reports progress and gives images."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcpx.scripted import entry
from tests.mcpx.serving import environment, run_cli, write_config
from tests.mcpx.terminal import Terminal

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
EMBEDDED = {"type": "resource", "resource": {"uri": "x:///a", "mimeType": "text/css", "text": "a {}"}}
HELLO = {"role": "user", "content": {"type": "text", "text": "Hello, @{given.who}"}}
UNTIL = {"type": "object", "properties": {"until": {"type": "string"}}, "required": ["until"]}
WORKING = entry(
    offers={
        "tools": [{"name": "work", "inputSchema": UNTIL}, "show"],
        "prompts": [
            {"name": "greet", "description": "Says hello.", "arguments": [{"name": "who", "required": True}]}
        ],
        "resources": [],
        "resourceTemplates": [{"uriTemplate": "x:///{id}", "name": "thing"}],
    },
    answers={
        "tools/call work": [
            {"progress": {"progress": 1, "total": 4, "message": "first step"}},
            {"progress": {"progress": 2, "total": 4, "message": "second step"}},
            {"until": "@{given.until}"},
            {"say": "worked"},
        ],
        "tools/call show": {"content": [{"type": "text", "text": "see:"}, IMAGE, IMAGE, EMBEDDED]},
        "prompts/get greet": {"messages": [HELLO]},
    },
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a daemon, which is stopped in the end."""
    folder = tmp_path_factory.mktemp("home")
    config = write_config(folder, {"p": WORKING})
    assert run_cli(folder, "daemon", "start", "--config", config).returncode == 0
    yield folder
    assert run_cli(folder, "daemon", "stop", "--config", config).returncode == 0


@pytest.fixture
def run(home):
    def run(*arguments: str, **more: str):
        return run_cli(home, *arguments, MCPX_CONFIG=str(home / "config.json"), **more)

    return run


def test_progress_is_shown_while_a_tool_runs_and_gone_afterwards(home, tmp_path):
    until = tmp_path / "until"
    command = ("-m", "mcpx", "exec", "p", "work", f"until={until}", "--config", str(home / "config.json"))
    with Terminal(*command, env=environment(home), stdout=subprocess.PIPE) as terminal:
        terminal.wait_for("p work  2/4 (50 %) second step  ")
        until.touch()
        assert terminal.end() == 0
        assert terminal.written.endswith("\r\x1b[K")
        assert terminal.process.stdout.read() == b"worked\n"


def test_without_a_terminal_there_is_no_progress(run, tmp_path):
    (tmp_path / "until").touch()
    done = run("exec", "p", "work", f"until={tmp_path}/until")
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")


def test_a_misspelt_argument_is_told_the_nearest_and_nothing_is_sent(run):
    done = run("exec", "p", "work", "untill=x")
    assert (done.returncode, done.stdout) == (1, "")
    assert "$.untill: there is no such parameter; did you mean until?" in done.stderr
    assert "until: string" in done.stderr


def test_media_are_saved_as_files_of_their_kind(run, tmp_path):
    done = run("exec", "p", "show", "--out", f"{tmp_path}/")
    assert (done.returncode, done.stdout) == (0, "see:\n")
    assert (tmp_path / "show.png").read_bytes() == (tmp_path / "show-2.png").read_bytes() == PNG
    assert (tmp_path / "show-3.css").read_text() == "a {}"
    assert f"wrote {tmp_path}/show.png (image/png, 8 bytes)" in done.stderr


def test_media_are_saved_under_the_name_that_is_given(run, tmp_path):
    done = run("exec", "p", "show", "--out", str(tmp_path / "x.png"), "--json")
    assert done.returncode == 0
    assert [Path(each["file"]).name for each in json.loads(done.stdout)["saved"]] == [
        "x.png",
        "x-2.png",
        "x-3.png",
    ]
    assert "name a file or a folder" in run("exec", "p", "show", "--out", "-").stderr


def test_a_text_is_saved_as_it_is(run, tmp_path):
    (tmp_path / "until").touch()
    out = tmp_path / "out.txt"
    assert run("exec", "p", "work", f"until={tmp_path}/until", "--out", str(out)).returncode == 0
    assert out.read_text() == "worked"
    assert run("exec", "p", "work", f"until={tmp_path}/until", "--out", "-").stdout == "worked"
    done = run("exec", "p", "work", f"until={tmp_path}/until", "--out", "/no/such/folder/x")
    assert (done.returncode, done.stderr) == (1, "mcpx: /no/such/folder/x: No such file or directory\n")


def test_arguments_come_from_standard_input(home, tmp_path):
    (tmp_path / "until").touch()
    done = subprocess.run(
        [sys.executable, "-m", "mcpx", "exec", "p", "work", "-", "--config", str(home / "config.json")],
        input=json.dumps({"until": str(tmp_path / "until")}),
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")


def test_prompts_are_listed_and_got(run):
    assert run("prompts").stdout == "p  greet(who)  Says hello.\n"
    assert json.loads(run("prompts", "p", "--json").stdout)["p"][0]["name"] == "greet"
    assert run("prompts", "p", "greet", "who=Ada").stdout == "user:\nHello, Ada\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["gret", "who=x"], "p has no prompt 'gret'; did you mean greet?"),
        (["greet"], "prompt greet of p: who is missing; nothing was sent"),
        (["greet", "whoo=x"], "it takes no 'whoo'; did you mean who?"),
    ],
)
def test_a_prompt_that_is_asked_for_in_a_wrong_way_is_explained(run, words, text):
    done = run("prompts", "p", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert text in done.stderr


def test_templates_are_listed_with_the_resources(run):
    assert run("resources").stdout == "p  x:///{id}  thing  (template)\n"


@pytest.mark.parametrize("command", ["serve", "attach"])
def test_what_a_program_should_start_says_so_at_a_terminal(home, command):
    with Terminal(
        "-m", "mcpx", command, env=environment(home, MCPX_CONFIG=str(home / "config.json"))
    ) as terminal:
        terminal.wait_for(f"mcpx {command} waits for an MCP client on standard input")


def test_inspect_is_for_people_and_raw_for_models(run):
    lines = run("inspect", "p").stdout.splitlines()
    assert lines == ["p  ready", "", "work(until: string)", "show()"]
    assert "tools[2]" in run("inspect", "p", "--raw").stdout

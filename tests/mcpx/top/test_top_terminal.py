"""`mcpx top` on a real terminal: servers and daemons that go and come back, signals, keys, colours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mcpx.scripted import SERVER
from tests.mcpx.serving import environment, run_cli, write_config
from tests.mcpx.terminal import CTRL_C, CTRL_Z, Terminal

SCRIPTED = {"command": sys.executable, "args": ["-S", "-E", str(SERVER), "{}"]}
LEFT = "\x1b[?1049l"


class Place:
    """A folder with a configuration of three servers, and a daemon."""

    def __init__(self, folder):
        self.folder = folder
        broken = {"command": "no-such-command-here"}
        self.config = write_config(folder, {"one": SCRIPTED, "two": SCRIPTED, "broken": broken})

    def run(self, *arguments):
        done = run_cli(self.folder, *arguments, MCPX_CONFIG=self.config)
        assert done.returncode == 0, done
        return done.stdout

    def top(self, **more):
        given = {key: more.pop(key) for key in ("columns", "real", "stdout") if key in more}
        env = environment(self.folder, MCPX_CONFIG=self.config, **more)
        return Terminal("-m", "mcpx", "top", env=env, **given)

    def pid(self, server):
        rows = json.loads(self.run("status", "--json"))["servers"]
        return next(row["pid"] for row in rows if row["name"] == server)


@contextmanager
def served(folder):
    made = Place(folder)
    made.run("daemon", "start")
    yield made
    made.run("daemon", "stop")


@pytest.fixture
def own(tmp_path):
    """A daemon that the test may stop."""
    with served(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A daemon for all tests that only look at it."""
    with served(tmp_path_factory.mktemp("place")) as made:
        yield made


def test_a_server_dies_and_the_daemon_goes_and_returns_before_the_eyes(own):
    with own.top() as terminal:
        terminal.wait_for("3 servers, by configuration")
        terminal.wait_for("2 of 3 servers ready")
        at = terminal.wait_for("parked")
        os.kill(own.pid("one"), signal.SIGKILL)
        at = terminal.wait_for("earlier: ", after=at)
        terminal.type("r")
        at = terminal.wait_for("Restart one?", after=at)
        terminal.type("y")
        at = terminal.wait_for("restarted one: ready", after=at)
        own.run("daemon", "stop")
        at = terminal.wait_for("no daemon serves", after=at)
        own.run("daemon", "start")
        terminal.wait_for("0 of 3 servers ready", after=at)
        terminal.type("q")
        assert terminal.end() == 0
        assert LEFT in terminal.written


def test_a_server_is_switched_off_and_on_again(own):
    with own.top() as terminal:
        terminal.wait_for("3 servers, by configuration")
        terminal.type("e")
        at = terminal.wait_for("Switch one off?")
        terminal.type("y")
        at = terminal.wait_for("disabled one", after=at)
        at = terminal.wait_for("mdisabled\x1b", after=at)  # in its row
        assert json.loads(Path(own.config).read_text())["mcpServers"]["one"]["disabled"] is True
        terminal.type("e")
        at = terminal.wait_for("Switch one on?", after=at)
        terminal.type("y")
        terminal.wait_for("enabled one", after=at)
        assert "disabled" not in json.loads(Path(own.config).read_text())["mcpServers"]["one"]
        terminal.type("q")
        assert terminal.end() == 0


def test_the_log_is_shown_as_it_is_written(place):
    log = Path(place.folder / "state")
    with place.top() as terminal:
        terminal.wait_for("3 servers")
        terminal.type("l")
        terminal.wait_for("nothing yet")
        folder = Path(json.loads(place.run("status", "--json"))["daemon"]["folder"])
        assert log in folder.parents
        (folder / "logs").mkdir(exist_ok=True)
        with (folder / "logs" / "one.log").open("w") as file:
            file.write("first [red]words[/red]\n")
            file.flush()
            terminal.wait_for("first [red]words[/red]")
            file.write("then \x1b[2J these\n")
        terminal.wait_for("then \\x1b[2J these")
        terminal.type("q")
        assert terminal.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(place, number):
    with place.top() as terminal:
        terminal.wait_for("3 servers")
        terminal.process.send_signal(number)
        assert terminal.end() == 128 + number
        assert LEFT in terminal.written


def test_ctrl_c_ends_it_as_every_command(place):
    with place.top() as terminal:
        terminal.wait_for("3 servers")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.written


def test_ctrl_z_gives_the_terminal_back_until_it_is_continued(place):
    with place.top(real=True) as terminal:
        terminal.wait_for("3 servers")
        terminal.type(CTRL_Z)
        at = terminal.wait_for(LEFT)
        os.waitpid(terminal.process.pid, os.WUNTRACED)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.wait_for("3 servers", after=at)
        terminal.type("q")
        assert terminal.end() == 0


def test_a_window_that_is_closed_ends_it(place):
    terminal = place.top()
    with terminal:
        terminal.wait_for("3 servers")
        os.close(terminal._ours)
        assert terminal.process.wait(10) == 128 + signal.SIGHUP
        terminal._ours = os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"PYTHONIOENCODING": "latin-1"}, "mcpx top needs UTF-8, and the terminal is said to have iso8859-1"),
        ({"TERM": "dumb"}, "mcpx top cannot draw on this terminal (TERM=dumb); mcpx status shows"),
        (
            {"stdout": subprocess.DEVNULL},
            "mcpx top needs a terminal, and standard output is none; mcpx status",
        ),
    ],
)
def test_what_is_no_terminal_is_refused_with_what_to_do(tmp_path, more, said):
    with Place(tmp_path).top(columns=200, **more) as terminal:
        assert terminal.end() == 1
        assert said in terminal.written


def test_without_a_daemon_it_says_how_to_start_one(tmp_path):
    with Place(tmp_path).top(columns=300) as terminal:
        assert terminal.end() == 1
        assert "no daemon serves" in terminal.written
        assert "mcpx daemon start" in terminal.written
        assert LEFT not in terminal.written


@pytest.mark.parametrize(
    "more", [{"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "xterm-16color"}, {"TERM": "vt100"}]
)
def test_colours_are_those_that_the_terminal_has(place, more):
    with place.top(**more) as terminal:
        terminal.wait_for("parked")
        terminal.type("q")
        assert terminal.end() == 0
        styles = {part.partition("m")[0] for part in terminal.written.split("\x1b[")[1:] if "m" in part[:20]}
        numbers = {
            number for style in styles for number in style.split(";") if style.replace(";", "").isdigit()
        }
        assert not {"38", "48"} & numbers, "no more than the sixteen of the terminal"
        assert bool({"31", "32"} & numbers) is (more.get("NO_COLOR") != "1")

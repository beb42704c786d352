"""`mcpx login` and `mcpx logout`: signing in to servers that want a person for it.

With a daemon, it signs in; without one, this process does, for the next daemon, and nothing is started. The
browser opens here, where the person is. With `--json` each thing to say is one line of JSON.
"""

from __future__ import annotations

import codecs
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Self

import click

from mcpx.cli.asking import Control
from mcpx.cli.group import with_cure
from mcpx.cli.known_names import complete_server
from mcpx.cli.operations.ui import has_browser, open_browser
from mcpx.cli.options import ARGUMENTS, json_option, with_config
from mcpx.cli.printing import counted, echo
from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.snapshot import State
from mcpx.core.config.server_config import SCOPE
from mcpx.core.daemon.control_client import RefusedError
from mcpx.core.system.input import Mode, mode_of, read_unedited, readable, set_mode
from mcpx.core.text import one_line, shown_server
from mcpx.errors import ConfigError, MCPXError

# Lines from standard input, taken while the command waits for something else.
#
# At a terminal they may be longer than its own line editing allows (1024 bytes on macOS, 4096 on Linux):
# the addresses that browsers come back to are. Backspace, Ctrl-U and Ctrl-D work as they do there.

JOIN_TIMEOUT_S: Final = 2.0  # for a line that is being taken
_CHUNK: Final = 65536
MAX_LINE_CHARS: Final = 65536
_ERASE: Final = {"\x7f", "\b"}
_KILL: Final = "\x15"
_END: Final = "\x04"


class TypedLines:
    """Calls `take` with each line, and `ended` at the end of input, while its context is open.

    Both are called in a thread, and must not raise; `take` says whether more lines are wanted.
    """

    def __init__(self, take: Callable[[str], bool], ended: Callable[[], None], prompt: str = "") -> None:
        self._take = take
        self._ended = ended
        self._prompt = prompt
        self._fd = sys.stdin.fileno()
        self._mode: Mode | None = None
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._run, name="typed lines", daemon=True)
        self._line = ""
        self._before: Any = signal.SIG_DFL

    def __enter__(self) -> Self:
        if os.isatty(self._fd):
            self._mode = mode_of(self._fd)
            self._before = signal.signal(signal.SIGTERM, self._end_at_once)
            read_unedited(self._fd)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._stopped)
        self._thread.join(JOIN_TIMEOUT_S)
        os.close(self._stop)
        if self._mode is not None:
            set_mode(self._fd, self._mode)
            signal.signal(signal.SIGTERM, self._before)
            self._show("\n")

    def _end_at_once(self, number: int, _frame: object) -> None:
        """End by a signal as without this, with the terminal as it was."""
        if self._mode is not None:
            set_mode(self._fd, self._mode)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def _run(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        take_in = self._key if self._mode else self._character
        self._show(self._prompt)
        while self._stop not in (ready := readable([self._fd, self._stop])):
            chunk = os.read(self._fd, _CHUNK) if ready else b""
            if not all(map(take_in, decode(chunk) if chunk else "\n")):
                return
            if not chunk:
                self._ended()
                return

    def _character(self, character: str) -> bool:
        """Take in a character; whether more are wanted."""
        if character not in "\r\n":
            self._line = (self._line + character)[:MAX_LINE_CHARS]
            return True
        line, self._line = self._line.strip(), ""
        if line and not self._take(line):
            return False
        self._show(self._prompt)
        return True

    def _key(self, key: str) -> bool:
        """Take in a key of a terminal, and show what it does; whether more are wanted."""
        if key == _END and not self._line:
            self._ended()
            return False
        if key in _ERASE or key == _KILL:
            gone = len(self._line) if key == _KILL else min(1, len(self._line))
            self._line = self._line[: len(self._line) - gone]
            self._show("\b \b" * gone)
        elif key in "\r\n" or key.isprintable():
            self._show("\n" if key in "\r\n" else key)
            return self._character(key)
        return True

    def _show(self, text: str) -> None:
        if self._mode is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


PROMPT: Final = "address: "
Answer = Callable[[str], None]
"""Takes the address that the browser came back to; raises `MCPXError` where it cannot be that."""


@click.command(short_help="Sign in to a server.")
@click.argument("name", required=False, shell_complete=complete_server)
@click.option("--all", "of_all", is_flag=True, help="Sign in to each server that needs it, one by one.")
@click.option("--no-browser", is_flag=True, help="Open none; the address that yours ends at can be pasted.")
@click.option("--scopes", metavar="SCOPES", help="Ask for these, separated by spaces.")
@click.option("--timeout", type=click.FloatRange(1, 86_400), metavar="S", help="Seconds that you may take.")
@with_config
@json_option
def login(
    *,
    name: str | None,
    of_all: bool,
    no_browser: bool,
    scopes: str | None,
    timeout: float | None,
    config_path: str | None,
    as_json: bool,
) -> None:
    """Sign in to the server NAME in your browser. MCPX keeps the sign-in fresh from then on.

    If the browser is on another computer, use --no-browser, open the address there, and paste the address at
    which it ends, even if the browser shows an error.
    """
    if of_all == (name is not None):
        raise click.UsageError("name one server, or --all")
    if of_all and scopes:
        raise click.UsageError("--scopes are for one server: name it")
    words = (scopes or "").split()
    if not all(map(SCOPE.fullmatch, words)):
        raise click.BadParameter("expected scopes without odd characters", param_hint="--scopes")
    request: JSON = {"mcpx": "login", "scopes": words, "timeout": timeout}
    control = Control(config_path)
    names = [name] if name is not None else control.ask({"mcpx": "login"})["needed"]
    if not names and not as_json:
        echo("no server needs a sign-in", err=True)
    failed = False
    for each in names:
        asked = {**request, "server": each}
        failed |= not _sign_in(control, asked, no_browser=no_browser, as_json=as_json)
    sys.exit(1 if failed else 0)


@click.command(short_help="Sign out of a server.")
@click.argument("name", required=False, shell_complete=complete_server)
@click.option("--all", "of_all", is_flag=True, help="Sign out of every server.")
@with_config
@json_option
def logout(*, name: str | None, of_all: bool, config_path: str | None, as_json: bool) -> None:
    """Sign out of the server NAME: revoke MCPX's tokens if possible, and remove them."""
    if of_all == (name is not None):
        raise click.UsageError("name one server, or --all")
    control = Control(config_path)
    names = [name] if name is not None else control.ask({"mcpx": "logout"})["signed_in"]
    if not names and not as_json:
        echo("you are signed in to no server", err=True)
    failed = False
    for each in names:
        with _failures(each, as_json=as_json) as failures:
            done = control.ask({"mcpx": "logout", "server": each})
            if as_json:
                _print(done)
            else:
                what = "signed out of" if done["signed_out"] else "you were not signed in to"
                echo(f"{what} {shown_server(each)}")
        failed |= bool(failures)
    sys.exit(1 if failed else 0)


def _sign_in(control: Control, request: JSON, *, no_browser: bool, as_json: bool) -> bool:
    """Sign in to one server, and say what came of it; whether that was good."""
    name = request["server"]

    def answer(address: str) -> None:
        control.ask({"mcpx": "login_answer", "server": name, "address": address})

    done: JSON | None = None
    with _failures(name, as_json=as_json) as failures:
        with _Person(answer, no_browser=no_browser, as_json=as_json) as person:
            done = control.ask(request, person.report)
        if as_json:
            _print(done)
        else:
            _show_result(name, done)
    return not failures and (done or {}).get("state") != State.NEEDS_SIGN_IN


class _Person:
    """Shows the person the address to open, and takes back the one that their browser ends at."""

    def __init__(self, answer: Answer, *, no_browser: bool, as_json: bool) -> None:
        self._answer = answer
        self._no_browser = no_browser
        self._as_json = as_json
        self._stack = ExitStack()
        self._failure: MCPXError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def report(self, step: JSON) -> None:
        """Take in a report of the sign-in, which comes with the address; others are empty.

        Raises:
            MCPXError: What was pasted cannot be the address, and nobody is there to be asked again.
        """
        if self._failure is not None:
            raise self._failure
        if "url" not in step:
            return
        url, name = step["url"], shown_server(step["server"])
        opens = not self._no_browser and has_browser()
        if self._as_json:
            about = {key: step[key] for key in ("server", "url", "redirect_uri")}
            _print(about | ({"note": step["note"]} if step.get("note") else {}))
        elif opens:
            echo(f"your browser opens, to sign in to {name}; if it does not, open this address:", err=True)
        else:
            why = "" if self._no_browser else " (there is no browser here)"
            echo(f"to sign in to {name}, open this address in a browser{why}:", err=True)
        if not self._as_json:
            echo(url)
            if step.get("note"):
                echo(one_line(step["note"]), err=True, fg="yellow")
        sys.stdout.flush()
        if opens:
            open_browser(step.get("opening_url") or url)
        elif sys.stdin is not None and not sys.stdin.closed:
            self._take_lines(step["redirect_uri"])

    def _take_lines(self, redirect_uri: str) -> None:
        prompt = ""
        if sys.stdin.isatty() and not self._as_json:
            prompt = PROMPT
            echo(f"It ends at {redirect_uri}. If that shows an error, paste its address here:", err=True)
        self._stack.enter_context(TypedLines(self._take, self._input_ended, prompt))

    def _take(self, line: str) -> bool:
        """Hand on what was pasted, in a thread of its own; whether another try is wanted."""
        try:
            self._answer(line)
        except MCPXError as error:
            if sys.stdin.isatty():
                echo(f"mcpx: {one_line(str(error))}", err=True, fg="red")
                return True
            self._failure = error
        return False

    def _input_ended(self) -> None:
        if sys.stdin.isatty() and not self._as_json:
            echo("\nwaiting for the browser; Ctrl-C ends that", err=True)


@contextmanager
def _failures(name: str, *, as_json: bool) -> Iterator[list[MCPXError]]:
    """Say what goes wrong with one server, so that the next can have its turn."""
    failures: list[MCPXError] = []
    try:
        yield failures
    except ConfigError:
        raise
    except MCPXError as error:
        failures.append(error)
        if as_json:
            _print({"server": name, "error": str(error), **_problem(error)})
        else:
            text = with_cure(one_line(str(error)), error, click.get_current_context().meta[ARGUMENTS])
            echo(f"mcpx: {text}", err=True, fg="red")


def _problem(error: MCPXError) -> JSON:
    """The kind of a failure, where it has one: that of a sign-in, or the code of another."""
    if isinstance(error, RefusedError):
        return {key: error.response[key] for key in ("problem", "code") if key in error.response}
    problem = getattr(error, "problem", None) or getattr(error, "code", None)
    return {} if problem is None else {"problem": str(problem)}


def _show_result(name: str, done: JSON) -> None:
    state = done.get("described")
    to = f"{shown_server(name)} as {one_line(done['account'])}" if done.get("account") else shown_server(name)
    if state is None:
        echo(f"signed in to {to}", fg="green")
    elif done["state"] in {State.READY, State.ASLEEP}:
        echo(f"signed in to {to}: {counted(done['tools'], 'tool')}", fg="green")
    elif done["state"] == State.NEEDS_SIGN_IN:
        echo(f"signed in to {to}, but that does not suffice: {one_line(state)}", fg="yellow")
    else:
        echo(f"signed in to {to}; it is {one_line(state)}", fg="yellow")


def _print(value: JSON) -> None:
    """Print one line of JSON, for a program that waits for it."""
    echo(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()

"""What the login shell is asked, and what its start-up files may do."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from mcpx.core.running import Environment, login_shell, person
from mcpx.core.running.login_shell import RESOLVING, Answer, ask, find_login_shell
from tests.mcpx.core.daemon.daemons import processes, until

SH = "/bin/sh"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(login_shell, "INTERACTIVE_TIMEOUT_S", 3.0)
    monkeypatch.setattr(login_shell, "LOGIN_TIMEOUT_S", 3.0)
    return tmp_path


def profile(home: Path, *lines: str) -> None:
    (home / ".profile").write_text("\n".join(lines) + "\n")


def answered(home: Path, **environ: str) -> Answer:
    shell = find_login_shell({"HOME": str(home), "SHELL": SH, **environ})
    assert shell is not None
    answers: list[Answer] = []
    ask(shell, answers.append)
    (answer,) = answers
    return answer


def test_its_variables_come_out_whatever_is_printed_around_them(home):
    profile(home, "echo welcome; echo X=wrong", 'export X="two\nlines = 2" EMPTY= PATH="$HOME/bin:$PATH"')
    found = answered(home, X="the starter's", SECRET_OF_STARTER="s")
    assert found.problem is None
    assert (found.variables["X"], found.variables["EMPTY"]) == ("two\nlines = 2", "")
    assert found.variables["PATH"].startswith(f"{home}/bin:/")
    assert not {"SECRET_OF_STARTER", RESOLVING, "_", "PWD", "SHLVL", "TERM"} & set(found.variables)


def test_it_is_interactive_and_knows_that_it_is_asked(home):
    profile(home, f'case $- in *i*) export KIND="interactive $TERM ${RESOLVING}";; esac')
    assert answered(home).variables["KIND"] == "interactive dumb 1"


@pytest.mark.parametrize(
    "line",
    ["exec cat", "exit 3", "kill -9 $$", "read answer; exit 1", "while :; do echo flood; done", "sleep 1000"],
)
def test_what_spoils_it_where_it_is_interactive_leaves_the_login_alone(home, monkeypatch, line):
    monkeypatch.setattr(login_shell, "INTERACTIVE_TIMEOUT_S", 0.5)
    profile(home, f"case $- in *i*) {line};; esac", "export X=1")
    assert answered(home).variables["X"] == "1"


@pytest.mark.anyio
async def test_one_that_hangs_is_given_up_and_killed_with_what_it_runs(home, monkeypatch):
    monkeypatch.setattr(login_shell, "INTERACTIVE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(login_shell, "LOGIN_TIMEOUT_S", 0.2)
    profile(home, f"sleep 1000.{os.getpid()}")
    assert answered(home) == Answer({}, f"{SH} did not answer within 0.2 s")
    await until(lambda: not processes(f"1000.{os.getpid()}"))


def test_one_that_cannot_run_says_so(home):
    found = answered(home, SHELL=str(home / "nosh"))
    assert found.problem == f"{home}/nosh cannot be run: No such file or directory"


def test_the_password_database_says_what_the_starter_does_not():
    shell, entry = find_login_shell({}), pwd.getpwuid(os.getuid())
    if shell is not None:
        given = dict(shell.environ)
        assert (shell.path, given["HOME"], given["USER"]) == (entry.pw_shell, entry.pw_dir, entry.pw_name)


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false"])
def test_an_account_without_a_shell_is_not_asked(shell):
    assert find_login_shell({"SHELL": shell}) is None
    assert person({"SHELL": shell, "A": "1"}).variables == {"SHELL": shell, "A": "1"}


def test_what_belongs_to_the_session_is_passed_on_and_nothing_else():
    starter = {"SHELL": SH, "HOME": "/h", "SSH_AUTH_SOCK": "/s", "XDG_RUNTIME_DIR": "/r", "LC_ALL": "C"}
    one, other = (
        find_login_shell(starter),
        find_login_shell({**starter, "PATH": "/mine", "VIRTUAL_ENV": "/v"}),
    )
    assert one == other
    assert {"SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "LC_ALL"} <= set(dict(one.environ))


# --- the person


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "SHELL": SH, "PATH": "/usr/bin:/starter::/bin", **more}


def test_the_login_shell_counts_and_then_what_the_starter_has_beyond_it(home):
    profile(home, "export PATH=/login:/usr/bin X=login")
    found = person(environ(home, X="starter", Y="starter"))
    assert (found.variables["X"], found.variables["Y"]) == ("login", "starter")
    assert found.path == "/login:/usr/bin:/starter:/bin"
    assert (found.source, found.problem, found.shell) == (f"the login shell {SH}", None, SH)


def test_it_is_asked_once_and_anew_on_request(home):
    profile(home, "export X=1", 'echo asked >> "$HOME/asked"')
    assert person(environ(home)).variables["X"] == "1"
    profile(home, "export X=2", 'echo asked >> "$HOME/asked"')
    assert person(environ(home)).variables["X"] == "1"
    assert person(environ(home), anew=True).variables["X"] == "2"
    assert person(environ(home)).variables["X"] == "2"
    assert (home / "asked").read_text() == "asked\n" * 2


def test_it_is_not_asked_where_that_is_turned_off(home):
    profile(home, "export X=1")
    found = person(environ(home), login_shell=False)
    assert "X" not in found.variables
    assert found.source == "the program that started MCPX"


def test_where_it_fails_the_starter_counts_and_the_source_says_so(home):
    profile(home, "exit 1")
    found = person(environ(home))
    assert found.path == "/usr/bin:/starter::/bin"
    problem = f"{SH} ended without printing its variables"
    assert found.problem == problem
    assert found.source == f"the program that started MCPX; the login shell {problem}"


def test_a_command_is_found_on_the_path_or_where_it_says(home):
    program = home / "bin" / "tool"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = Environment({"PATH": f"/nowhere:{home}/bin"})
    assert found.find("tool") == str(program)
    assert found.find("tool", path="/nowhere") is None
    assert found.find("./tool", folder=str(program.parent)) == f"{home}/bin/./tool"
    assert found.find(str(program)) == str(program)
    program.chmod(0o644)
    assert found.find("tool") is None

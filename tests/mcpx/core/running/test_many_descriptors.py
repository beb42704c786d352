"""With more than 1,100 open descriptors, a shell and a secret answer; no program outlives its question."""

from __future__ import annotations

import os
import resource
import sys
import threading

import pytest

from mcpx.core.running import Environment, bounded, person, secrets
from mcpx.core.running.login_shell import Answer, ask, find_login_shell
from mcpx.core.running.secrets import Reference, SecretProblem, fetch, secret
from mcpx.core.system.input import readable
from mcpx.setup.doctor import probe
from tests.mcpx.core.daemon.daemons import processes, until

MANY = 1100
PERSON = sys.modules["mcpx.core.running.person"]  # the package has a function of that name


@pytest.fixture
def _crowded():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]
    yield
    for each in opened:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", {})
    monkeypatch.setattr(PERSON, "_asked", {})


@pytest.fixture
def environ(tmp_path):
    (tmp_path / ".profile").write_text("export OF_LOGIN=1\n")
    return {"HOME": str(tmp_path), "SHELL": "/bin/sh", "PATH": os.environ["PATH"]}


@pytest.mark.usefixtures("_crowded")
def test_the_login_shell_answers(environ):
    assert person(environ, anew=True).variables["OF_LOGIN"] == "1"


@pytest.mark.usefixtures("_crowded")
def test_a_command_gives_its_secret(environ):
    reference = Reference("cmd", "echo secret")
    fetch([reference], Environment(environ))
    assert secret(reference) == "secret"


@pytest.mark.usefixtures("_crowded")
def test_the_doctor_reads_what_a_server_says(environ):
    answer = probe.ask(
        [sys.executable, "-c", "raise SystemExit('no such thing')"], environ, client="t", within_s=20
    )
    assert answer.problem is not None
    assert "no such thing" in answer.problem


@pytest.mark.anyio
async def test_a_program_ends_whatever_happens_while_it_is_read(environ, monkeypatch):
    def fail(*_args, **_more):
        raise MemoryError

    monkeypatch.setattr(bounded, "readable", fail)
    reference = Reference("cmd", f"sleep 1000.{os.getpid()}; echo")
    with pytest.raises(MemoryError):
        fetch([reference], Environment(environ))
    await until(lambda: not processes(f"1000.{os.getpid()}"))


@pytest.mark.parametrize("error", [MemoryError("no memory"), ValueError("bad"), RuntimeError("odd")])
def test_a_shell_that_cannot_be_read_is_a_problem_and_no_exception(environ, monkeypatch, error):
    def fail(*_args, **_more):
        raise error

    monkeypatch.setattr(bounded, "readable", fail)
    answers: list[Answer] = []
    shell = find_login_shell(environ)
    assert shell is not None
    ask(shell, answers.append)
    (answer,) = answers
    assert str(error) in (answer.problem or "")


def test_a_shell_that_nobody_hears_of_again_is_waited_for_within_its_limit(environ, monkeypatch):
    monkeypatch.setattr(PERSON, "ask", lambda _shell, _answered: None)
    monkeypatch.setattr(PERSON, "ANSWER_TIMEOUT_S", 0.01)
    assert person(environ).problem == "/bin/sh has not answered"


def test_no_thread_to_ask_in_is_a_problem_of_the_shell(environ, monkeypatch):
    def refuse(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert person(environ).problem == "/bin/sh cannot be asked: can't start new thread"


def test_a_command_with_a_null_character_cannot_be_run(environ):
    reference = Reference("cmd", "echo \0")
    fetch([reference], Environment(environ))
    with pytest.raises(SecretProblem, match="cannot be run: embedded null byte"):
        secret(reference)


def test_what_is_waited_for_may_be_at_its_end_or_closed():
    reader, writer = os.pipe()
    assert readable([reader], 0.0) == []
    os.close(writer)
    assert readable([reader]) == [reader]
    os.close(reader)
    with pytest.raises(OSError, match="is closed"):
        readable([reader], 0.0)

"""Secrets of commands and of the keychain: each fetched once, bounded, and in no error."""

from __future__ import annotations

import os
import threading
import time

import pytest

from mcpx.core.running import Environment, secrets
from mcpx.core.running.secrets import Reference, SecretProblem, fetch, secret, shown
from tests.mcpx.core.daemon.daemons import processes, until


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", {})


@pytest.fixture
def environment(tmp_path):
    return Environment({"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TOKEN": "t"})


def had(command: str, environment: Environment) -> str:
    reference = Reference("cmd", command)
    fetch([reference], environment)
    return secret(reference)


def test_a_command_has_the_variables_of_the_person_and_its_line_end_is_no_secret(environment):
    assert had('printf "%s\\n\\n" "$TOKEN of $HOME"', environment) == f"t of {environment.variables['HOME']}"
    assert had("pwd; cat", environment) == environment.variables["HOME"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("echo hidden; exit 4", "ended with exit code 4"),
        ("echo hidden >&2", "printed nothing that can be used"),
        ("printf 'hid\\0den'", "printed nothing that can be used"),
        ("yes hidden", "prints too much"),
        ("echo hidden; kill -9 $$", "ended with exit code -9"),
    ],
)
def test_one_that_fails_is_named_by_its_program_and_shows_nothing(environment, command, problem):
    with pytest.raises(SecretProblem) as failure:
        had(command, environment)
    assert problem in str(failure.value)
    assert str(failure.value).startswith(f'the command "{command.split()[0]} ..."')
    assert "hidden" not in str(failure.value)


@pytest.mark.anyio
async def test_one_that_hangs_is_killed_with_what_it_runs(environment, monkeypatch):
    monkeypatch.setattr(secrets, "TIMEOUT_S", 0.2)
    with pytest.raises(SecretProblem, match="did not answer within"):
        had(f"sleep 1000.{os.getpid()}; echo", environment)
    await until(lambda: not processes(f"1000.{os.getpid()}"))


def test_each_is_fetched_once_also_one_that_failed(environment, tmp_path):
    good = Reference("cmd", f"echo a | tee -a {tmp_path}/ran")
    bad = Reference("cmd", f"echo b >> {tmp_path}/ran; exit 1")
    for _ in range(2):
        fetch([good, bad, good], environment)
        assert secret(good) == "a"
    fetch([good, bad], environment, anew=[bad])
    assert sorted((tmp_path / "ran").read_text().split()) == ["a", "b", "b"]


def test_what_is_fetched_anew_by_several_at_once_is_fetched_once_and_the_old_value_stands_meanwhile(
    environment, tmp_path
):
    (tmp_path / "go").touch()
    wait = f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done"
    slow = Reference("cmd", f"echo x >> {tmp_path}/ran; {wait}; wc -l < {tmp_path}/ran | tr -d ' '")
    fetch([slow], environment)
    assert secret(slow) == "1"
    (tmp_path / "go").unlink()
    again = [threading.Thread(target=lambda: fetch([slow], environment, anew=[slow])) for _ in range(4)]
    for each in again:
        each.start()
    while len((tmp_path / "ran").read_text().split()) < 2:
        time.sleep(0.005)
    assert secret(slow) == "1"
    (tmp_path / "go").touch()
    for each in again:
        each.join()
    assert secret(slow) == "2"


def test_one_is_shown_as_it_is_named_without_arguments_of_a_command():
    assert shown(Reference("keychain", "A B")) == "${keychain:A B}"
    assert shown(Reference("cmd", "gcloud auth print --key=secret")) == "${cmd:gcloud ...}"
    assert shown(Reference("cmd", "token")) == "${cmd:token}"


def test_a_machine_without_a_keychain_says_so_and_what_to_use(environment):
    variables = {**environment.variables, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    reference = Reference("keychain", "NAME")
    fetch([reference], Environment(variables))
    with pytest.raises(SecretProblem, match=r"no keychain that keyring can use; use env_file or \$\{cmd:"):
        secret(reference)


def test_a_name_that_the_keychain_does_not_hold_says_how_to_set_it(environment):
    variables = {**environment.variables, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    reference = Reference("keychain", "NAME")
    fetch([reference], Environment(variables))
    with pytest.raises(SecretProblem, match=r"the keychain holds no NAME$") as caught:
        secret(reference)
    assert caught.value.remedy == "mcpx secret set NAME"

"""The keychain behind `mcpx secret`: what is kept, listed, removed, and said of one that cannot be used."""

from __future__ import annotations

import io
import json
import stat
import sys
from datetime import UTC, datetime, timedelta

import keyring
import keyring.errors
import pytest
from click.testing import CliRunner
from keyring.backend import KeyringBackend

from mcpx.cli.main import cli
from mcpx.core.running import keychain
from mcpx.core.running.keychain import KeychainError


class InMemory(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.failure: Exception | None = None

    def get_password(self, service, username):
        if self.failure is not None:
            raise self.failure
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        if self.failure is not None:
            raise self.failure
        self.kept[service, username] = password

    def delete_password(self, service, username):
        del self.kept[service, username]


@pytest.fixture
def backend(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    before = keyring.get_keyring()
    made = InMemory()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def run(*arguments, value=None):
    return CliRunner().invoke(cli, ["secret", *arguments], input=value)


def names_listed():
    header, *rows = run("list").stdout.splitlines()
    assert header.split() == ["name", "set"]
    return [row.rsplit(None, 2)[0].strip() for row in rows]


def test_names_that_an_older_mcpx_has_noted_have_no_time(backend, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "secret-names.json").write_text('["OLD"]')
    assert run("list").stdout.splitlines()[1].split() == ["OLD", "-"]
    run("set", "NEW", value="x")
    assert list(keychain.names()) == ["NEW", "OLD"]


def test_a_secret_is_set_from_standard_input_listed_by_name_and_removed(backend, tmp_path):
    done = run("set", "GITHUB", value="token-of-mine\n")
    assert done.exit_code == 0, done.output
    assert backend.kept == {("mcpx", "GITHUB"): "token-of-mine"}
    assert "${keychain:GITHUB}" in done.output
    assert "token-of-mine" not in done.output
    run("set", "A B", value="two\nlines\n")
    assert backend.kept["mcpx", "A B"] == "two\nlines"
    assert names_listed() == ["A B", "GITHUB"]
    said = json.loads(run("list", "--json").stdout)
    assert (said["secrets"], list(said["set"]), said["values"]) == (["A B", "GITHUB"],) * 2 + ([],)
    age = datetime.now(UTC) - datetime.fromisoformat(said["set"]["A B"])
    assert timedelta() <= age < timedelta(minutes=2)
    (file,) = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"token" not in file.read_bytes()
    assert run("remove", "GITHUB").exit_code == 1
    assert run("remove", "GITHUB", "--dry-run").exit_code == 0
    assert ("mcpx", "GITHUB") in backend.kept
    assert run("remove", "GITHUB", "--yes").stdout == "removed GITHUB\n"
    assert list(backend.kept) == [("mcpx", "A B")]
    assert names_listed() == ["A B"]
    assert "the keychain holds no GITHUB" in run("remove", "GITHUB", "--yes").output


def test_nothing_is_not_a_secret_and_a_value_on_the_command_line_is_not_taken(backend):
    assert "the secret is empty" in run("set", "X", value="\n").output
    assert run("set", "X", "value").exit_code == 2
    assert run("set", "a}b", value="x").exit_code == 2
    assert backend.kept == {}


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (keyring.errors.NoKeyringError("x"), "this machine has no keychain"),
        (keyring.errors.KeyringLocked("x"), "the keychain is locked"),
        (RuntimeError("hidden"), r"the keychain cannot be used \(RuntimeError\)"),
    ],
)
def test_one_that_cannot_be_used_says_why_and_shows_nothing(backend, failure, told):
    backend.failure = failure
    with pytest.raises(KeychainError, match=told) as raised:
        keychain.put("X", "hidden")
    assert "hidden" not in str(raised.value)
    with pytest.raises(KeychainError, match=told):
        keychain.get("X")


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(KeychainError, match=r"mcpx-gateway\[keychain\]"):
        keychain.get("X")


def test_as_a_program_it_prints_what_was_asked_for(backend, capsys, monkeypatch):
    backend.kept["mcpx", "A"] = "1"
    request = {"do": "get", "service": "mcpx", "names": ["A", "B"]}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    keychain._main()
    assert json.loads(capsys.readouterr().out) == {"problem": "", "found": {"A": "1", "B": None}}
    backend.failure = keyring.errors.KeyringLocked("x")
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    keychain._main()
    assert json.loads(capsys.readouterr().out)["problem"] == "the keychain is locked: unlock it"

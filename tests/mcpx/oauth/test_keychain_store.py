"""The token store that is the system's keychain, with a keychain that is a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpx.core.running import Environment, put_in_force
from mcpx.core.running import keychain as keychain_program
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.token_store import TokenStore, open_store
from tests.mcpx.oauth.records import record_of

pytestmark = pytest.mark.anyio
IDENTITY = record_of().identity
KEY = f"mcpx sign-ins/{IDENTITY.key}"
ROOT = Path(__file__).parents[3]


class Keychain:
    def __init__(self, path):
        self.path = path

    @property
    def kept(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def be(self, **state):
        self.path.write_text(json.dumps(self.kept | state))


@pytest.fixture
def keychain(tmp_path, monkeypatch):
    monkeypatch.setattr(keychain_program, "_PROGRAM", (keychain_program._PROGRAM[0], "-c", PROGRAM))
    variables = {
        "HOME": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": "tests.mcpx.oauth.keychain_backend.FileKeychain",
        "MCPX_TEST_KEYCHAIN": str(tmp_path / "keychain"),
        "MCPX_TEST_ROOT": str(ROOT),
    }
    put_in_force(Environment(variables))
    return Keychain(tmp_path / "keychain")


PROGRAM = """
import os, sys
sys.path.insert(0, os.environ["MCPX_TEST_ROOT"])
from mcpx.core.running.keychain import _main
_main()
"""


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def files_with(secret, folder):
    return [each for each in folder.rglob("*") if each.is_file() and secret.encode() in each.read_bytes()]


async def test_a_record_is_in_the_keychain_and_in_no_file(keychain, state):
    store = open_store("keychain", state)
    assert (await store.read(IDENTITY), store.stamp(IDENTITY), keychain.kept) == (None, None, {})
    record = record_of()
    async with store.lock(IDENTITY):
        await store.write(record)
    assert await store.read(IDENTITY) == record
    assert "access-0001" in keychain.kept[KEY]
    assert "access-0001" not in "".join(keychain.kept["argv"])
    assert files_with("access-0001", state) == []
    async with store.lock(IDENTITY):
        await store.delete(IDENTITY)
    assert (KEY in keychain.kept, list((state / "oauth").iterdir())) == (False, [])


async def test_a_record_in_a_file_moves_to_the_keychain_when_it_is_written(keychain, state):
    await TokenStore(state).write(record_of(1))
    store = open_store("keychain", state)
    assert (await store.read(IDENTITY)).tokens.access_token == "access-0001"
    await store.write(record_of(2))
    assert files_with("access-", state) == []
    assert (await store.read(IDENTITY)).tokens.access_token == "access-0002"
    await TokenStore(state).write(record_of(3))  # and back
    assert (await store.read(IDENTITY)).tokens.access_token == "access-0003"


async def test_a_keychain_that_is_locked_is_said(keychain, state):
    store = open_store("keychain", state)
    await store.write(record_of())
    keychain.be(locked=True)
    for use in (store.read(IDENTITY), store.write(record_of(2)), store.delete(IDENTITY)):
        with pytest.raises(
            SignInError, match='is locked: unlock it; or set "token_store" to "file"'
        ) as caught:
            await use
        assert caught.value.problem is Problem.NOT_STORED


async def test_a_keychain_that_does_not_answer_is_waited_for_only_so_long(keychain, state, monkeypatch):
    store = open_store("keychain", state)
    await store.write(record_of())
    keychain.be(hangs=True)
    monkeypatch.setattr(keychain_program, "TIMEOUT_S", 0.3)
    with pytest.raises(SignInError, match="did not answer within"):
        await store.read(IDENTITY)


async def test_a_program_that_fails_is_said_without_what_it_printed(keychain, state, monkeypatch):
    monkeypatch.setattr(keychain_program, "_PROGRAM", ("/bin/sh", "-c", "cat; exit 1"))
    with pytest.raises(SignInError, match="the keychain cannot be used") as caught:
        await open_store("keychain", state).write(record_of())
    assert "access-0001" not in str(caught.value)

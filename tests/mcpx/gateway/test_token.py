"""The token file: private, made once, and the same for everybody who starts at the same time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from mcpx.gateway.token import OneToken, TokenError, load_token

RACERS = 10
RACE = """
import os, sys
from pathlib import Path
from mcpx.gateway.token import load_token

gate, opened = os.pipe()
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.close(opened)
        os.read(gate, 1)  # until the gate opens for all
        os.write(1, load_token(Path(sys.argv[1])).encode() + b"\\n")
        os._exit(0)
os.close(opened)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "state" / "token"


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_private_in_a_private_folder_whatever_the_umask(file):
    before = os.umask(0)
    try:
        made = load_token(file)
    finally:
        os.umask(before)
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert file.read_text() == made + "\n"
    assert list(file.parent.iterdir()) == [file]


def test_it_is_made_once(file):
    made = load_token(file)
    assert load_token(file) == made
    file.unlink()
    assert load_token(file) != made


def test_an_empty_file_is_filled(file):
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    made = load_token(file)
    assert len(made) >= 40
    assert load_token(file) == made


@pytest.mark.parametrize("open_to", [0o640, 0o604, 0o660, 0o777])
def test_a_file_that_others_may_read_or_write_is_refused(file, open_to):
    load_token(file)
    file.chmod(open_to)
    with pytest.raises(TokenError, match=r"others may read it .*chmod 600"):
        load_token(file)


def test_a_folder_in_its_place_says_so(file):
    file.mkdir(parents=True)
    with pytest.raises(TokenError, match="MCPX_STATE_DIR"):
        load_token(file)


def test_of_ten_that_start_at_the_same_time_all_have_the_same_token(file):
    race = [sys.executable, "-c", RACE, str(file), str(RACERS)]
    done = subprocess.run(race, capture_output=True, text=True, timeout=50, check=True)
    tokens = done.stdout.split()
    assert len(tokens) == RACERS, done.stderr
    assert len(set(tokens)) == 1
    assert tokens[0] == file.read_text().strip()
    assert len(tokens[0]) >= 40
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.anyio
async def test_the_verifier_knows_one_token():
    verifier = OneToken("right")
    assert (await verifier.verify_token("right")).client_id == "mcpx"
    for wrong in ("", "righ", "rights", "RIGHT", "ñ"):
        assert await verifier.verify_token(wrong) is None

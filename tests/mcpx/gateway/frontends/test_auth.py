"""The token file: private, made once, and the same for everybody who starts at the same time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from mcpx.gateway.frontends.auth import OneToken, TokenError, load_token

RACERS = 10
RACE = """
import os, sys
from pathlib import Path
from mcpx.gateway.frontends.auth import load_token

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
    assert [mode(path) for path in (file, *list(file.parents)[:2])] == [0o600, 0o700, 0o700]
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("whose", [65534, 1])
def test_a_file_of_another_user_is_refused(file, whose):
    load_token(file)
    file.write_text("attackers-token\n")
    os.chown(file, whose, -1)
    with pytest.raises(TokenError, match=r"token: not a file of yours; .*MCPX_STATE_DIR"):
        load_token(file)


def test_a_link_or_a_pipe_in_its_place_is_refused(file):
    load_token(file)
    elsewhere = file.rename(file.with_name("elsewhere"))
    file.symlink_to(elsewhere)
    with pytest.raises(TokenError, match="a link, and it must be a file of yours"):
        load_token(file)
    file.unlink()
    file.symlink_to("nowhere")
    with pytest.raises(TokenError, match="a link"):
        load_token(file)
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(TokenError, match="not a file of yours"):
        load_token(file)


def test_what_lies_where_the_new_one_is_written_is_not_written_through(file, tmp_path):
    file.parent.mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    file.with_name(f".token.{os.getpid()}").symlink_to(precious)
    assert load_token(file) == file.read_text().strip()
    assert precious.read_text() == "precious"


def test_what_is_no_text_is_no_token(file):
    load_token(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenError, match="not a token; remove it"):
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

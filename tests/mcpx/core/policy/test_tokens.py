"""The files of tokens: private, written whole, and the same for everybody who starts at the same time."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from mcpx.core.policy.tokens import NamedTokens, TokenError, digest_of, issue, load_named, load_token, revoke

RACERS = 10
RACE = """
import os, sys
from pathlib import Path
from mcpx.core.policy.tokens import load_token

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


def make_named(path):
    return issue("a", profile=None, expires=None, now=NOW, path=path)


@pytest.mark.parametrize("use", [load_token, make_named])
def test_a_lock_that_another_process_holds_is_not_waited_for_without_end(file, monkeypatch, use):
    monkeypatch.setattr("mcpx.core.policy.tokens.LOCK_TIMEOUT_S", 0.05)
    file.parent.mkdir(parents=True)
    with held(file.parent), pytest.raises(TokenError, match="another process has it locked; try again"):
        use(file)
    assert use(file)


@contextmanager
def held(folder):
    """A folder that is locked by another process."""
    program = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), 2); print(flush=True); input()"
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield
        other.communicate(b"\n")


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


# --- tokens with names


NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def named(tmp_path):
    return tmp_path / "state" / "tokens.json"


def make(named, name, *, now=NOW, expires=None, profile=None):
    return issue(name, profile=profile, expires=expires, now=now, path=named)


def test_of_a_token_with_a_name_only_the_hash_is_kept(named):
    secret, token = make(named, "ci", profile="work", expires=NOW + HOUR)
    assert len(secret) >= 43
    assert secret not in named.read_text()
    assert (mode(named), mode(named.parent)) == (0o600, 0o700)
    assert load_named(named) == (token,)
    assert (token.sha256, token.profile, token.expires) == (digest_of(secret), "work", NOW + HOUR)
    assert secret not in repr(token)
    assert list(named.parent.iterdir()) == [named]


def test_no_two_tokens_are_alike(named):
    assert len({make(named, f"t{number}")[0] for number in range(20)}) == 20
    assert [token.name for token in load_named(named)] == [f"t{number}" for number in range(20)]


def test_it_is_found_by_what_was_shown_and_by_nothing_else(named):
    secret, token = make(named, "ci")
    other, _ = make(named, "other")
    tokens = NamedTokens(named)
    assert tokens.find(secret, NOW) == token
    for wrong in ("", "ci", token.sha256, secret[:-1], secret + "x", secret.upper(), "\udc80", "ñ"):
        assert tokens.find(wrong, NOW) is None
    assert tokens.find(other, NOW).name == "other"


def test_what_is_made_and_revoked_elsewhere_is_seen_at_once(named):
    tokens = NamedTokens(named)
    assert tokens.current(NOW) == []
    secret, token = make(named, "ci")
    assert tokens.find(secret, NOW) == token
    assert revoke("ci", named) == token
    assert tokens.find(secret, NOW) is None
    again, _ = make(named, "ci")
    assert tokens.find(again, NOW).name == "ci"
    assert tokens.find(secret, NOW) is None
    named.unlink()
    assert tokens.find(again, NOW) is None


def test_one_that_has_expired_lets_nobody_in_and_can_be_made_again(named):
    secret, _ = make(named, "ci", expires=NOW + HOUR)
    tokens = NamedTokens(named)
    assert tokens.find(secret, NOW + HOUR - timedelta(seconds=1)) is not None
    assert tokens.find(secret, NOW + HOUR) is None
    with pytest.raises(TokenError, match="there is a token ci already; choose another name"):
        make(named, "ci")
    again, _ = make(named, "ci", now=NOW + HOUR)
    assert [token.name for token in load_named(named)] == ["ci"]
    assert tokens.find(again, NOW + HOUR) is not None


@pytest.mark.parametrize("name", ["", ".ci", "-x", "a b", "x" * 65, "a/b", "a\n", "ñ\u202e"])
def test_a_name_that_is_none_is_refused(named, name):
    with pytest.raises(TokenError, match="a token's name has up to 64 letters"):
        make(named, name)
    assert not named.exists()


def test_one_that_there_is_not_cannot_be_revoked(named):
    with pytest.raises(TokenError, match="there is no token ci; none was made"):
        revoke("ci", named)
    make(named, "other")
    with pytest.raises(TokenError, match="there is no token ci; there is other"):
        revoke("ci", named)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda file: file.chmod(0o640), "others may read it"),
        (lambda file: file.chmod(0o622), "others may read it"),
        (lambda file: file.write_text("{"), "not a list of tokens"),
        (lambda file: file.write_text('{"tokens": [{"name": "ci"}]}'), "not a list of tokens"),
        (lambda file: file.write_bytes(b"\xff"), "not a list of tokens"),
        (lambda file: file.write_text(file.read_text().replace('Z"', '"')), "not a list of tokens"),
        (lambda file: file.rename(file.with_name("x")) and file.symlink_to("x"), "a link"),
        (lambda file: (file.unlink(), os.mkfifo(file, 0o600)), "not a file of yours"),
        (lambda file: (file.unlink(), file.mkdir()), "MCPX_STATE_DIR"),
    ],
)
def test_a_file_that_cannot_be_trusted_lets_nobody_in(named, spoil, problem):
    secret, _ = make(named, "ci")
    tokens = NamedTokens(named)
    assert tokens.find(secret, NOW) is not None
    before = named.read_bytes()
    spoil(named)
    assert tokens.find(secret, NOW) is None
    assert problem in tokens.problem
    with pytest.raises(TokenError, match=problem):
        make(named, "other")
    if named.is_file():
        named.chmod(0o600)
        named.write_bytes(before)
        assert named.is_symlink() or (tokens.find(secret, NOW) is not None and tokens.problem is None)


def test_what_many_make_at_once_is_all_there(named):
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: make(named, f"t{number}"), range(24)))
    assert {token.name for token in load_named(named)} == {f"t{number}" for number in range(24)}


def test_what_could_not_be_written_changes_nothing(named, monkeypatch):
    secret, _ = make(named, "ci")

    def full(*_given, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mcpx.core.policy.tokens.replace_file", full)
    with pytest.raises(TokenError, match="No space left on device"):
        make(named, "other")
    assert NamedTokens(named).find(secret, NOW) is not None

"""`mcpx audit`: the times that it takes, and a line as people see it."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from mcpx.cli.trust.audit import MAX_PROBLEMS, shown
from mcpx.cli.trust.audit import audit as command
from mcpx.core.events.audit import reading
from mcpx.core.events.audit.reading import Line
from tests.mcpx.core.events.audit.conftest import Log, call

TIME = "2026-11-22T17:54:48.411783Z"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The folder of the log, with one line in it."""
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("MCPX_CONFIG", str(tmp_path / "config.json"))
    (folder := tmp_path / "audit").mkdir(mode=0o700)
    (tmp_path / "audit.chains").write_text("1\n")
    (folder / "1-000000000001.jsonl").write_text(f'{{"time":"{TIME}","kind":"tool","name":"echo"}}\n')
    return folder


def audit(*arguments):
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize("time", ["0500-01-01", "700000d", "99999w", "2026-11-22", "2026-11-22T17:54:48Z"])
def test_a_time_however_long_ago_finds_what_was_written_since(log, time):
    assert "echo()" in audit("--since", time).stdout


def test_a_line_that_is_written_while_the_last_are_read_is_followed_once(log, monkeypatch):
    file, read = log / "1-000000000001.jsonl", reading.last_lines

    def read_late(*arguments):
        with file.open("a") as lines:
            lines.write(file.read_text().replace("echo", "late"))
        return read(*arguments)

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("mcpx.cli.trust.audit.last_lines", read_late)
    monkeypatch.setattr("time.sleep", interrupt)
    printed = audit("-f").stdout
    assert (printed.count("echo()"), printed.count("late()")) == (1, 1)


@pytest.mark.parametrize("time", ["999999w", "0001-01-01T00:00+10:00", "soon", "", "-5m", "17:00"])
def test_what_is_no_time_is_named(log, time):
    refused = audit("--since", time)
    assert (refused.exit_code, "--since takes 90s" in refused.output) == (2, True)


def test_a_line_says_what_is_a_profile_and_what_is_a_token():
    line = Line(time=TIME, client="ide/1", kind="tool", server="git", name="log", outcome="ok")
    assert "  ide/1 profile=work  git.log()  ok" in shown(Line(**{**as_dict(line), "profile": "work"}))
    assert "  ide/1 token=work  git.log()  ok" in shown(Line(**{**as_dict(line), "token": "work"}))


def as_dict(line):
    return {name: getattr(line, name) for name in line.__struct_fields__}


def test_a_long_name_does_not_fill_the_screen():
    assert len(shown(Line(time=TIME, kind="tool", server="git", name="x" * 2048))) < 300


def test_something_else_in_the_place_of_the_folder_is_no_log_that_is_whole(log):
    (log / "1-000000000001.jsonl").unlink()
    log.rmdir()
    log.write_text("")
    assert audit("verify").exit_code == 1


def test_many_problems_are_counted_and_the_first_ones_printed(log):
    (log / "1-000000000001.jsonl").write_text("no line\n" * 1000)
    (log / "1.state").write_bytes(b"")
    refused = audit("verify")
    lines = refused.stdout.splitlines()
    assert (refused.exit_code, len(lines)) == (1, MAX_PROBLEMS + 2)
    assert lines[-1].startswith("1000 lines in 1 chain: 100")
    assert len(json.loads(audit("verify", "--json").stdout)["problems"]) >= 1000


REMOVED = {
    "the folder": ["audit"],
    "all in the folder": ["audit/1*", "audit/2*"],
    "the first chain": ["audit/1*"],
    "the last chain": ["audit/2*"],
    "the lines of the last chain": ["audit/2-*"],
    "the head of the last chain": ["audit/2.state"],
    "the note": ["audit.chains"],
    "the note and the first chain": ["audit.chains", "audit/1*"],
}


@pytest.fixture
async def state(tmp_path, monkeypatch):
    """A state folder with a log of two chains."""
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("MCPX_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setattr("mcpx.core.events.audit.verifying.PAUSE_S", 0)
    log = Log(tmp_path / "audit")
    with log.audit() as one, log.audit() as other:
        call(one, "one")
        call(other, "other")
    return tmp_path


@pytest.mark.anyio
@pytest.mark.parametrize("started", [False, True], ids=["before a start", "after a start"])
@pytest.mark.parametrize("removed", REMOVED.values(), ids=REMOVED.keys())
async def test_whatever_is_removed_of_a_log_it_does_not_pass_as_whole(state, removed, started):
    assert (audit("verify").exit_code, audit("verify").stdout) == (
        0,
        "2 lines in 2 chains: nothing is changed or missing\n",
    )
    for pattern in removed:
        for path in state.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if started:
        Log(state / "audit").write("three")
    checked = audit("verify")
    assert checked.exit_code == 1, checked.stdout
    assert any(word in checked.stdout for word in ("missing", "removed")), checked.stdout


@pytest.mark.parametrize("note", ["1\n", "0\n", "-5\n", "999999999\n", "nonsense", ""])
@pytest.mark.anyio
async def test_a_note_that_was_changed_is_named_and_counted_anew(state, note):
    (state / "audit.chains").write_text(note)
    checked = audit("verify")
    assert (checked.exit_code, f"{state / 'audit.chains'}: it " in checked.stdout) == (1, True)
    Log(state / "audit").write("three")
    assert (state / "audit.chains").read_text() == "2\n"


@pytest.mark.parametrize("note", ["0\n", "nonsense", ""])
@pytest.mark.anyio
async def test_a_note_without_a_number_says_that_there_was_a_log(state, note):
    shutil.rmtree(state / "audit")
    (state / "audit.chains").write_text(note)
    checked = audit("verify")
    assert (checked.exit_code, "it is missing or not readable" in checked.stdout) == (1, True)


@pytest.mark.anyio
async def test_where_the_log_and_the_note_are_gone_it_is_said_what_cannot_be_known(state):
    shutil.rmtree(state / "audit")
    assert "is gone" in audit().output
    (state / "audit.chains").unlink()
    checked = audit("verify")
    assert (checked.exit_code, "cannot be known" in checked.stdout) == (0, True)
    assert "nothing is changed or missing" not in checked.stdout
    assert json.loads(audit("verify", "--json").stdout)["remarks"] != []

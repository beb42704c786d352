"""`mcpx doctor` as a command: the page, the JSON, the exit code, and what `--fix` asks and does."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from mcpx.cli.setup import doctor as command
from mcpx.errors import MCPXError
from mcpx.setup.doctor.examination import Section
from mcpx.setup.doctor.installation import Fix, note, ok, wrong


def examined(monkeypatch, *findings):
    monkeypatch.setattr(command, "examined", lambda *_args, **_options: [Section("servers", findings)])


def run(*arguments):
    return CliRunner().invoke(command.doctor, arguments)


def test_all_is_well(monkeypatch):
    examined(monkeypatch, ok("git", "ready in 0.8 s", seconds=0.8))
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "servers\n  ok    git: ready in 0.8 s\n\nall is well\n"


def test_what_is_wrong_stands_with_what_to_type(monkeypatch):
    finding = wrong("git", "command not found: uvx\x1b[31m", "install uv")
    examined(monkeypatch, finding, note("time", "is slow"))
    done = run()
    assert done.exit_code == 1
    assert "  WRONG git: command not found: uvx [31m\n        -> install uv\n" in done.stdout
    assert done.stdout.endswith("\n1 thing is wrong, 1 note\n")


def test_notes_are_no_failure(monkeypatch):
    examined(monkeypatch, note("time", "is slow"))
    done = run()
    assert done.exit_code == 0
    assert done.stdout.endswith("\nall is well, 1 note\n")


def test_json_is_one_object(monkeypatch):
    examined(monkeypatch, ok("git", "ready", seconds=0.8), wrong("time", "is gone", "restart"))
    done = run("--json")
    assert done.exit_code == 1
    page = json.loads(done.stdout)
    assert (page["ok"], page["wrong"], page["notes"]) == (False, 1, 0)
    assert page["findings"] == [
        {"section": "servers", "level": "ok", "subject": "git", "text": "ready", "details": {"seconds": 0.8}},
        {"section": "servers", "level": "wrong", "subject": "time", "text": "is gone", "advice": "restart"},
    ]


@pytest.fixture
def mended(monkeypatch):
    """What was mended, of two things that can be: a third follows from one of them."""
    done: list[str] = []

    def refuse():
        raise MCPXError("it was changed meanwhile")

    def look(*_args, **_options):
        stale = note("b", "is stale", "rm b", fix=Fix("rm b", refuse))
        if done:
            return [Section("files", (ok("a", "is closed"), stale))]
        is_open = wrong("a", "is open", fix=Fix("chmod 600 a", lambda: done.append("a")))
        too = wrong("a", "is open too", fix=Fix("chmod 600 a", lambda: done.append("again")))
        return [Section("files", (is_open, too, wrong("daemon", "does not like that"), stale))]

    monkeypatch.setattr(command, "examined", look)
    return done


def test_nothing_is_mended_unasked(mended):
    done = run()
    assert done.exit_code == 1
    assert "-> mcpx doctor --fix: chmod 600 a" in done.stdout
    assert done.stdout.endswith("\nmcpx doctor --fix mends what can be mended safely\n")
    done = run("--fix")
    assert (done.exit_code, mended) == (1, [])
    assert "nothing was changed; to do it: mcpx" in done.stderr


def test_a_dry_run_only_says_what_would_be_mended(mended):
    done = run("--fix", "--dry-run", "--yes")
    assert (done.exit_code, mended) == (1, [])
    assert "this can be mended:\n  chmod 600 a\n  rm b\n" in done.stdout


def test_mending_goes_on_behind_what_fails_and_what_is_left_is_shown(mended):
    done = run("--fix", "--yes")
    assert mended == ["a"]
    assert "3 things are wrong, 1 note\n" in done.stdout
    assert "done: chmod 600 a" in done.stdout
    assert "not done: rm b: it was changed meanwhile" in done.stderr
    assert "\nall is well, 1 note\n" in done.stdout
    assert done.exit_code == 0


def test_json_says_what_was_mended(mended):
    done = run("--fix", "--yes", "--json")
    page = json.loads(done.stdout)
    assert page["mended"] == ["chmod 600 a"]
    assert page["not_mended"] == {"rm b": "it was changed meanwhile"}
    assert (done.exit_code, page["ok"], page["notes"]) == (0, True, 1)


def test_where_nothing_can_be_mended_it_says_so(monkeypatch):
    examined(monkeypatch, wrong("git", "is gone"))
    done = run("--fix", "--yes")
    assert done.exit_code == 1
    assert done.stdout.endswith("nothing here can be mended by --fix\n")

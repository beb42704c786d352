"""What is found in a sound home, what is worth a note, and homes in which nothing is left to work with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from mcpx.core.config.project_entries import ClaudeProjects, read_project
from mcpx.core.policy.agreements import Agreements
from mcpx.core.store.folders import ensure_folder
from mcpx.core.wire.unreachable import OFFLINE
from mcpx.paths import state_folder
from mcpx.setup.changes import Edit, State, carry_out, history
from mcpx.setup.doctor.examination import Check, examine
from mcpx.setup.doctor.installation import Installation, ok
from tests.mcpx.http_server import answering
from tests.mcpx.scripted import entry
from tests.mcpx.setup.doctor.homes import server

pytestmark = pytest.mark.timeout(60)


def answered(message: bytes, _headers: object) -> bytes | None:
    """The answer of a server over HTTP without tools to each request."""
    asked = json.loads(message)
    about = {"name": "h", "version": "1"}
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about}
    if "id" not in asked:
        return None
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": begun}).encode()


def test_in_a_sound_home_all_is_well(home):
    with home.daemon(servers=(server(),)):
        page = home.examine()
    assert {each.level for each in page.findings} == {"ok"}, page
    (started,) = page.naming("ok", "s: ready in", "tools")
    assert started.details["tools"] == 13
    assert started.details["seconds"] > 0
    if sys.platform == "linux":
        assert started.details["memory_mb"] > 1
    (client,) = page.naming("ok", "cursor", "answers")
    assert client.details["tools"] == 1
    assert page.naming("ok", "daemon: pid", "clients: 1")


def test_nothing_is_changed_by_looking(home):
    before = _files(home)
    with home.daemon():
        home.examine()
    assert (
        _files(home) - {"state/run"} - {name for name in _files(home) if name.startswith("state/run/")}
        == before
    )


def _files(home):
    return {str(path.relative_to(home.folder)) for path in home.folder.rglob("*")} - {"state"}


def test_without_starting_anything_commands_are_looked_for(home):
    page = home.examine(starts=False)
    assert not page.of("wrong")
    assert page.naming("ok", "s: was not started", sys.executable)
    assert page.naming("ok", "PATH", os.environ["PATH"])
    assert page.naming("ok", "cursor", "was not asked: no daemon runs")


def test_notes_are_worth_knowing_and_nothing_is_wrong(home):
    home.write({"s": entry(), "odd": {"command": "ls", "autoApprove": [], "disabled": True}})
    home.write_client(home.cursor, {"mcpx": home.own_entry(), "git": {"command": "uvx"}})
    ensure_folder(home.folder / ".claude")
    home.write_client(home.folder / ".gemini" / "settings.json", {"git": {"command": "uvx"}})
    other = home.folder / "other.json"
    with home.daemon(), home.locked(other):
        page = home.examine()
    assert not page.of("wrong"), page
    assert page.naming("note", "autoApprove", "not used")
    assert page.naming("note", "cursor", "beside MCPX: git")[0].advice == "mcpx install cursor --adopt"
    assert page.naming("note", "claude-code", "is not in it")[0].advice == "mcpx install claude-code"
    assert page.naming("note", "gemini", "MCPX is not in", "git")
    assert page.naming("note", "two daemons", str(other))
    assert page.naming("ok", "odd: disabled")


def test_without_a_network_one_line_says_so_for_all_servers(home):
    away = {name: {"url": f"https://nowhere-{name}.invalid/mcp"} for name in ("a", "b", "c")}
    home.write(away)
    with home.daemon():
        page = home.examine()
    (said,) = [each for each in page.of("wrong") if "online" in each.text]
    assert said.text.startswith("no network leads to a, b, c, or their names could not be resolved")
    assert not any("Errno" in each.text for each in page.findings)
    assert not any(page.naming("wrong", name) for name in ("a: ", "b: ", "c: "))


def test_what_a_start_has_shown_is_not_said_again_of_the_daemon(home):
    away = {"url": "https://nowhere.invalid/mcp"}
    gone = {"command": str(home.folder / "nothing")}
    home.write({"away": away, "broken": entry(exit=1), "s": entry(), "gone": gone})
    rows = (
        server("away", state="waiting", last_error=f"the server cannot be reached: {OFFLINE}"),
        server("broken", state="parked", last_error="it ends"),
        server("s", state="parked", last_error="it ended before"),
        server("gone", state="parked", last_error="command not found"),
    )
    with home.daemon(servers=rows):
        page = home.examine()
        not_started = home.examine(starts=False)
    assert len([each for each in page.of("wrong") if "online" in each.text]) == 1, page
    assert [each.subject for each in page.of("wrong")] == ["network", "broken", "gone", "daemon"], page
    (again,) = page.naming("note", "not available in the daemon, either: away, broken, gone")
    assert again.command is None  # there are two
    assert len(not_started.naming("wrong", "broken is parked in the daemon")) == 1
    assert len(not_started.naming("wrong", "in the daemon, no network leads to away")) == 1


def test_a_server_of_this_machine_does_not_show_that_there_is_a_network(home):
    away = {name: {"url": f"https://nowhere-{name}.invalid/mcp"} for name in ("a", "b")}
    with answering(answered) as url:
        home.write({**away, "here": {"url": url}})
        with home.daemon():
            page = home.examine()
    assert page.naming("ok", "here: ready"), page
    assert len([each for each in page.of("wrong") if "online" in each.text]) == 1, page


def test_a_client_that_has_it_twice_or_cannot_say_how_is_named(home):
    twice = {"mcpx": home.own_entry(), "old": home.own_entry()}
    home.write_client(home.cursor, twice)
    odd = {"mcpx": home.own_entry(args=["attach", {"not": "text"}])}
    home.write_client(home.folder / ".gemini" / "settings.json", odd)
    page = home.examine(starts=False)
    assert page.naming("note", "cursor", "more than once", '"mcpx", "old"'), page
    (finding,) = page.of("wrong")
    assert finding.subject == "gemini"


def test_a_server_that_cannot_run_twice_is_not_broken(home):
    home.write({"s": entry(exit=1)})
    with home.daemon(servers=(server(),)):
        page = home.examine()
    assert not page.of("wrong"), page
    assert page.naming("note", "s: works in the daemon", "exited with code 1")


def test_a_daemon_of_another_path_is_to_reload(home):
    with home.daemon(environment={"path": "/usr/bin:/bin", "source": "the program that started MCPX"}):
        (finding,) = home.examine(starts=False).naming("note", "daemon", "another PATH", "/usr/bin:/bin")
    assert finding.advice == "mcpx reload"


def test_a_large_server_that_nobody_uses_could_be_stopped(home, monkeypatch):
    monkeypatch.setattr("mcpx.setup.doctor.daemon.group_memory", lambda pids: dict.fromkeys(pids, 200 << 20))
    rows = (server("busy", pid=2, calls=1), server("idle", pid=3), server("new", pid=4, uptime_s=5.0))
    with home.daemon(servers=rows):
        page = home.examine(starts=False)
    (finding,) = page.naming("note", "200 MB")
    assert finding.text.startswith("idle holds 200 MB")
    assert "idle_stop" in (finding.advice or "")


def test_what_a_killed_daemon_has_left_can_be_removed(home):
    with ExitStack() as stack:
        stack.enter_context(home.locked())
        subprocess.run([sys.executable, "-S", "-c", _BIND, str(home.paths.socket)], check=True)
    (finding,) = home.examine(starts=False).naming("note", "socket", "was killed")
    assert finding.fix is not None
    finding.fix.apply()
    assert not home.paths.socket.exists()


_BIND = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"


def test_permissions_can_be_mended(home):
    home.write({"s": {**entry(), "env": {"API_KEY": "sk-0123456789abcdef"}}})
    home.config.chmod(0o644)
    ensure_folder(home.paths.socket.parent).chmod(0o755)
    fixes = [each.fix for each in home.examine(starts=False).of("wrong")]
    assert len(fixes) == 2
    for fix in fixes:
        assert fix is not None
        fix.apply()
    assert not home.examine(starts=False).of("wrong")


def test_a_client_that_starts_what_is_gone_can_be_mended(home):
    old = home.own_entry(command=f"{home.folder}/old/bin/mcpx")
    home.cursor.write_text(json.dumps({"theme": "dark", "mcpServers": {"gateway": old}}))
    (finding,) = home.examine(starts=False).of("wrong")
    assert finding.fix is not None
    finding.fix.apply()
    page = home.examine(starts=False)
    assert not page.of("wrong"), page
    written = json.loads(home.cursor.read_text())
    assert written["theme"] == "dark"
    assert written["mcpServers"]["gateway"]["args"][-1] == str(home.config)
    assert history()[-1].command == "mcpx install cursor"  # so that `mcpx undo` takes it back


def test_what_was_cut_short_can_be_taken_back(home):
    file = home.folder / "a.json"
    change = carry_out("install cursor", [Edit(file, None, b"{}")])
    (change.folder / State.DONE).rename(change.folder / State.BEGUN)
    (finding,) = home.examine(starts=False).of("wrong")
    assert finding.fix is not None
    finding.fix.apply()
    assert not file.exists()
    assert not home.examine(starts=False).of("wrong")


@pytest.mark.parametrize("name", ["HOME", "PATH", "SHELL"])
def test_a_variable_that_is_not_set_stops_nothing(home, monkeypatch, name):
    monkeypatch.setenv("MCPX_CONFIG", str(home.config))
    monkeypatch.delenv(name)
    page = home.examine(starts=False)
    assert not [each for each in page.findings if "could not be made" in each.text], page


def test_a_home_with_nothing_in_it(home):
    for path in sorted(home.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    page = home.examine()
    (finding,) = page.of("wrong")
    assert "there is no configuration" in finding.text


def test_a_check_that_fails_is_a_finding_and_the_others_are_made(home):
    def fail(_installation):
        raise RuntimeError("odd")

    checks = (Check("first", fail), Check("second", lambda _: [ok("x", "well")]))
    first, second = examine(Installation(None), checks=checks)
    assert first.findings[0].level == "wrong"
    assert "RuntimeError: odd" in first.findings[0].text
    assert second.findings[0].level == "ok"


@pytest.mark.others
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_is_read_only(home):
    home.folder.chmod(0o500)
    try:
        page = home.examine()
    finally:
        home.folder.chmod(0o700)
    assert page.naming("wrong", "folders", "cannot be written to"), page
    assert not [each for each in page.findings if "could not be made" in each.text], page


def test_a_server_of_a_folder_that_a_client_starts_beside_mcpx_is_named_until_it_does_not(home):
    shop = home.folder / "work" / "shop"
    ensure_folder(shop / ".claude")
    (shop / ".mcp.json").write_text('{"mcpServers": {"lint": {"command": "lint"}}}')
    file = home.folder / ".claude.json"
    of_folder = {str(shop): {"mcpServers": {"db": {"command": "db"}}}}
    file.write_text(json.dumps({"mcpServers": {"mcpx": home.own_entry()}, "projects": of_folder}))
    file.chmod(0o600)

    def told():
        found = [each for each in home.examine().findings if each.subject == "claude-code"]
        return {each.text: each.advice for each in found if each.level == "note"}

    with home.daemon(servers=(server(),)):
        own = "starts servers of its own beside MCPX: shop/db"
        waits = f"has lint of {shop}/.mcp.json; MCPX could offer that to all clients there"
        assert told() == {
            own: "mcpx install claude-code --adopt",
            waits: f"mcpx approve --project {shop}",
        }
        Agreements(state_folder()).keep(read_project(str(shop), ClaudeProjects()), "yes")
        twice = f"has lint of {shop}/.mcp.json, which MCPX offers there too: each of its tools twice"
        settings = shop / ".claude" / "settings.local.json"
        assert told()[twice] == f'write "disabledMcpjsonServers": ["lint"] into {settings}'
        settings.write_text('{"disabledMcpjsonServers": ["lint"]}')
        assert told().keys() == {own}

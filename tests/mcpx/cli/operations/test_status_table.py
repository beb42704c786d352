"""The table of `mcpx status`, as text."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from mcpx.cli.operations.status_table import LEGEND, render, render_json, show
from mcpx.core.daemon.lifecycle import waiting_upgrade
from mcpx.core.daemon.status import (
    ChangeStatus,
    DaemonStatus,
    InstanceStatus,
    Latency,
    ServerStatus,
    SignInStatus,
    Status,
)
from mcpx.errors import MCPXError
from mcpx.version import __version__

LONG = "the server process exited with code 1; its last words: " + "x" * 300


def server(name="files", state="ready", **fields):
    given = {
        "pid": 4_194_303,
        "transport": "stdio",
        "protocol_version": "2025-06-18",
        "uptime_s": 86399.0,
        "restarts": 120,
        "failures": 0,
        "next_attempt_in_s": None,
        "last_error": None,
        "tools": 1200,
        "resources": 9999,
        "templates": 0,
        "prompts": 0,
        "in_flight": 64,
        "queued": 0,
        "calls": 1_234_567,
        "errors": 7,
        "failed": 3,
        "refused": 4,
        "latency_ms": Latency(p50=99.94, p99=123456.7),
    }
    return ServerStatus(name=name, state=state, **{**given, **fields})


def printed(*servers, width=80, terminal=False, clients=2):
    daemon = DaemonStatus(pid=1, version="9.9", uptime_s=3 * 3600 + 300, clients=clients)
    status = Status(daemon=daemon, servers=list(servers))
    file = io.StringIO()
    surroundings = {"TERM": "xterm-256color"}  # what the environment of the tests says must not count
    console = Console(file=file, width=width, force_terminal=terminal, _environ=surroundings)
    console.print(render(status))
    return file.getvalue()


def quiet(name, state, **fields):
    nothing = {"pid": None, "uptime_s": None, "calls": 0, "in_flight": 0, "restarts": 0}
    return server(name, state, **{**nothing, "latency_ms": Latency(p50=None, p99=None), **fields})


def test_what_waits_for_approval_is_named_with_the_command():
    def change(tool, kind="changed", summary="has changed (description)"):
        summary = f"{tool} {summary}"
        return ChangeStatus(kind=kind, tool=tool, summary=summary, difference=["x"], blocked=True)

    text = printed(server(changes=[change("commit"), change("push", "new", "is new")]), width=120)
    assert "mcpx approve files: commit has changed (description), push is new" in text
    text = printed(server(changes=[change(f"t{number}") for number in range(9)]), width=400)
    assert "and 4 more" in text


def test_the_processes_of_each_project_stand_below_their_server():
    shop = InstanceStatus(project="/home/me/shop", state="ready", pid=4711, uptime_s=300.0, restarts=2)
    broken = InstanceStatus(project="/home/me/other", state="parked", last_error="command not found")
    text = printed(server(sessions=2, instances=[shop, broken]), width=120)
    assert "ready x2" in text
    assert "/home/me/shop: ready, pid 4711, up 5m, restarts 2" in text
    assert "/home/me/other: parked: command not found" in text


def test_that_nothing_can_be_pinned_is_said():
    daemon = DaemonStatus(pid=1, version="1", uptime_s=1, clients=0, pins_error="No space left on device")
    console = Console(file=io.StringIO(), width=100)
    console.print(render(Status(daemon=daemon, servers=[])))
    assert "cannot be pinned: No space left" in console.file.getvalue()


def test_faults_of_mcpx_itself_are_counted_in_words():
    faults = {"router": 3, "answer": 1}
    daemon = DaemonStatus(pid=1, version="1", uptime_s=1, clients=0, faults=faults)
    console = Console(file=io.StringIO(), width=200)
    console.print(render(Status(daemon=daemon, servers=[])))
    assert "faults of MCPX itself since its start: answer 1, router 3 (the log" in console.file.getvalue()


def test_it_reads_like_this():
    text = printed(
        server(pid=812, tools=14, resources=3, calls=2044, in_flight=1, latency_ms=Latency(p50=1.25, p99=40)),
        quiet("web", "waiting", last_error="connection refused", next_attempt_in_s=3.9, queued=2),
        quiet("old", "parked", last_error="command not found: old"),
    )
    lines = text.splitlines()
    assert lines == [
        "mcpx 9.9  pid 1, up 3h05, 2 clients, 1 of 3 servers ready, 1 parked, 1 retrying",
        "",
        "server   state         pid    up  re tools  res busy calls fail ref p50 p99 ms",
        "web      retries in 4s   -     -   0  1200 9999  0+2     0    3   4   -      -",
        "old      parked          -     -   0  1200 9999    0     0    3   4   -      -",
        "files    ready         812 23h59 120    14    3    1  2044    3   4 1.2   40.0",
        "",
        "web  connection refused",
        "old  command not found: old",
        "",
        LEGEND,
    ]


def test_servers_whose_tools_are_from_last_time_are_named():
    asleep = quiet("older", "asleep", from_last_time=True)
    text = printed(server("new"), server("old", from_last_time=True), asleep)
    assert text.splitlines()[-4:-2] == ["", "tools from last time: old, older"]
    assert "last time" not in printed(server("new"))


def test_a_server_that_sleeps_is_no_fault():
    slept = quiet("web", "asleep", last_error="it crashed", uptime_s=None)
    lines = printed(server(pid=812), slept).splitlines()
    assert lines[0] == "mcpx 9.9  pid 1, up 3h05, 2 clients, 1 of 2 servers ready, 1 asleep"
    assert lines[4].startswith("web      asleep ")
    assert lines[-3] == "web  earlier: it crashed"


def test_the_widest_row_fits_80_cells_with_its_whole_name():
    name = "a-name-that-is-much-too-long-for-any-table"
    lines = printed(server(name, last_error=LONG), quiet("w" * 40, "disabled", last_error=LONG)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "4194303" in lines[3]
    assert "123457" in lines[3]
    rows = [line.split()[0] for line in lines[3 : lines.index("", 3)]]
    assert "".join(rows) == name + "w" * 40


def test_a_name_is_whole_where_there_is_room():
    assert printed(server("n" * 60), width=200).splitlines()[3].startswith("n" * 60 + " ")


def test_a_server_without_a_sign_of_life_is_told_of_after_a_while():
    assert "sign of life" not in printed(server(silent_s=9.0))
    assert "files  busy, no sign of life for 37s\n" in printed(server(silent_s=37.2))


def test_a_status_that_came_as_json_is_printed(capsys):
    daemon = DaemonStatus(pid=1, version="9.9", uptime_s=1, clients=0)
    per_client = server("own", last_error=LONG, sessions=2)
    status = Status(daemon=daemon, servers=[server(), per_client])
    show(msgspec.to_builtins(status))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mcpx 9.9")
    assert len(lines) == 9
    assert lines[4].startswith("own      ready x2 ")
    assert "\x1b" not in "".join(lines)
    with pytest.raises(MCPXError, match="another version"):
        show({"error": "no daemon"})


def test_a_long_cause_is_one_line_cut_at_the_end():
    for width in (80, 132):
        told = [
            line for line in printed(server(last_error=LONG), width=width).splitlines() if "exited" in line
        ]
        assert len(told) == 1
        assert told[0].rstrip().endswith("…")
        assert told[0].startswith("files  earlier: ")


def test_there_are_colours_on_a_terminal_only():
    assert "\x1b[" in printed(server(), terminal=True)
    assert "\x1b" not in printed(server(), quiet("p", "parked", last_error="no"))


def test_what_servers_say_is_neither_obeyed_nor_read_as_markup():
    text = printed(quiet("[bold]x", "parked", last_error="\x1b[2Jgone\n[red]not red[/red]"))
    assert "\x1b" not in text
    assert "[bold]x" in text
    assert "[2Jgone [red]not red[/red]" in text


def test_without_servers_that_have_anything_to_say_there_is_nothing_below_the_table():
    assert printed(server(), clients=1).splitlines()[-3].startswith("files")
    assert "1 client," in printed(server(), clients=1)


def test_a_server_that_wants_a_sign_in_has_its_command_in_a_line():
    sign_in = SignInStatus(command="mcpx login linear", problem="the sign-in has expired")
    text = printed(quiet("linear", "needs sign-in", last_error="x; needs sign-in", sign_in=sign_in))
    assert ", 1 needs sign-in" in text.splitlines()[0]
    lines = text.splitlines()
    assert "linear  sign in with: mcpx login linear" in lines
    assert "linear  the sign-in has expired" in lines
    assert "x;" not in text


@pytest.mark.parametrize(
    ("sign_in", "said"),
    [
        ({"wanted_scopes": ["a", "b"]}, "wants more scopes (a b): mcpx login s"),
        ({"problem": "the server is down\x1b[2J"}, "the server is down"),
        ({"expires_at": "2026-11-22T20:50:19+00:00", "scopes": ["a"]}, None),
    ],
)
def test_what_a_sign_in_still_wants_stands_in_a_line(sign_in, said):
    text = printed(server("s", sign_in=SignInStatus(command="mcpx login s", **sign_in)))
    assert "mcpx login" not in text if said is None else said in text
    assert "\x1b" not in text


def test_a_narrow_window_has_fewer_columns_and_whole_names():
    names = ["sequential-thinking", "fetch-goose"]
    lines = printed(*map(server, names), width=60).splitlines()
    assert [line.split()[0] for line in lines if line.startswith(tuple(names))] == names
    assert all(len(line) <= 60 for line in lines)
    head = next(line for line in lines if line.startswith("server"))
    assert {"state", "calls", "fail"} <= set(head.split())


def test_a_command_to_type_is_whole_in_a_narrow_window():
    remedy = "add to ~/.profile: export GOOSE_SECRET=VALUE; then: mcpx restart keyed"
    text = printed(server("keyed", state="needs setup", last_error="no", remedy=remedy), width=60)
    assert remedy in " ".join(text.split())


def test_a_window_of_usual_width_lacks_a_column_rather_than_the_end_of_a_name():
    names = ["fetch-claude-desktop", "x"]
    lines = printed(*map(server, names), width=80).splitlines()
    assert [line.split()[0] for line in lines if line.startswith(tuple(names))] == names
    assert {"up", "re", "ref", "p50", "p99"} <= set(lines[2].split())
    assert "res" not in lines[2].split()


def test_an_upgrade_that_waits_for_a_restart_is_said():
    daemon = {"pid": 1, "version": "0.0.1", "uptime_s": 1, "clients": 0}
    daemon["upgrade"] = waiting_upgrade(daemon, "/nowhere/config.json")
    file = io.StringIO()
    Console(file=file, width=200).print(render_json({"daemon": daemon, "servers": []}))
    command = "mcpx daemon restart --when-idle --config /nowhere/config.json"
    assert f"MCPX {__version__} is installed and waits for a restart: {command}" in file.getvalue()
    assert waiting_upgrade({"version": __version__}, "/nowhere/config.json") is None


def test_those_that_want_somebody_stand_first():
    text = printed(quiet("a", "ready"), quiet("b", "asleep"), quiet("c", "parked"), quiet("d", "needs setup"))
    assert "1 of 4 servers ready, 1 parked, 1 needs setup, 1 asleep" in " ".join(text.split())
    at = [text.index(f"\n{name}  ") for name in ("c", "d", "a", "b")]
    assert at == sorted(at)

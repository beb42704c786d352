"""The benchmark of whole sessions: what it counts, and a short run over data of a few lines."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from mcpx.demo.tour.report import recorded_sessions
from scripts.lab.contextbench import report
from scripts.lab.contextbench.client import Exchange
from scripts.lab.contextbench.figures import ROUTER, figures, search_figures
from scripts.lab.contextbench.history import Used, replayed
from scripts.lab.contextbench.play import PARTS, Cost, Played, play
from scripts.lab.contextbench.recorded import Call, Session, load
from scripts.lab.contextbench.surfaces import COMPRESSORS, DIRECT, LISTING, SEARCH, Direct
from scripts.lab.documentation.regions import regions
from tests.docs import pages

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "scripts" / "lab" / "benchmarks" / ".venv-peers" / ".installed"


def tool(name, *required, **optional):
    properties = {each: {"type": "string"} for each in required} | optional
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema}


def found(text):
    return {"content": [{"type": "text", "text": text}], "is_error": False}


@pytest.fixture
def data(tmp_path):
    """Two servers, and two sessions over them."""
    tools = {
        "git": [tool("log", "repo"), tool("status", "repo")],
        "time": [tool("now", zone={"type": "string"})],
    }
    rows = [
        {"server": server, "tool": each["name"], **{key: each[key] for key in ("description", "inputSchema")}}
        for server, listed in tools.items()
        for each in listed
    ]
    calls = {
        "a": [
            {"find": "history of a repository"},
            {"server": "git", "tool": "log", "arguments": {"repo": "/r"}, **found('{"commits": [1, 2]}')},
            {"server": "git", "tool": "log", "arguments": {"repo": "/r"}, "lost": "cut"},
            {"server": "git", "tool": "blame", "arguments": {}, **found("not in the catalogue")},
        ],
        "b": [{"find": "the time"}, {"server": "time", "tool": "now", "arguments": {}, **found("noon")}],
    }
    labels = {"a": [{"tool": "log", "servers": ["git"]}], "b": [{"tool": "now", "servers": ["time"]}]}
    shown = {"a": [], "b": [{"server": "time", "tool": "now"}]}
    bench = tmp_path / "livemcpbench"
    contents = {
        tmp_path / "livemcptool" / "tools.json": {"tools": rows},
        bench / "tasks.json": {"tasks": [{"id": key, "tools": value} for key, value in labels.items()]},
        bench / "sessions.json": {"sessions": [{"id": key, "steps": steps} for key, steps in calls.items()]},
        bench / "router.json": {
            "sessions": [
                {"id": key, "answers": [{"tokens": 7, "tools": each}]} for key, each in shown.items()
            ]
        },
    }
    for path, value in contents.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value))
    return tmp_path


class Shown(Direct):
    """A surface with this menu and this answer to every search; 100 x is the answer to every look-up."""

    def __init__(self, menu, answer):
        self.tools = [{"name": "inspect", "description": menu, "inputSchema": {"properties": {}}}]
        self._answer = answer

    def search(self, _query):
        return Exchange({}, self._answer)

    def look_up(self, _server, _tool):
        return Exchange({}, "x " * 100)


def test_the_recorded_data_are_whole():
    recorded = load()
    assert (len(recorded.servers), sum(map(len, recorded.servers.values()))) == (70, 527)
    assert len(recorded.sessions) == len(recorded.labels) == len(recorded.router) == 95
    searches = [len(session.searches) for session in recorded.sessions]
    assert searches == [len(answers) for answers in recorded.router]
    assert sum(searches) == 283


def test_a_call_of_a_tool_that_is_not_in_the_catalogue_is_left_out(data):
    calls = [session.calls for session in load(data).sessions]
    played = {"content": found('{"commits": [1, 2]}')["content"], "isError": False}
    assert calls[0] == [Call("git", "log", {"repo": "/r"}, played), Call("git", "log", {"repo": "/r"}, None)]
    assert len(calls[1]) == 1


@pytest.mark.parametrize(
    ("menu", "answer", "looked_up"),
    [
        ("## git\nlog, status\n## time\nnow", "", 2),
        ("## git\nlog, status\n## time\nnow()", "", 1),
        ("## git\nlog(repo), status(repo)", "", 2),
        ("## git\nlog(repo: string): Shows commits", "", 1),
        (
            "",
            "## git (2 tools)\nlog(repo: string, n?: integer): Shows\nstatus\n## time\nnow(zone?: string)",
            0,
        ),
        ("", "## git (2 tools)\nlog(...): Shows", 2),
    ],
)
def test_a_tool_is_looked_up_unless_its_types_were_shown(data, menu, answer, looked_up):
    played = play(Shown(menu, answer), load(data), searching=True)
    assert sum(cost.looked_up for cost in played.costs) == looked_up
    assert sum(cost.lookups for cost in played.costs) == looked_up * played.costs[0].all_lookups


def test_what_searches_name_is_compared_with_the_labels_of_the_held_half():
    labels = [["other half"], ["a", "b"], [], ["c"]]
    shown = [set(), {"a", "z"}, set(), {"c"}]
    measured = search_figures(labels, shown, [[9000], [100, 200], [9000], [300]])
    assert measured["named"] == pytest.approx(2 / 3)
    assert measured["whole"] == pytest.approx(1 / 2)
    assert measured["answer"] == {"mean": 200, "p95": 300, "most": 300}


def test_names_in_prose_are_not_names_that_a_search_shows(data):
    text = "## git (2 tools)\nlog(repo: string): Shows status lines\n+1\nlog is like status"
    assert play(Shown("", text), load(data), searching=True).found == [{"log"}] * 2


@pytest.mark.parametrize(
    "names", ["log status", "log, status", "status\nlog: Shows commits", "log (deprecated), status +1"]
)
def test_names_alone_are_shown_too(data, names):
    text = f"## git (2 tools)\n{names}\nOther servers: time: now; files: read; 3 more"
    assert play(Shown("", text), load(data), searching=True).found == [{"log", "status", "now"}] * 2


def test_the_parts_add_up_and_the_tables_can_be_put_into_pages(data):
    recorded = load(data)
    costs = [Cost(1, 2, searches=3, lookups=4, results=5, written=1000), Cost(1, 2, results=6)]
    played = {DIRECT: Played(3, [Cost(0, 300)] * 2), SEARCH: Played(0, costs, [[3], []], [{"log"}, {"now"}])}
    made = figures(recorded, played, {name: [] for name in played})
    assert made["surfaces"][SEARCH]["mean"] == sum(made["surfaces"][SEARCH]["parts"][part] for part in PARTS)
    assert made["search"][ROUTER]["named"] == 1
    sessions, searches = report.markdown(made).split("\n\n")
    assert (
        sessions.splitlines()[3]
        == "| MCPX, search and a small menu | 3 | 2 | 2 | 6 | 12 | 12 | 96.0 % | 500 |"
    )
    assert searches.splitlines()[2] == f"| {ROUTER} | 100 % | 100 % | 7 |"


def test_a_short_run_plays_every_surface_that_is_installed(data):
    command = [sys.executable, "-m", "scripts.lab.contextbench", "--data", data, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    installed = PEERS.exists()
    assert done.returncode == (not installed), done.stderr
    assert installed or "not measured: mcp-compressor, low: not installed, run scripts/context" in done.stderr
    made = json.loads(done.stdout)
    assert set(made["surfaces"]) == {DIRECT, LISTING, SEARCH} | (set(COMPRESSORS) if installed else set())
    for each in made["surfaces"].values():
        assert each["parts"]["menu"] > 0
        assert each["parts"]["results"] > 0
    assert {goal["measure"]: goal["holds"] for goal in made["goals"]}["tools that the default menu names"]


def test_the_demonstration_ends_with_figures_of_the_table():
    shown = [f"{tokens:,}" for tokens in recorded_sessions().median_tokens.values()]
    for path in pages.PATHS:
        for kind, name, body in regions(pages.read(path)):
            if (kind, name) == ("measured", "context"):
                assert [each for each in shown if each not in body] == []


def test_a_search_is_told_what_was_used_in_earlier_sessions_and_not_in_its_own(data):
    recorded = load(data)
    sessions = [*recorded.sessions, Session(["the history of repositories"])]
    again = replace(recorded, sessions=sessions, labels=[["log", "now"], ["now"], []])
    shown = {used: replayed(again, used)[0] for used in get_args(Used)}
    assert shown["the model's calls"] == [{"log", "status"}, {"now"}, {"log", "status"}]
    assert shown["the named tools"] == [{"log", "status"}, {"now"}, {"log", "status", "now"}]


@pytest.mark.corpus
def test_a_person_who_uses_the_named_tools_is_shown_more_of_them_by_later_searches():
    """On the half of the tasks that nothing was tuned on."""
    recorded = load()
    measured = search_figures(recorded.labels, *replayed(recorded, "the named tools"))
    assert measured["named"] >= 0.82
    assert measured["whole"] >= 0.76
    assert measured["answer"]["mean"] <= 365
    assert measured["answer"]["most"] <= 410

"""From what was played to the figures that are reported, and the goals that they are held against.

Sessions are all reported. What searches find is reported on the odd half of the tasks: on the even half the
weights of the search were chosen.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any, get_args

from scripts.lab.contextbench.counting import ENCODING, compact, tokens
from scripts.lab.contextbench.history import Used, replayed
from scripts.lab.contextbench.play import PARTS, Played
from scripts.lab.contextbench.recorded import JSON, Recorded
from scripts.lab.contextbench.surfaces import DIRECT, LISTING, SEARCH

HELD_HALF = 1  # of the index of a task
ROUTER, QUERY = "the recorded router", "MCPX, inspect(query)"
HISTORY = "MCPX, with `search_history` of"


@dataclass(frozen=True)
class Goal:
    """A measure with its limit. Shares are of 1."""

    measure: str
    value: float
    limit: float
    at_most: bool

    @property
    def holds(self) -> bool:
        """Whether the limit is kept."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def surface_figures(played: Played, tools: list[JSON]) -> JSON:
    """`{median, mean, parts: {part: mean}, medians: {part: median}, ...}` of a surface, in tokens.

    `tools_list` is the whole answer, with what a model does not see. `worst_median` counts all of that, and a
    look-up of every tool that is used.
    """
    whole = tokens(compact({"tools": tools}))
    extra = ("all_lookups", "written", "looked_up", "used")
    return {
        "median": statistics.median(cost.total for cost in played.costs),
        "mean": statistics.mean(cost.total for cost in played.costs),
        "parts": {name: _mean(played, name) for name in (*PARTS, *extra)},
        "medians": {name: statistics.median(getattr(cost, name) for cost in played.costs) for name in PARTS},
        "tools_list": whole,
        "worst_median": statistics.median(
            cost.total - cost.menu + whole - cost.lookups + cost.all_lookups for cost in played.costs
        ),
        "listed": played.listed,
    }


def search_figures(labels: list[list[str]], found: list[set[str]], answers: list[list[int]]) -> JSON:
    """What searches found in the tasks of the held half: `{named, whole, answer: {mean, p95, most}}`.

    `named` is the share of the labels whose name some search of the task showed, `whole` the share of the
    tasks with all of theirs. A name counts on whichever server it is.
    """
    held = [number for number, wanted in enumerate(labels) if wanted and number % 2 == HELD_HALF]
    hits = [[label in found[number] for label in labels[number]] for number in held]
    sizes = sorted(size for number in held for size in answers[number])
    return {
        "named": statistics.mean(hit for task in hits for hit in task),
        "whole": statistics.mean(all(task) for task in hits),
        "answer": {
            "mean": statistics.mean(sizes) if sizes else 0,
            "p95": sizes[int(len(sizes) * 0.95)] if sizes else 0,
            "most": sizes[-1] if sizes else 0,
        },
    }


def figures(recorded: Recorded, played: dict[str, Played], tools: dict[str, list[JSON]]) -> JSON:
    """Everything, as `--json` prints it."""
    surfaces = {name: surface_figures(each, tools[name]) for name, each in played.items()}
    found = [set().union(*(answer.tools for answer in answers)) for answers in recorded.router]
    sizes = [[answer.tokens for answer in answers] for answers in recorded.router]
    search = {ROUTER: search_figures(recorded.labels, found, sizes)}
    if SEARCH in played:
        search[QUERY] = search_figures(recorded.labels, played[SEARCH].found, played[SEARCH].answers)
        for used in get_args(Used):
            search[f"{HISTORY} {used}"] = search_figures(recorded.labels, *replayed(recorded, used))
    counts = {
        "servers": len(recorded.servers),
        "tools": sum(map(len, recorded.servers.values())),
        "sessions": len(recorded.sessions),
        "searches": sum(len(session.searches) for session in recorded.sessions),
        "calls": sum(call.result is not None for session in recorded.sessions for call in session.calls),
    }
    made: dict[str, Any] = {"tokenizer": ENCODING, **counts, "surfaces": surfaces, "search": search}
    made["goals"] = [asdict(goal) | {"holds": goal.holds} for goal in goals(made)]
    return made


def goals(made: JSON) -> list[Goal]:
    """The goals of what was measured."""
    surfaces, found = made["surfaces"], []
    if DIRECT in surfaces:
        direct = surfaces[DIRECT]["median"]
        for name, least in ((SEARCH, 0.96), (LISTING, 0.94)):
            if name in surfaces:
                best, worst = (1 - surfaces[name][key] / direct for key in ("median", "worst_median"))
                found.append(Goal(f"a session, {name}: saved", best, least, at_most=False))
                found.append(Goal("  with a look-up of every tool", worst, least, at_most=False))
    if LISTING in surfaces:
        named = surfaces[LISTING]["listed"]
        found.append(Goal("tools that the default menu names", named, made["tools"], at_most=False))
    if SEARCH in surfaces:
        query = made["search"][QUERY]
        found += [
            Goal(
                "tokens of tools/list with a small menu", surfaces[SEARCH]["tools_list"], 1000, at_most=True
            ),
            Goal("labelled tools that searches name", query["named"], 0.76, at_most=False),
            Goal("tasks whose tools searches name all", query["whole"], 0.60, at_most=False),
            Goal("tokens of an answer, mean", query["answer"]["mean"], 400, at_most=True),
        ]
    return found


def _mean(played: Played, name: str) -> float:
    return statistics.mean(getattr(cost, name) for cost in played.costs)

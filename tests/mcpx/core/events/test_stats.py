"""The sums: by client, by server and tool, and bounded in the number of names."""

from __future__ import annotations

import msgspec

from mcpx.core.events import stats
from mcpx.core.events.stats import OTHERS, Count, Totals, report


def totals(*rows):
    summed = Totals()
    for client, server, tool, *count in rows:
        summed.add(client, server, tool, Count(*count))
    return summed


def test_everything_is_summed_by_client_and_by_tool():
    summed = totals(
        ("a", "git", "log", 1, 100, 10), ("b", "git", "diff", 2, 50, 5), ("a", "web", "get", 1, 7, 7)
    )
    assert summed.total == Count(4, 157, 22)
    assert summed.clients == {"a": Count(2, 107, 17), "b": Count(2, 50, 5)}
    assert summed.of_server("git") == Count(3, 150, 15)
    assert summed.of_server("none") == Count()


def test_sums_are_merged_and_the_first_day_stays():
    one, other = totals(("a", "s", "t", 1, 2, 3)), totals(("a", "s", "t", 1, 2, 3), ("b", "s", "u", 1, 1, 1))
    one.since, other.since = "2026-02-01", "2026-01-31"
    one.merge(other)
    assert one.clients == {"a": Count(2, 4, 6), "b": Count(1, 1, 1)}
    assert one.tools == {"s": {"t": Count(2, 4, 6), "u": Count(1, 1, 1)}}
    assert one.since == "2026-01-31"
    assert other.clients["a"] == Count(1, 2, 3)


def test_a_report_has_the_largest_first():
    summed = totals(("a", "s", "t", 1, 2, 3), ("b", "web", "get", 1, 70, 7))
    shown = report(summed, None)
    assert shown["since_start"] is None
    ends = {"ok": 0, "failed": 0, "refused": 0, "cancelled": 0, "cached": 0}
    assert shown["all_time"] == {
        "since": None,
        "total": {"calls": 2, "direct": 72, "spent": 10, **ends},
        "clients": [
            {"client": "b", "calls": 1, "direct": 70, "spent": 7, **ends},
            {"client": "a", "calls": 1, "direct": 2, "spent": 3, **ends},
        ],
        "servers": [
            {"server": "web", "calls": 1, "direct": 70, "spent": 7, **ends},
            {"server": "s", "calls": 1, "direct": 2, "spent": 3, **ends},
        ],
        "tools": [
            {"server": "web", "tool": "get", "calls": 1, "direct": 70, "spent": 7, **ends},
            {"server": "s", "tool": "t", "calls": 1, "direct": 2, "spent": 3, **ends},
        ],
    }


def test_the_number_of_names_is_bounded_and_nothing_is_lost(monkeypatch):
    for limit in ("MAX_CLIENTS", "MAX_SERVERS", "MAX_TOOLS"):
        monkeypatch.setattr(stats, limit, 5)
    rows = [(f"c{n}", f"s{n % 7}", f"t{n}", 1, 10, 1) for n in range(40)]
    summed, merged = totals(*rows), Totals()
    for row in rows:
        merged.merge(totals(row))
    merged.merge(totals(*rows))
    for each, calls in ((summed, 40), (merged, 80)):
        assert each.total.calls == calls
        assert sum(each.of_server(server).calls for server in each.tools) == calls
        assert len(each.clients) <= 6
        assert len(each.tools) <= 6
        names = [tool for tools in each.tools.values() for tool in tools if tool != OTHERS]
        assert len(names) <= 5


def test_it_is_plain_json_in_a_file():
    summed = totals(("a", "s", "t", 1, 2, 3))
    assert msgspec.json.decode(msgspec.json.encode(summed), type=Totals) == summed

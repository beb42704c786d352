"""The meter: what is counted under which name, how calls are sampled, and listings once for each client."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.events import costs
from mcpx.core.events import meter as meters
from mcpx.core.events.costs import cost_of_menus, tools_cost
from mcpx.core.events.meter import SAMPLES, Meter
from mcpx.core.events.stats import INSPECT, MAX_CLIENTS, MCPX, MENU, OTHERS, RESOURCES, UNNAMED, Count
from mcpx.core.protocol.context import SESSIONLESS, ClientId
from mcpx.core.rendering.tokens import estimate_result
from mcpx.core.telemetry import contained
from mcpx.core.telemetry.metrics import Activity
from tests.mcpx.core.events.counting import begun, called, ended

pytestmark = pytest.mark.anyio


def catalogue(server, *names):
    tools = {name: ToolInfo(server_name=server, name=name, input_schema={"type": "object"}) for name in names}
    return Catalogue(generation=1, tools=tools)


@pytest.fixture
def upstreams():
    git = SimpleNamespace(catalogue=catalogue("git", "log", "diff", "status"))
    return {
        "git": git,
        "web": SimpleNamespace(catalogue=catalogue("web", "get")),
        "new": SimpleNamespace(catalogue=None),
    }


@pytest.fixture
def meter(upstreams):
    return Meter(upstreams, Activity())


def answer(words):
    return msgspec.Raw(json.dumps({"content": [{"type": "text", "text": words}]}).encode())


def note(meter, *, client="c", server="git", tool="log", raw="a b c d " * 4, given=None):
    given = raw if given is None else given
    called(meter, client=client, server=server, tool=tool)
    meter.of_client(client).note(server, tool, answer(raw) if raw else b"", [bytes(answer(given))])


async def test_a_call_counts_for_its_client_and_its_tool(meter):
    note(meter, raw="x y z " * 100, given="x y z " * 10)
    totals = meter.since_start()
    count = Count(1, estimate_result("x y z " * 100), estimate_result("x y z " * 10), ok=1)
    assert totals.clients == {"c": count}
    assert totals.tools == {"git": {"log": count}}
    assert meter.all_time().total == count


async def test_what_mcpx_answers_by_itself_costs_nothing_directly(meter):
    note(meter, raw="", given="an error")
    note(meter, server="", tool=INSPECT, raw="", given="found")
    totals = meter.since_start()
    assert totals.tools["git"]["log"] == Count(1, 0, estimate_result("an error"), ok=1)
    assert totals.tools[MCPX][INSPECT] == Count(0, 0, estimate_result("found"))


async def test_names_that_do_not_exist_are_counted_together(meter):
    for number in range(100):
        note(meter, server=f"server{number}")
        note(meter, tool=f"tool{number}")
        note(meter, server="new", tool=f"tool{number}")
    note(meter, tool=RESOURCES)
    counted = {
        (server, tool): each.calls
        for server, tools in meter.since_start().tools.items()
        for tool, each in tools.items()
    }
    assert counted == {(MCPX, OTHERS): 100, ("git", OTHERS): 100, ("new", OTHERS): 100, ("git", RESOURCES): 1}


async def test_clients_are_known_by_clean_short_names_and_bounded(meter):
    note(meter, client=None)
    note(meter, client="a\x1b[2J\nb" + "x" * 1000)
    for number in range(2 * MAX_CLIENTS):
        note(meter, client=f"n{number}")
    names = meter.since_start().clients
    assert UNNAMED in names
    assert max(map(len, names)) <= 64
    assert all(name.isprintable() for name in names)
    assert len(names) <= MAX_CLIENTS + 1
    assert names[OTHERS].calls > MAX_CLIENTS
    assert meter.since_start().total.calls == 2 * MAX_CLIENTS + 2


async def test_no_name_keeps_the_sums_out_of_a_file(meter, upstreams):
    odd = "a\ud800\x1b" + "x" * 10_000
    upstreams[odd] = SimpleNamespace(catalogue=catalogue(odd, odd))
    note(meter, client=odd, server=odd, tool=odd)
    meter.note_listing(ClientId(), odd, 10)
    totals = msgspec.json.decode(msgspec.json.encode(meter.since_start()))
    assert max(map(len, (*totals["clients"], *totals["tools"]))) < 300


async def test_a_call_counts_from_its_beginning_and_ends_once(meter):
    entries = [begun(meter) for _ in range(5)]
    assert meter.since_start().of_server("git") == Count(5)
    assert meter.since_start().total.running == 5
    for entry, end in zip(entries, ("ok", "failed", "refused", "cancelled"), strict=False):
        ended(meter, entry, end)
    whole = Count(5, ok=1, failed=1, refused=1, cancelled=1)
    assert meter.since_start().clients == {"c": whole}
    assert (meter.since_start().total, meter.all_time().total, whole.running) == (whole, whole, 1)


async def test_a_call_that_asks_first_counts_once_by_its_last_end(meter):
    asked = begun(meter)
    asked.approval = "asked"
    ended(meter, asked, "refused")
    assert meter.since_start().total == Count(1, refused=1)
    meter.goes_on(asked.target)
    ended(meter, begun(meter), "ok")
    assert meter.since_start().total == Count(1, ok=1)
    meter.goes_on(asked.target)  # of which there is no question any more
    assert meter.since_start().total == Count(1, ok=1)


async def test_questions_that_nobody_answers_are_bounded(meter, monkeypatch):
    monkeypatch.setattr(meters, "MAX_QUESTIONS", 3)
    for number in range(10):
        asked = begun(meter, tool=f"t{number}")
        asked.approval = "asked"
        ended(meter, asked, "refused")
    assert len(meter._questions) == 3
    assert meter.since_start().total == Count(10, refused=10)


async def test_beyond_the_samples_calls_cost_the_average(meter, monkeypatch):
    looked_at = []
    monkeypatch.setattr(meters, "costs", lambda raw, pieces: looked_at.append(raw) or (10, 3))
    for _ in range(10 * SAMPLES):
        note(meter)
    assert len(looked_at) == SAMPLES
    assert meter.since_start().total == Count(10 * SAMPLES, 100 * SAMPLES, 30 * SAMPLES, ok=10 * SAMPLES)
    note(meter)
    assert len(looked_at) == SAMPLES + 1


async def test_large_results_have_an_average_of_their_own(meter):
    words = "word " * 20_000
    for _ in range(2 * SAMPLES):
        note(meter)
    small = meter.since_start().total.direct
    for _ in range(10):
        note(meter, raw=words, given="cut")
        note(meter)
    whole = meter.since_start().total
    assert whole.calls == 2 * SAMPLES + 20
    assert whole.direct == pytest.approx(10 * estimate_result(words) + small, rel=0.1)


async def test_a_window_ends_by_itself(meter, monkeypatch):
    monkeypatch.setattr(meters, "WINDOW_S", 0.0)
    note(meter)
    with anyio.fail_after(50):
        while not meter._since_start.clients:
            await anyio.lowlevel.checkpoint()


async def test_a_fault_of_the_meter_costs_no_call(meter, monkeypatch):
    monkeypatch.setattr(meters, "costs", lambda raw, pieces: 1 / 0)
    monkeypatch.setattr(contained, "_seen", Counter())
    with capture_logs() as logs:
        note(meter)
    assert meter.since_start().total == Count(1, 0, 0, ok=1)
    assert [line["event"] for line in logs] == ["fault.contained"]


# --- listings


async def test_a_listing_is_shared_out_among_the_servers(meter, upstreams):
    meter.note_listing(ClientId(), "c", 101)
    direct = {name: tools_cost(upstreams[name].catalogue.tools.values()) for name in ("git", "web")}
    totals = meter.since_start()
    assert {name: totals.tools[name][MENU].direct for name in totals.tools} == direct
    assert totals.total == Count(0, sum(direct.values()), 101)
    assert totals.tools["git"][MENU].spent > totals.tools["web"][MENU].spent > 0


async def test_of_a_session_the_last_listing_counts(meter, upstreams):
    client, other = ClientId(), ClientId()
    for _ in range(3):
        meter.note_listing(client, "c", 100)
        meter.note_listing(other, "d", 100)
    assert meter.since_start().total.spent == 200
    upstreams["web"].catalogue = catalogue("web", "get", "post")
    meter.note_listing(client, "c", 130)
    direct = sum(cost_of_menus(upstreams).values())
    assert meter.since_start().clients["c"] == Count(0, direct, 130)
    del upstreams["git"]
    meter.note_listing(client, "c", 90)
    totals = meter.since_start()
    assert totals.tools.keys() == {"git", "web"}  # of the other client
    assert totals.clients["c"] == Count(0, sum(cost_of_menus(upstreams).values()), 90)
    meter.client_left(client)
    meter.note_listing(client, "c", 100)
    assert meter.since_start().total.spent == 290


async def test_a_listing_that_was_replaced_leaves_nothing_in_the_file_either(meter, upstreams):
    client = ClientId()
    meter.note_listing(client, "c", 100)
    kept = meter.begin_saving()
    meter.saved(kept)
    web = upstreams.pop("web")
    meter.note_listing(client, "c", 80)
    assert meter.all_time().tools.keys() == meter.since_start().tools.keys() == {"git"}
    assert meter.all_time().total == meter.since_start().total
    upstreams["web"] = web
    meter.note_listing(client, "c", 100)
    assert meter.all_time().total == kept.total


@pytest.mark.parametrize("lists_first", [False, True])
async def test_a_session_that_another_daemon_has_counted_is_not_counted_again(meter, upstreams, lists_first):
    client = ClientId()
    if lists_first:  # its shim has had no time to say so
        meter.note_listing(client, "c", 100)
    for _ in range(2):
        meter.note_listing(client, "c", 100, counted_before=True)
        assert meter.since_start().tools == {}
    meter.note_listing(client, "c", 100)
    assert meter.since_start().tools == {}
    upstreams["web"].catalogue = catalogue("web", "get", "post")
    meter.note_listing(client, "c", 120)
    grown = tools_cost(catalogue("web", "get", "post").tools.values())
    assert meter.since_start().total.direct == grown - tools_cost(catalogue("web", "get").tools.values())
    assert meter.since_start().total.spent == 20


async def test_clients_without_a_session_are_counted_by_name_once_an_hour(meter, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(costs.time, "monotonic", lambda: now[0])
    for name in ("c", "d", "c", "d"):
        meter.note_listing(SESSIONLESS, name, 100)
    assert meter.since_start().total.spent == 200
    now[0] += 3601
    for _ in range(2):
        meter.note_listing(SESSIONLESS, "c", 100)
    assert meter.since_start().total.spent == 300


async def test_without_any_tools_the_listing_is_of_mcpx(meter, upstreams):
    upstreams.clear()
    meter.note_listing(ClientId(), "c", 100)
    assert meter.since_start().tools == {MCPX: {MENU: Count(0, 0, 100)}}


async def test_the_clients_whose_listings_are_remembered_are_bounded(meter, monkeypatch):
    monkeypatch.setattr(costs, "MAX_LISTINGS", 3)
    for _ in range(10):
        meter.note_listing(ClientId(), "c", 100)
    assert len(meter._listings._last) == 3


# --- saving


async def test_what_could_not_be_saved_is_kept_for_the_next_time(meter):
    note(meter)
    first = meter.begin_saving().total
    note(meter)
    assert meter.all_time().total.calls == 2
    meter.not_saved()
    second = meter.begin_saving()
    assert (first.calls, second.total.calls) == (1, 2)
    meter.saved(second)
    assert meter.begin_saving().clients == {}
    assert meter.all_time().total.calls == 2
    assert meter.since_start().total.calls == 2

"""In which era a stdio server is spoken to, and what is made of one that dies or falls silent at a question.

`initialize` comes first: a server that speaks both eras may then ask its client in the middle of a call, and
many a server accepts nothing before it (every one built with rmcp so far).
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.servers.session import handshake as handshakes
from mcpx.core.servers.session.greeting import shared_version
from mcpx.core.wire.envelope import MCPError
from tests.mcpx.core.servers.raw import ABOUT, heard, initialize, raw_server, refusal, result

pytestmark = pytest.mark.anyio

HANDSHAKE = ["started", "initialize", "tools/list"]
MODERN = ["started", "server/discover", "tools/list"]
ONE_TRY = {"restart": {"park_after": 1, "park_probe": 60}}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": ABOUT},
    "resultType": "complete",
    "ttlMs": -1,
    "x-vendor": [1],
}
DISCOVER = {"server/discover": result(DISCOVERED)}


async def kill(watch) -> None:
    os.kill(watch.hub.upstreams["s"].pid, signal.SIGKILL)
    await watch.leaves(State.READY)
    await watch.becomes(State.READY)


def protocol(watch) -> str:
    return watch.hub.upstreams["s"].catalogue.protocol_version


def failures(watch) -> int:
    return watch.hub.upstreams["s"].queue.lifecycle().failures


async def test_a_server_of_both_eras_is_spoken_to_by_handshake(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER) as watch:
        assert protocol(watch) == "2025-06-18"
        await kill(watch)
        assert heard(tmp_path) == [*HANDSHAKE, *HANDSHAKE]


async def test_a_server_that_takes_nothing_before_initialize_is_asked_nothing_else(tmp_path):
    async with raw_server(tmp_path, first="initialize") as watch:
        assert (watch.state(), failures(watch)) == (State.READY, 0)
        await kill(watch)
        assert heard(tmp_path) == [*HANDSHAKE, *HANDSHAKE]


@pytest.mark.parametrize(
    "answer",
    [
        refusal(-32022, "modern only"),
        refusal(-32601),
        refusal(-32600),
        refusal(-32000, "go away"),
        initialize(protocolVersion="2026-07-28"),
        initialize(protocolVersion="1999-01-01"),
        result("{}"),
        result('"hello"'),
    ],
)
async def test_a_server_that_refuses_initialize_is_asked_by_discover_in_the_same_process(answer, tmp_path):
    async with raw_server(tmp_path, answers={**DISCOVER, "initialize": answer}) as watch:
        assert (watch.state(), failures(watch), protocol(watch)) == (State.READY, 0, "2026-07-28")
        assert heard(tmp_path) == ["started", "initialize", "server/discover", "tools/list"]
        await kill(watch)
        assert heard(tmp_path)[4:] == MODERN  # it is remembered


async def test_a_server_that_dies_at_initialize_is_asked_by_discover_in_a_fresh_process(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER, first="server/discover") as watch:
        assert (watch.state(), failures(watch), protocol(watch)) == (State.READY, 0, "2026-07-28")
        assert heard(tmp_path) == ["started", *MODERN]
        await kill(watch)
        assert heard(tmp_path) == ["started", *MODERN, *MODERN]  # it is remembered


async def test_a_server_that_refuses_initialize_and_then_leaves_is_asked_by_discover_alone(tmp_path):
    answers = {**DISCOVER, "initialize": refusal(-32601)}
    async with raw_server(tmp_path, answers=answers, spoilt_by="initialize", settings=ONE_TRY) as watch:
        assert (watch.state(), protocol(watch)) == (State.READY, "2026-07-28")
        assert heard(tmp_path) == ["started", "initialize", "server/discover", *MODERN]


async def test_a_server_that_is_silent_at_initialize_is_asked_by_discover_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(handshakes, "SILENCE_S", 0.05)
    async with raw_server(tmp_path, answers={**DISCOVER, "initialize": "silent"}) as watch:
        assert (watch.state(), failures(watch), protocol(watch)) == (State.READY, 0, "2026-07-28")
        assert heard(tmp_path) == ["started", "initialize", "server/discover", "tools/list"]


async def test_a_server_that_initialize_silences_for_good_is_asked_by_discover_next(tmp_path):
    settings = {"connect_timeout": 0.5}
    async with raw_server(tmp_path, answers=DISCOVER, silenced_by="initialize", settings=settings) as watch:
        await watch.becomes(State.READY)
        assert protocol(watch) == "2026-07-28"
        assert heard(tmp_path) == ["started", "initialize", *MODERN]


async def test_a_slow_server_that_a_second_question_kills_gets_time_for_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(handshakes, "SILENCE_S", 0.05)
    answers = {"server/discover": "exit"}
    async with raw_server(tmp_path, answers=answers, slow_at="initialize", slow_s=0.6) as watch:
        assert (watch.state(), failures(watch), protocol(watch)) == (State.READY, 0, "2025-06-18")
        assert heard(tmp_path) == ["started", "initialize", "server/discover", *HANDSHAKE]


async def test_a_server_that_takes_the_known_era_no_more_is_asked_in_the_usual_order_again(tmp_path):
    answers = {**DISCOVER, "initialize": refusal(-32601)}
    async with raw_server(tmp_path, answers=answers) as watch:
        script = json.loads((tmp_path / "s.json").read_text())
        script["answers"], script["first"] = {}, "initialize"
        (tmp_path / "s.json").write_text(json.dumps(script))
        await watch.hub.restart("s")
        assert (watch.state(), failures(watch), protocol(watch)) == (State.READY, 0, "2025-06-18")
        await watch.hub.restart("s")
        assert heard(tmp_path)[-3:] == HANDSHAKE


async def test_a_server_that_dies_both_ways_is_told_by_its_death(tmp_path):
    answers = {"server/discover": "exit", "initialize": "exit"}
    async with raw_server(tmp_path, answers=answers, settings=ONE_TRY) as watch:
        assert (watch.state(), failures(watch)) == (State.PARKED, 1)
        info = watch.hub.upstreams["s"].info()
        assert info.cause == "the server process exited with code 1 during the handshake"
        assert heard(tmp_path) == ["started", "initialize", "started", "server/discover"]


@pytest.mark.parametrize(
    ("first", "then", "cause"),
    [
        (refusal(-32000, "no seat"), refusal(-32601), "no seat (-32000)"),
        (refusal(-32601), refusal(-32022, "only 2031"), "only 2031 (-32022)"),
    ],
)
async def test_a_server_that_refuses_both_is_told_by_its_own_words(first, then, cause, tmp_path):
    answers = {"server/discover": then, "initialize": first}
    async with raw_server(tmp_path, answers=answers, settings=ONE_TRY) as watch:
        assert watch.hub.upstreams["s"].info().cause == f"the server refused the session: {cause}"


ODD = {
    "tools: true": {"capabilities": {"tools": True}},
    "capabilities left out": {"capabilities": None},
    "a lifetime that is a text": {"ttlMs": "long"},
    "another version that is a number": {"supportedVersions": [2031, "2026-07-28"]},
    "instructions that are a list": {"instructions": ["do this"]},
    "_meta that is null": {"_meta": None},
}


@pytest.mark.parametrize("oddity", ODD)
async def test_an_odd_answer_to_discover_is_taken(oddity, tmp_path):
    answers = {"server/discover": result({**DISCOVERED, **ODD[oddity]}), "initialize": refusal(-32601)}
    async with raw_server(tmp_path, answers=answers, settings=ONE_TRY) as watch:
        assert (watch.state(), protocol(watch)) == (State.READY, "2026-07-28")


# --- pinned


async def test_a_pinned_server_is_asked_in_that_era_alone(tmp_path):
    async with raw_server(tmp_path, answers=DISCOVER, settings={"era": "modern"}) as watch:
        assert protocol(watch) == "2026-07-28"
        assert heard(tmp_path) == MODERN
    (tmp_path / "s.ears").unlink()
    async with raw_server(tmp_path, answers=DISCOVER, settings={"era": "handshake"}) as watch:
        assert protocol(watch) == "2025-06-18"
        assert heard(tmp_path) == HANDSHAKE


PINNED = {
    "refused": (refusal(-32601), "the server refused the session: no (-32601)"),
    "death": ("exit", "the server process exited with code 1 during the handshake"),
    "silence": ("silent", "no answer to the handshake within 1 s"),
    "nothing of use": (result("{}"), "the server's answer is not MCP"),
}


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.parametrize("how", PINNED)
async def test_a_server_that_does_not_speak_the_pinned_era_says_so(how, era, tmp_path):
    answer, cause = PINNED[how]
    method = {"handshake": "initialize", "modern": "server/discover"}[era]
    settings = {**ONE_TRY, "era": era, "connect_timeout": 1}
    async with raw_server(tmp_path, answers={method: answer}, settings=settings) as watch:
        shown = watch.hub.upstreams["s"].info().cause
        assert shown.startswith(
            f'the server does not speak the {era} era, and its setting "era" allows no other: {cause}'
        )
        assert heard(tmp_path) == ["started", method]


@pytest.mark.parametrize(
    ("code", "data", "shared"),
    [
        (-32022, {"supported": ["2030-01-01", "2026-07-28"], "requested": "2026-07-28"}, "2026-07-28"),
        (-32022, {"supported": ["2025-11-25"]}, None),
        (-32022, {"supported": "2026-07-28"}, None),
        (-32022, None, None),
        (-32601, {"supported": ["2026-07-28"]}, None),
    ],
)
def test_the_revision_that_a_refusal_names_is_asked_for_if_it_is_known(code, data, shared):
    assert shared_version(MCPError(code, "refused", data)) == shared

"""What was used after a search, in memory and in its file."""

from __future__ import annotations

import json
import stat

import pytest

from mcpx.core.catalog.search import known_words
from mcpx.core.events import search_history
from mcpx.core.events.records import Records
from mcpx.core.events.search_history import HistoryFile, SearchHistory
from mcpx.core.protocol.context import Origin
from supervisors import Reply
from tests.mcpx.core.rendering.snapshots import server, tool

ME = Origin(transport="stdio", client="test/1")
OTHER_CLIENT = Origin(transport="stdio", client="other/1")
ANN = Origin(transport="http", client="test/1", token="ann")
GOLD, TIME = ("calculator", "calculate"), ("time", "get_current_time")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def used(history: SearchHistory, query: str, *tools: tuple[str, str], by: Origin = ME) -> None:
    history.searched(by, query.split())
    for each in tools:
        history.used(by, each)


def test_what_was_used_after_a_search_is_likely_after_one_in_like_words():
    history = SearchHistory()
    used(history, "price gold market", GOLD)
    used(history, "train station ticket", TIME, by=OTHER_CLIENT)
    assert history.likely(ME, ["price", "silver", "market"]) == [GOLD]
    assert history.likely(OTHER_CLIENT, ["gold"]) == [GOLD]
    assert history.likely(ME, ["ticket", "train"]) == [TIME]
    assert history.likely(ME, ["paint", "a", "picture"]) == []
    assert history.likely(ME, []) == []


def test_the_nearer_search_counts_more():
    history = SearchHistory()
    used(history, "find file", ("fs", "find"))
    history.open.clear()
    used(history, "find price gold", GOLD)
    assert history.likely(ME, ["price", "gold"])[0] == GOLD
    assert history.likely(ME, ["find", "price", "gold"])[0] == GOLD
    assert history.likely(ME, ["find", "file"])[0] == ("fs", "find")


def test_a_call_is_noted_with_the_last_searches_of_its_client_and_for_a_time():
    clock = Clock()
    history = SearchHistory(now=clock)
    used(history, "price gold")
    history.searched(ME, ["market"])
    history.used(OTHER_CLIENT, TIME)
    assert history.people == {}
    history.used(ME, GOLD)
    assert history.likely(ME, ["gold"]) == history.likely(ME, ["market"]) == [GOLD]
    clock.now = 10_000.0
    history.used(ME, TIME)
    assert history.likely(ME, ["gold"]) == [GOLD]


def test_people_with_tokens_of_their_own_share_nothing():
    history = SearchHistory()
    used(history, "price gold", GOLD, by=ANN)
    assert history.likely(ME, ["gold"]) == []
    assert history.likely(ANN, ["gold"]) == [GOLD]


def test_it_is_bounded():
    history = SearchHistory()
    for number in range(1000):
        words = " ".join(f"w{number}x{n}" for n in range(100))
        used(
            history,
            words,
            *((f"s{n}", "t") for n in range(50)),
            by=Origin(transport="http", token=f"t{number}"),
        )
        used(history, words, GOLD)
    assert len(history.people) == search_history.MAX_PEOPLE
    searches = [search for each in history.people.values() for search in each]
    assert max(map(len, history.people.values())) <= search_history.MAX_SEARCHES
    assert max(len(search.words) for search in searches) == search_history.MAX_WORDS
    assert max(len(search.tools) for search in searches) == search_history.MAX_TOOLS
    assert len(history.open) <= 64


def test_only_words_are_kept_that_the_tools_or_the_synonyms_know():
    bank = server("bank", tool("list_invoices", "Lists the invoices of a customer", "customer"))
    said = known_words([bank], "invoices of customer Mustermann, IBAN DE0212 030000, sk-9f3: rain 7")
    assert said == ["invoic", "custom", "rain"]


@pytest.mark.parametrize("ends_well", [True, False])
def test_calls_that_end_well_are_noted_and_no_others(ends_well):
    class NoLog:
        is_written = False

    history = SearchHistory()
    records = Records(NoLog())
    records.uses = history
    history.searched(ME, ["gold"])
    for kind, name in (("tool", "calculate"), ("resource", "file:///secret")):
        reply = Reply()
        reply.observer = records.begin(kind, "calculator", name, b'{"secret": 1}', ME)
        reply.resolve(b'{"content": [], "isError": %s}' % (b"false" if ends_well else b"true"))
    assert history.likely(ME, ["gold"]) == ([GOLD] if ends_well else [])


# --- the file


def kept_in(tmp_path, history, *, wanted=True) -> HistoryFile:
    return HistoryFile(history, tmp_path / "here", lambda: wanted)


@pytest.mark.anyio
async def test_the_file_is_private_and_holds_words_and_names_alone(tmp_path):
    history = SearchHistory()
    used(history, "price gold", GOLD)
    file = kept_in(tmp_path, history)
    await file.keep()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    ((words, tools),) = json.loads(file.path.read_bytes())[""]
    assert (sorted(words), tools) == (["gold", "price"], [list(GOLD)])
    again = SearchHistory()
    await kept_in(tmp_path, again).read()
    assert again.likely(ME, ["gold"]) == [GOLD]


@pytest.mark.anyio
async def test_without_the_file_everything_is_forgotten(tmp_path):
    history = SearchHistory()
    used(history, "price gold", GOLD)
    file = kept_in(tmp_path, history)
    await file.keep()
    file.path.unlink()
    await file.keep()
    assert history.likely(ME, ["gold"]) == []
    assert not file.path.exists()
    used(history, "price gold", TIME)
    await file.keep()
    assert b"calculate" not in file.path.read_bytes()


@pytest.mark.anyio
async def test_turned_off_everything_is_deleted(tmp_path):
    history = SearchHistory()
    used(history, "price gold", GOLD)
    await kept_in(tmp_path, history).keep()
    off = kept_in(tmp_path, history, wanted=False)
    await off.keep()
    assert not off.path.exists()
    assert history.people == {}


@pytest.mark.anyio
@pytest.mark.parametrize("content", [b"", b"[]", b'{"": [[7]]}', b"{" * 5000])
async def test_a_file_that_is_none_is_begun_again(tmp_path, content):
    history = SearchHistory()
    file = kept_in(tmp_path, history)
    file.path.parent.mkdir(mode=0o700)
    file.path.write_bytes(content)
    file.path.chmod(0o600)
    await file.read()
    used(history, "price gold", GOLD)
    await file.keep()
    again = SearchHistory()
    await kept_in(tmp_path, again).read()
    assert again.likely(ME, ["gold"]) == [GOLD]

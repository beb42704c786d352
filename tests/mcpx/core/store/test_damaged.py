"""Files of MCPX with a byte that is no UTF-8, as a failing disk leaves it: each is begun anew, or refused."""

from __future__ import annotations

import pytest

from mcpx.core.events.search_history import HistoryFile, SearchHistory
from mcpx.core.events.stats_file import StatsFile
from mcpx.core.policy.agreements import STORE, Agreements
from mcpx.core.policy.tokens import TokenError, load_named
from mcpx.core.servers.offers import remembered
from mcpx.core.servers.transport.ledger import Ledger
from tests.mcpx.core.events.test_stats_file import counted

DAMAGED = b'{"\xff": {"\xfe": 1}, "children": {"\xff": {}}}'


@pytest.fixture
def damaged(tmp_path):
    """Write such a file of that name, and return its path."""

    def write(name, content=DAMAGED):
        path = tmp_path / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    return write


def test_agreements_count_as_none_and_are_not_overwritten(damaged):
    agreements = Agreements(damaged(STORE).parent)
    assert agreements.look() is False


def test_the_sums_are_begun_again(damaged):
    file = StatsFile(damaged("stats.json", b'{"since": "\xff"}').parent)
    assert file.read().total.calls == 0
    assert file.add(counted()).total.calls == 1


def test_tokens_are_refused_with_what_to_do(damaged):
    with pytest.raises(TokenError, match="remove it, and make new ones"):
        load_named(damaged("tokens.json", b'{"tokens": [{"name": "\xff"}]}'))


def test_a_ledger_is_not_believed(damaged):
    ledger = Ledger(damaged("children/1-1.json").parent.parent)
    assert ledger.sweep() == []


def test_a_catalogue_is_unreadable(damaged):
    with pytest.raises(remembered.UnreadableCatalogue):
        remembered._read_file(damaged("c.json", b'{"server": "\xff"}'), "x")


@pytest.mark.anyio
async def test_a_history_is_begun_again(damaged):
    history = SearchHistory()
    await HistoryFile(history, damaged("searches.json").parent, lambda: True).read()
    assert history.people == {}

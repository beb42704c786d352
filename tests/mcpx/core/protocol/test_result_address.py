"""Addresses of kept results, as MCPX writes them and as models do."""

from __future__ import annotations

import pytest

from mcpx.core.protocol.result_address import ResultAddress, read_address
from mcpx.errors import CallError, Code


@pytest.mark.parametrize(
    ("address", "written"),
    [
        (ResultAddress("7f3a"), "mcpx://result/7f3a"),
        (ResultAddress("7f3a", start=60), "mcpx://result/7f3a?from=60"),
        (ResultAddress("7f3a", 2, 60, 20), "mcpx://result/7f3a?block=2&from=60&count=20"),
        (
            ResultAddress("7f3a", start=60, in_characters=True),
            "mcpx://result/7f3a?from=60&unit=characters",
        ),
        (ResultAddress("7f3a", select="a.b"), "mcpx://result/7f3a?select=a.b"),
        (ResultAddress("7f3a", select='[?a=="&from=1"]'), None),
        (ResultAddress("7f3a", start=1, select="sort_by(a, &b) && c%20 | 'é\"'"), None),
    ],
)
def test_what_is_written_is_read_again(address, written):
    assert read_address(str(address)) == address
    assert str(address) == (written or str(address))
    assert str(address).isascii()
    assert '"' not in str(address)


def test_the_call_that_reads_it():
    assert ResultAddress("7f3a", start=60).call == 'resources("mcpx", "mcpx://result/7f3a?from=60")'


@pytest.mark.parametrize(
    ("uri", "select"),
    [
        ("mcpx://result/7f3a?select=items[].{id: id, title: title}", "items[].{id: id, title: title}"),
        ("mcpx://result/7f3a?select=items%5B%5D.id", "items[].id"),
        ("mcpx://result/7f3a?select=sort_by(a, &b)[?c && d]&from=3", "sort_by(a, &b)[?c && d]"),
        ("mcpx://result/7f3a/?from=3&select=a=b", "a=b"),
        ("mcpx://result/7f3a?", None),
    ],
)
def test_expressions_need_not_be_encoded(uri, select):
    assert read_address(uri).select == select


@pytest.mark.parametrize("query", ["from=-1", "from=x", "count=0", "block=0", "page=3", "from=9" + "9" * 20])
def test_what_cannot_be_read_is_named(query):
    with pytest.raises(CallError) as refused:
        read_address(f"mcpx://result/7f3a?{query}")
    assert (refused.value.code, query[:30] in str(refused.value)) == (Code.INVALID_ARGUMENTS, True)


@pytest.mark.parametrize(
    "uri", ["mcpx://result/", "mcpx://result/XYZ1", "mcpx://results/7f3a", "file:///result/7f3a", "7f3a"]
)
def test_other_uris_are_none(uri):
    assert read_address(uri) is None

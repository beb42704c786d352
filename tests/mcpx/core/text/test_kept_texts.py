"""What is kept by a text that a client or a server chooses is not kept by one of any length."""

from __future__ import annotations

import pytest

from mcpx.core.config.profiles import _fits, fits
from mcpx.core.events.records import MAX_NAMES_CHARS, Records
from mcpx.core.protocol.context import MAX_CLIENT_CHARS, _capabilities, name_kept, read_capabilities
from mcpx.core.rendering.tokens import _line, _piece, estimate

LONG = 300_000


@pytest.mark.parametrize(
    ("cached", "ask"),
    [
        (_fits, lambda text: fits(text, "a*")),
        (_line, lambda text: estimate(f"{text} and more")),
        (
            _capabilities,
            lambda text: read_capabilities(b'{"sampling":{},"experimental":{"%b":{}}}' % text.encode()),
        ),
    ],
)
def test_a_long_text_is_answered_and_not_kept(cached, ask):
    assert ask("ab")
    kept = cached.cache_info().currsize
    assert ask("ab" * LONG)
    assert cached.cache_info().currsize == kept


def test_the_pieces_of_a_long_line_are_short():
    before = _piece.cache_info().currsize
    for run in ("x", "!", "é", " "):
        assert estimate(run * LONG) > 0
    assert _piece.cache_info().currsize <= before + 12


def test_a_record_keeps_no_name_of_any_length():
    class NoLog:
        is_written = False

    records = Records(NoLog())
    for server, name in (("s" * LONG, "t"), ("s", "t" * LONG), ("s", "s:///" + "t" * LONG)):
        record = records.begin("resource" if ":" in name else "tool", server, name)
        assert sum(map(len, record.target[1:])) < MAX_NAMES_CHARS + 100


def test_long_names_of_clients_stay_apart():
    one, other = ("x" * MAX_CLIENT_CHARS + end for end in "ab")
    assert len(name_kept(one)) == len(name_kept(other)) == MAX_CLIENT_CHARS
    assert name_kept(one) != name_kept(other)
    assert (name_kept("short"), name_kept(None)) == ("short", None)

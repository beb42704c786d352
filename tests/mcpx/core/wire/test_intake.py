"""Large messages: put together within bounds, checked piece by piece, split without being decoded."""

from __future__ import annotations

import gc
import random

import anyio
import msgspec
import pytest

from mcpx.core.servers.passthrough.messages import result_answer, result_of
from mcpx.core.wire import envelope, intake
from mcpx.core.wire.intake import LARGE_BYTES, SHARED_BYTES, Intake, LargeMessage, Reader, is_cut
from mcpx.core.wire.lines import LineSplitter, TooLong
from mcpx.core.wire.malformed import Mender, mend_lone_surrogates
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio
PIECE = 1 << 20


class Peer(Reader):
    """Sends one line, and waits where it is held."""

    def __init__(self, limit=1 << 30, mender=None):
        self.held = False
        self.splitter = LineSplitter(limit, self, mender)

    def hold(self):
        self.held = True

    def release(self):
        self.held = False

    def send(self, size):
        """Send up to `size` bytes, as far as it is read; how many."""
        sent = 0
        while sent < size and not self.held:
            self.splitter.feed(b"x" * PIECE)
            sent += PIECE
        return sent

    def end(self):
        (line,) = self.splitter.feed(b"\n")
        return line


@pytest.fixture
def turns(monkeypatch):
    made = Intake()
    monkeypatch.setattr(intake, "INTAKE", made)
    return made


async def test_beyond_what_is_shared_one_at_a_time_grows(turns):
    peers = [Peer() for _ in range(8)]
    sent = [peer.send(SHARED_BYTES * 2) for peer in peers]
    assert sent[0] == SHARED_BYTES * 2
    assert all(peer.held for peer in peers[1:])
    assert turns.held == sum(sent) <= 3 * SHARED_BYTES + len(peers) * LARGE_BYTES * 2
    line = peers[0].end()
    assert peers[1].held  # until the first is done with
    del line
    assert not peers[1].held
    assert all(peer.held for peer in peers[2:])


async def test_what_is_left_behind_counts_no_more(turns):
    first, second = Peer(), Peer()
    first.send(2 * SHARED_BYTES)
    second.send(SHARED_BYTES)
    assert second.held
    first.splitter.drop()  # its connection has ended
    assert not second.held
    second.splitter.drop()
    gc.collect()
    assert turns.held == 0


async def test_a_result_that_its_client_does_not_read_holds_nobody_up(turns, monkeypatch):
    monkeypatch.setattr(intake, "UNREAD_S", 0.0)
    unread, other = Peer(), Peer()
    unread.send(SHARED_BYTES + PIECE)
    line = unread.end()
    result = msgspec.Raw(b"{}")
    turns.carries(line, result)
    with turns.at_work(result):
        other.send(SHARED_BYTES)
        assert other.held
        await anyio.sleep(3 * intake._LOOK_S)
        assert other.held  # its client has not had it yet
    await soon(lambda: not other.held)
    assert turns.held < SHARED_BYTES  # what is left unread is bounded for each client
    assert len(line) > SHARED_BYTES


async def test_who_stops_in_the_middle_loses_its_turn_and_its_message(turns, monkeypatch):
    monkeypatch.setattr(intake, "STALL_S", 0.05)
    monkeypatch.setattr(intake, "_LOOK_S", 0.01)
    stalls, waits = Peer(), Peer()
    stalls.send(2 * SHARED_BYTES)
    waits.send(SHARED_BYTES)
    await soon(lambda: not waits.held)
    assert turns.held < SHARED_BYTES
    waits.send(SHARED_BYTES)
    assert len(waits.end()) > SHARED_BYTES
    stalls.send(PIECE)
    line = stalls.end()
    assert isinstance(line, TooLong)
    assert line.problem == "not sent to its end in time"


def pieces_of(text, size=1000):
    return [text[at : at + size] for at in range(0, len(text), size)]


def line_of(text, size=1000, mender=None):
    splitter = LineSplitter(1 << 30, Peer(), mender)
    for piece in pieces_of(text, size):
        assert splitter.feed(piece) == []
    (line,) = splitter.feed(b"\n")
    return line


def test_it_is_checked_piece_by_piece(turns):
    good = ("ä€😀" * (LARGE_BYTES // 8)).encode()
    for size in (999, 1000, 1001):
        line = line_of(good, size)
        assert line == good
        assert line.error is None
    assert line_of(good + b"\xff").error is not None
    assert line_of(good + "ä".encode()[:1]).error is not None


def test_lone_surrogates_are_mended_piece_by_piece(turns):
    unit = rb"\ud83d\ude00 \ud83d \\ud83d \ude00" + b"x" * 997
    text = unit * (LARGE_BYTES // 1000)
    mended = mend_lone_surrogates(unit) * (LARGE_BYTES // 1000)
    assert line_of(text, 997, Mender) == mended


BODY = b'{"content":[' + b" " * LARGE_BYTES + b"]}"


@pytest.mark.parametrize(
    ("line", "id_", "member"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":%b}', 7, "result"),
        (b'{ "jsonrpc": "2.0", "result": %b, "id": 7 }', 7, "result"),
        (b'{"result":%b,"jsonrpc":"2.0","id":"a"}', "a", "result"),
        (b'{"id":7,"jsonrpc":"2.0","error":%b}\r', 7, "error"),
        (b'{"method":"tools/call","params":%b,"jsonrpc":"2.0","id":1}', 1, "params"),
        (b'{"jsonrpc":"2.0","method":"notifications/x","params":%b}', None, "params"),
    ],
)
def test_it_is_split_at_its_ends(turns, line, id_, member):
    message = envelope.split_large(line_of(line % BODY))
    assert message.id == id_
    assert bytes(getattr(message, member)) == BODY


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"result":%b,"id":8}',
        b'{"jsonrpc":"2.0","id":7,"method":"x","result":%b}',
        b'{"jsonrpc":"2.0","id":7,"params":%b}',
        b"[%b]",
        b'{"jsonrpc":"2.0","id":"\x16","result":%b}',
        b'{"jsonrpc":"2.0","id":"a\x01b","method":"x","params":%b}',
    ],
)
def test_any_other_is_not_split(turns, line):
    assert envelope.split_large(line_of(line % BODY)) is None


@pytest.mark.parametrize(
    "line", [b'{"id":"\x16","method":"x"}', b'{"id":"\xff","method":"x"}', b'{"id":1}', b"[]"]
)
def test_a_request_is_not_split_off_what_is_no_json(line):
    assert envelope.split_request(line) is None


async def test_a_large_result_goes_on_as_an_answer_without_a_copy(turns, monkeypatch):
    monkeypatch.setattr("mcpx.core.servers.passthrough.messages.INTAKE", turns)
    line = line_of(b'{"jsonrpc":"2.0","id":7,"result" : %b}' % BODY)
    result = envelope.split_large(line).result
    turns.carries(line, result)
    size = len(line)
    del line
    answer = result_answer(result)
    assert turns.outline(result) is None  # it is known by the answer alone, which lives as long
    del result
    assert bytes(answer) == b'"result":' + BODY
    assert bytes(result_of(answer)) == BODY
    assert turns.held == size  # it is the message itself
    del answer
    assert turns.held == 0


# --- the outline: what is left without the long strings

LIKELY = [
    *(rb"\"", rb"\\", rb"\n", rb"\u00e9", rb"\ud83d\ude00", rb"\ud83d", rb"\ude00", rb"\/", b"\\" * 6),
    *(each.encode() for each in ("a", "bc", " ", "{", "}", "[", "]", ",", ":", "é", "😀", "x" * 15)),
]
BROKEN = [b"\\", b"\n", b"\x01", rb"\u12", rb"\q", b'"']
decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def any_string(dice):
    inner = dice.choices(LIKELY, k=dice.choice([0, 1, 3, 8, 20]))
    if dice.random() < 0.02:
        inner.append(dice.choice(BROKEN))
    return b'"%b"' % b"".join(inner)


def any_value(dice, depth=0):
    kind, space = dice.random(), dice.choice([b"", b" ", b"  "])
    if depth > 3 or kind < 0.5:
        return any_string(dice)
    if kind < 0.6:
        return dice.choice([b"1", b"-2.5e3", b"true", b"null"])
    values = [any_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind < 0.8:
        return b"[%b]" % (b"," + space).join(values)
    return b"{%b}" % b",".join(any_string(dice) + space + b":" + space + value for value in values)


def message_of(line, dice=None):
    """A message that has come in pieces, and its result."""
    message, at = LargeMessage(Peer(), Mender()), 0
    while at < len(line):
        size = 1 << 16 if dice is None else dice.choice([1, 2, 3, 5, 7, 11, 30, 100])
        message.add(line[at : at + size])
        at += size
    message.end()
    found = envelope.split_large(message)
    return message, found.result if found else None


def is_object(raw):
    try:
        decode_members(raw)
    except msgspec.DecodeError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_an_outline_is_json_where_its_message_is_and_stands_for_all_of_it(seed, turns, monkeypatch):
    monkeypatch.setattr(intake, "_LONG_BYTES", 12)
    dice, used = random.Random(seed), 0
    for _ in range(1000):
        values = [b'"k%d":%b' % (number, any_value(dice)) for number in range(dice.randrange(1, 4))]
        head = dice.choice([b'{"jsonrpc":"2.0","id":1,"result":', b'{"id" : 7 , "result" : '])
        line = b"%b{%b}%b" % (head, b",".join(values), dice.choice([b"}", b" }", b',"jsonrpc":"2.0"}']))
        message, result = message_of(line, dice)
        mended = mend_lone_surrogates(line)
        is_json = is_object(mended)
        if not result:
            continue
        assert bytes(result) in mended or not is_json
        turns.carries(message, result)
        outline = turns.outline(result)
        if outline is None:
            assert not is_json
            continue
        used += 1
        assert is_object(outline.content) == is_json
        assert b"".join(outline.filled(outline.content, result)) == bytes(result)
        if is_json:
            whole = decode_members(result)
            for name, value in decode_members(outline.content).items():
                assert bytes(outline.whole(result, value)) == bytes(whole[name])
    assert used > 800


def result_with(member):
    return message_of(b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text",%b}]}}' % member)


def test_of_a_long_text_little_is_left_to_be_read(turns):
    message, result = result_with(b'"text":"%b"' % (rb"\"line\"\n" * 500_000))
    turns.carries(message, result)
    outline = turns.outline(result)
    assert len(outline.content) < 100
    assert is_cut(outline.content)
    assert turns.looked_at(result) is outline.content
    pieces = outline.filled(outline.content, result)
    assert [len(piece) for piece in pieces] == [34, 5_000_002, 3]


def test_of_many_values_or_of_no_json_there_is_no_outline(turns):
    broken = b'"text":"%b\n%b"' % (b"x" * LARGE_BYTES, b"x" * LARGE_BYTES)
    for member in (b'"text":[%b1]' % (b'"a",' * 600_000), broken):
        message, result = result_with(member)
        turns.carries(message, result)
        assert turns.outline(result) is None
        assert turns.looked_at(result) is result


def test_what_stands_in_another_string_is_not_filled_in(turns):
    message, result = result_with(b'"text":"%b"' % (b"x" * LARGE_BYTES))
    turns.carries(message, result)
    outline = turns.outline(result)
    with pytest.raises(ValueError, match="cannot be filled in"):
        outline.filled(msgspec.json.encode(bytes(outline.content).decode()), result)

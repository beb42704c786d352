"""Large messages: put together within bounds, checked piece by piece, split without being decoded."""

from __future__ import annotations

import gc

import anyio
import pytest

from mcpx.core.servers.passthrough.messages import result_answer, result_of
from mcpx.core.wire import envelope, intake
from mcpx.core.wire.intake import LARGE_BYTES, SHARED_BYTES, Intake, Reader
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
    result = object.__new__(type("Result", (), {}))
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
    del result
    assert bytes(answer) == b'"result":' + BODY
    assert bytes(result_of(answer)) == BODY
    assert turns.held == size  # it is the message itself
    del answer
    assert turns.held == 0

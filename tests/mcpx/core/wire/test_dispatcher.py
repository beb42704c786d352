"""The dispatcher over real pipes, against another one and against raw lines."""

from __future__ import annotations

import json
import os
import select
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from mcpx.core.wire.channel import HIGH_WATER, Channel
from mcpx.core.wire.dispatcher import WireDispatcher
from mcpx.core.wire.envelope import MCPError
from mcpx.core.wire.incoming import MAX_OPEN_REQUESTS
from mcpx.core.wire.outgoing import ResponseTooLarge
from mcpx.core.wire.turn import flush_all


class Peer:
    """A dispatcher that answers `echo`, waits in `hang`, and notes what it is told."""

    def __init__(self, reads, writes, limit=1 << 20):
        self.rubbish, self.notes, self.cancelled = [], [], anyio.Event()
        self.noted = anyio.Event()
        self.channel = Channel(reads, writes)
        self.wire = WireDispatcher(
            self.channel, limit=limit, on_malformed=lambda *told: self.rubbish.append(told)
        )

    async def on_request(self, context, method, params):
        if method == "echo":
            return {"got": params}
        if method == "progress":
            for step in (1.0, 2.0):
                await context.progress(step, 2.0, f"step {step:g}")
            return {}
        if method == "hang":
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        if method == "initialize":
            await anyio.sleep(0.02)
            self.notes.append("initialized")
            return {}
        raise MCPError(-32601, "no such method", {"method": method})

    async def on_notify(self, _context, method, params):
        self.notes.append((method, params))
        self.noted.set()


@asynccontextmanager
async def pair(**limits):
    """Two running peers, joined by pipes."""
    fds = [*os.pipe(), *os.pipe()]
    for fd in fds:
        os.set_blocking(fd, False)
    near, far = Peer(fds[0], fds[3], **limits), Peer(fds[2], fds[1])
    try:
        async with anyio.create_task_group() as tasks:
            for peer in (near, far):
                await tasks.start(peer.wire.run, peer.on_request, peer.on_notify)
            with anyio.fail_after(50):
                yield near, far
            near.wire.end()
            far.wire.end()
    finally:
        near.channel.close()
        far.channel.close()
        for fd in fds:
            os.close(fd)


@pytest.mark.anyio
async def test_requests_cross_and_each_gets_its_own_answer():
    async with pair() as (near, far):
        answers = {}

        async def ask(peer, number):
            answers[peer, number] = await peer.wire.send_raw_request("echo", {"n": number})

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(ask, near, number)
                tasks.start_soon(ask, far, number)
        assert all(answer["got"] == {"n": number} for (_, number), answer in answers.items())
        assert len(answers) == 100


@pytest.mark.anyio
async def test_an_error_answer_keeps_code_message_and_data():
    async with pair() as (near, _far):
        with pytest.raises(MCPError, match="no such method") as caught:
            await near.wire.send_raw_request("nonsense", None)
        assert (caught.value.code, caught.value.data) == (-32601, {"method": "nonsense"})


@pytest.mark.anyio
async def test_progress_reaches_whoever_asked():
    async with pair() as (near, _far):
        seen = []

        async def progressed(progress, total, message):
            seen.append((progress, total, message))

        await near.wire.send_raw_request("progress", None, {"on_progress": progressed})
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert seen == [(1.0, 2.0, "step 1"), (2.0, 2.0, "step 2")]


@pytest.mark.anyio
async def test_a_timeout_and_a_cancelled_caller_cancel_at_the_peer():
    async with pair() as (near, far):
        with pytest.raises(MCPError, match="timed out") as caught:
            await near.wire.send_raw_request("hang", None, {"timeout": 0.05})
        assert caught.value.code == REQUEST_TIMEOUT
        await far.cancelled.wait()
        far.cancelled = anyio.Event()
        with anyio.move_on_after(0.05):
            await near.wire.send_raw_request("hang", None)
        await far.cancelled.wait()
        assert not far.wire.busy


@pytest.mark.anyio
async def test_the_end_of_the_channel_fails_what_is_open():
    async with pair() as (near, far):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect_closed, near)
            await until(lambda: far.wire.busy)
            near.wire.end()
        with pytest.raises(MCPError):
            await near.wire.send_raw_request("echo", None)


async def expect_closed(peer):
    with pytest.raises(MCPError) as caught:
        await peer.wire.send_raw_request("hang", None)
    assert caught.value.code == CONNECTION_CLOSED


async def until(condition):
    """Yield to the loop until `condition` holds."""
    while not condition():
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_what_follows_initialize_waits_for_it():
    async with pair() as (near, far):
        lines = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "echo", "params": {}},
        ]
        near.channel.write(*(json.dumps(line).encode() + b"\n" for line in lines))
        flush_all()
        await far.noted.wait()
        assert far.notes == ["initialized", ("notifications/initialized", None)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "line",
    [
        b"rubbish",
        b"{}",
        b"[1,2]",
        b"null",
        b'{"jsonrpc":"2.0","id":1.5,"method":"echo"}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":99,"error":{"code":"x"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":3}',
        b'{"jsonrpc":"2.0","id":7,"method":"echo","params":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"jsonrpc":"2.0","id":8,"method":"echo","params":"text"}',
        b"\xff\xfe\xfd",
        b'{"jsonrpc":"2.0","method":"x","params":{"a":"\xff"}}',
    ],
)
async def test_whatever_a_peer_sends_the_session_lives(line):
    async with pair() as (near, far):
        far.channel.write(line + b"\n")
        flush_all()
        assert await far.wire.send_raw_request("echo", {"still": "here"}) == {"got": {"still": "here"}}
        assert await near.wire.send_raw_request("echo", {}) == {"got": None}


@pytest.mark.anyio
@pytest.mark.parametrize("id_first", [True, False])
async def test_an_answer_over_the_limit_fails_its_request_and_no_other(id_first):
    async with pair(limit=10_000) as (near, far):
        outcomes = {}
        for name in ("large", "small"):
            number = near.wire.outgoing.new_id()
            near.wire.outgoing.call(number, "hang", [b"{}"], keep(outcomes, name), None)
            if name == "large":
                large = number
        body = json.dumps({"text": 'x"id":1,' * 5000}).encode()
        if id_first:
            far.channel.write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (large, body))
        else:
            far.channel.write(b'{"jsonrpc":"2.0","result":%s,"id":%d}\n' % (body, large))
        flush_all()
        await until(lambda: outcomes)
        assert list(outcomes) == ["large"]
        assert isinstance(outcomes["large"][1], ResponseTooLarge)
        assert near.rubbish[0][1] == "a line over 10000 bytes"


def keep(outcomes, name):
    def answered(result, error):
        outcomes[name] = (result, error)

    return answered


@pytest.mark.anyio
async def test_answers_pass_as_the_bytes_that_came():
    async with pair() as (near, far):
        outcomes = {}
        number = near.wire.outgoing.new_id()
        near.wire.outgoing.call(number, "hang", [b"{}"], keep(outcomes, "it"), None)
        result = b'{ "odd" :  [1e2, 1.0, "\\u00e9"] }'
        far.channel.write(b'{"id":"%d","jsonrpc":"2.0","result":%s}\n' % (number, result))
        flush_all()
        await until(lambda: outcomes)
        assert outcomes["it"] == (msgspec.Raw(result), None)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "spelling", ['{"jsonrpc":"2.0","id":%d,"result":%s}', '{"id": %d, "result": %s, "jsonrpc": "2.0"}']
)
async def test_a_large_answer_is_the_same_however_it_is_spelt(spelling):
    async with pair() as (near, far):
        outcomes = {}
        number = near.wire.outgoing.new_id()
        near.wire.outgoing.call(number, "hang", [b"{}"], keep(outcomes, "it"), None)
        result = json.dumps({"text": 'with "quotes" } and { braces' * 5000})
        far.channel.write((spelling % (number, result)).encode() + b"\n")
        flush_all()
        await until(lambda: outcomes)
        assert bytes(outcomes["it"][0]).decode() == result


@asynccontextmanager
async def unread():
    """A running dispatcher whose peer reads nothing, and the end from which it could be read."""
    fds = [*os.pipe(), *os.pipe()]
    for fd in fds:
        os.set_blocking(fd, False)
    near = Peer(fds[0], fds[3])
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(near.wire.run, near.on_request, near.on_notify)
            with anyio.fail_after(50):
                yield near, fds[2]
            near.wire.end()
    finally:
        near.channel.close()
        for fd in fds:
            os.close(fd)


async def drain(fd, channel):
    """Read what there is until nothing waits; the lines."""
    data = bytearray()
    while channel.unsent or select.select([fd], [], [], 0)[0]:
        await anyio.wait_readable(fd)
        data += os.read(fd, 1 << 20)
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.anyio
async def test_a_peer_that_does_not_read_goes_without_what_can_be_lost():
    async with unread() as (near, far):
        dropped = []
        near.wire.on_dropped = lambda: dropped.append(True)
        filler = {"data": "x" * HIGH_WATER}
        await near.wire.notify("notifications/message", filler)
        await near.wire.notify("notifications/message", {"data": "more"})
        await near.wire.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        await near.wire.notify("notifications/tools/list_changed", None)
        assert len(dropped) == 2
        methods = [line["method"] for line in await drain(far, near.channel)]
        assert methods == ["notifications/message", "notifications/tools/list_changed"]
        await near.wire.notify("notifications/message", {"data": "heard"})
        assert [line["params"]["data"] for line in await drain(far, near.channel)] == ["heard"]


@pytest.mark.anyio
@pytest.mark.parametrize("ends", [False, True])
async def test_it_is_waited_for_with_what_its_sender_keeps(ends):
    async with unread() as (near, far):
        told = anyio.Event()
        await near.wire.notify("notifications/message", {"data": "x" * HIGH_WATER})

        async def tell():
            await near.wire.notify("notifications/resources/updated", {"uri": "a:b"})
            told.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            await anyio.lowlevel.checkpoint()
            assert not told.is_set()
            if ends:
                near.wire.end()
            else:
                await drain(far, near.channel)
            await told.wait()


@pytest.mark.anyio
async def test_a_peer_that_asks_for_too_much_at_a_time_is_refused():
    async with pair() as (near, far):
        lines = [
            b'{"jsonrpc":"2.0","id":%d,"method":"hang"}\n' % number for number in range(MAX_OPEN_REQUESTS + 1)
        ]
        refused = anyio.Event()
        near.channel.on_data = lambda data: refused.set() if b"Overloaded" in data else None
        for line in lines:
            near.channel.write(line)
        await refused.wait()
        assert len(far.wire.receiver.incoming.open) == MAX_OPEN_REQUESTS


@pytest.mark.anyio
async def test_a_server_may_send_batches_and_gets_its_answers_in_one():
    async with pair() as (near, far):
        received = []
        far.channel.on_data = received.append
        answers = {}

        async def ask(number):
            answers[number] = await near.wire.send_raw_request("x", {"n": number})

        async with anyio.create_task_group() as tasks:
            for number in (1, 2):
                tasks.start_soon(ask, number)
            await until(lambda: b"".join(received).count(b"\n") == 2)
            asked = [json.loads(each) for each in b"".join(received).splitlines()]
            received.clear()
            batch = [{"jsonrpc": "2.0", "id": each["id"], "result": each["params"]} for each in asked]
            batch.append({"jsonrpc": "2.0", "method": "notifications/x"})
            batch += [{"jsonrpc": "2.0", "id": key, "method": "echo", "params": {"a": 1}} for key in "rs"]
            far.channel.write(json.dumps(batch).encode() + b"\n")
            await until(lambda: b"\n" in b"".join(received))
        answered = json.loads(b"".join(received))
        assert answered == [{"jsonrpc": "2.0", "id": key, "result": {"got": {"a": 1}}} for key in "rs"]
        assert answers == {1: {"n": 1}, 2: {"n": 2}}
        await near.noted.wait()
        assert near.rubbish == []


@pytest.mark.anyio
async def test_a_second_request_with_an_id_in_flight_is_refused_and_the_first_can_be_cancelled():
    async with pair() as (near, far):
        received = []
        near.channel.on_data = received.append
        near.channel.write(b'{"jsonrpc":"2.0","id":7,"method":"hang"}\n')
        await until(lambda: far.wire.busy)
        near.channel.write(
            b'{"jsonrpc":"2.0","id":7,"method":"echo"}\n{"jsonrpc":"2.0","id":"7","method":"echo"}\n'
        )
        await until(lambda: b"".join(received).count(b"\n") == 2)
        refused, other = map(json.loads, b"".join(received).splitlines())
        assert (refused["id"], refused["error"]["code"]) == (7, -32600)
        assert "in use" in refused["error"]["message"]
        assert other["id"] == "7"  # another id
        assert "result" in other
        assert far.wire.busy
        near.channel.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}\n')
        await far.cancelled.wait()
        await until(lambda: not far.wire.busy)

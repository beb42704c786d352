"""The rules of one server's subscriptions, without a server: what is sent when, and who is told of what."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from mcpx.core.catalog.model import Catalogue, ResourceInfo
from mcpx.core.protocol.requests import ReadResource, Subscribe, Unsubscribe
from mcpx.core.servers.offers.resource_updates import MAX_DIGEST_BYTES, REFUSED, read_digest
from mcpx.core.servers.offers.subscriptions import Subscriptions
from mcpx.errors import CallError, Code

pytestmark = pytest.mark.anyio

URI = "doc:///a"


class Session:
    """As much of an upstream session as they look at."""

    modern = False


class Server:
    """Takes requests; a test answers them, or has subscriptions confirmed at once."""

    def __init__(self, *, subscribe: bool | None = True, size: int = 1) -> None:
        self.open: list[tuple[object, object]] = []
        self.sent: list[object] = []
        self.text = "one"
        self.failing: list[CallError] = []
        self.confirms = True
        listed = ResourceInfo(server_name="s", uri=URI, name="a", size=size)
        can = {} if subscribe is None else {"resources": {"subscribe": subscribe}}
        self.catalogue = Catalogue(
            generation=1,
            resources={} if subscribe is None else {URI: listed},
            capabilities=can,
            protocol_version="2025-11-25",
        )
        limits = SimpleNamespace(queue_timeout=0.2)
        self.config = SimpleNamespace(name="s", call_limits=limits, is_remote_mcpx=False, peer=None)
        self.queue = SimpleNamespace(wait_awake=checkpoint)
        self.subscriptions = Subscriptions(self)
        self.told: list[str] = []

    def admits_resource(self, _uri) -> bool:
        return True

    def submit(self, request, reply) -> None:
        self.sent.append(request)
        if isinstance(request, ReadResource):
            reply.resolve(msgspec.Raw(msgspec.json.encode({"contents": [{"text": self.text}]})))
        elif self.failing:
            raise self.failing.pop()
        elif self.confirms:
            reply.resolve(msgspec.Raw(b"{}"))
        else:
            self.open.append((request, reply))

    def of(self, kind: type) -> list[str]:
        return [request.uri for request in self.sent if isinstance(request, kind)]


def failed(code: Code) -> CallError:
    return CallError(code, "no", server="s")


async def turns(number: int = 20) -> None:
    for _ in range(number):
        await checkpoint()


async def serving(server: Server, *, task_status=anyio.TASK_STATUS_IGNORED) -> None:
    """One incarnation, until it is cancelled."""
    with anyio.CancelScope() as scope:
        task_status.started(scope)
        await server.subscriptions.serve(Session())


async def test_a_refusal_reaches_everybody_who_waits_and_leaves_nothing():
    server, errors = Server(), []
    server.confirms = False

    async def ask() -> None:
        with pytest.raises(CallError) as caught:
            await server.subscriptions.subscribe(URI, server.told.append)
        errors.append(caught.value.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        await turns()
        ((_, reply),) = server.open
        reply.reject(failed(Code.UPSTREAM_ERROR))
    assert errors == [Code.UPSTREAM_ERROR] * 3
    assert server.subscriptions.uris == []
    server.subscriptions.handle_update(URI)
    assert server.told == []
    server.confirms = True
    await server.subscriptions.subscribe(URI, server.told.append)  # a refusal is not for ever
    assert server.of(Subscribe) == [URI, URI]


async def test_a_subscriber_that_gives_up_while_it_waits_takes_nobody_along():
    server = Server()
    server.confirms = False
    async with anyio.create_task_group() as first, anyio.create_task_group() as second:
        first.start_soon(server.subscriptions.subscribe, URI, lambda _uri: None)
        second.start_soon(server.subscriptions.subscribe, URI, server.told.append)
        await turns()
        first.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await turns()
            server.open[0][1].resolve(msgspec.Raw(b"{}"))
            await turns()
        second.cancel_scope.cancel()
    assert server.of(Subscribe) == [URI]


async def test_a_server_that_never_confirms_is_waited_for_no_longer_than_a_call():
    server = Server()
    server.confirms = False
    with anyio.fail_after(50), pytest.raises(CallError) as caught:
        await server.subscriptions.subscribe(URI, server.told.append)
    assert caught.value.code is Code.TIMEOUT
    assert server.subscriptions.uris == []


async def test_where_the_server_has_no_resources_nothing_is_sent():
    server = Server(subscribe=None)
    with pytest.raises(CallError) as caught:
        await server.subscriptions.subscribe(URI, server.told.append)
    assert caught.value.details["upstream"]["code"] == -32601
    assert server.sent == []


async def test_a_server_that_declares_no_subscriptions_may_have_them():
    server = Server(subscribe=False)
    await server.subscriptions.subscribe(URI, server.told.append)
    assert server.of(Subscribe) == [URI]


async def test_that_a_server_does_not_know_the_method_is_remembered_for_the_session():
    server, said = Server(subscribe=False), {"code": -32601, "message": "Method not found"}
    for sessions in (1, 2):
        async with anyio.create_task_group() as tasks:
            scope = await tasks.start(serving, server)
            for uri in (URI, "doc:///b"):
                server.failing = [
                    CallError(Code.UPSTREAM_ERROR, "no", server="s", details={"upstream": said})
                ]
                with pytest.raises(CallError) as caught:
                    await server.subscriptions.subscribe(uri, server.told.append)
                assert caught.value.details == {"upstream": said}
            scope.cancel()
        assert server.of(Subscribe) == [URI] * sessions


async def test_a_full_queue_after_a_reconnect_is_tried_again(monkeypatch):
    monkeypatch.setattr("mcpx.core.servers.offers.subscriptions.RETRY_DELAY_S", 0.001)
    server = Server()
    await server.subscriptions.subscribe(URI, server.told.append)
    server.failing = [failed(Code.OVERLOADED)] * 3
    async with anyio.create_task_group() as tasks:
        await tasks.start(serving, server)
        with anyio.fail_after(50):
            while len(server.of(Subscribe)) < 5 or not server.of(ReadResource):
                await checkpoint()
        await turns()
        tasks.cancel_scope.cancel()
    assert len(server.of(Subscribe)) == 1 + 3 + 1


@pytest.mark.parametrize(
    ("size", "changes", "told"),
    [(1, False, []), (1, True, [URI]), (MAX_DIGEST_BYTES + 1, False, [URI])],
    ids=["unchanged", "changed", "too large to be read: it cannot be told"],
)
async def test_after_a_reconnect(size, changes, told):
    server = Server(size=size)
    async with anyio.create_task_group() as tasks:
        scope = await tasks.start(serving, server)
        await server.subscriptions.subscribe(URI, server.told.append)
        await turns(60)
        scope.cancel()
        await turns()
        assert server.told == []
        server.text = "two" if changes else "one"
        await tasks.start(serving, server)
        await turns(60)
        tasks.cancel_scope.cancel()
    assert server.told == told


async def test_without_a_session_leaving_sends_nothing():
    server = Server()
    await server.subscriptions.subscribe(URI, server.told.append)
    server.subscriptions.unsubscribe(URI, server.told.append)
    assert server.of(Unsubscribe) == []
    assert server.subscriptions.uris == []


@pytest.mark.parametrize(
    ("answer", "digest"),
    [
        (failed(Code.UPSTREAM_ERROR), REFUSED),
        (failed(Code.SERVER_DIED), None),
        (msgspec.Raw(b"not json"), None),
        (msgspec.Raw(b'{"contents": 3}'), b"\x8e"),
    ],
)
async def test_what_can_be_told_of_a_resource(answer, digest):
    def submit(_request, reply) -> None:
        if isinstance(answer, CallError):
            reply.reject(answer)
        else:
            reply.resolve(answer)

    found = await read_digest(submit, None, URI)
    assert found == digest if digest in {REFUSED, None} else len(found) == 16


async def test_only_the_contents_count():
    async def digest(raw: bytes) -> bytes | None:
        return await read_digest(lambda _request, reply: reply.resolve(msgspec.Raw(raw)), None, URI)

    one = await digest(b'{"contents":[{"text":"a"}],"_meta":{"n":1}}')
    assert one == await digest(b'{"_meta":{"n":2},"contents":[{"text":"a"}]}')
    assert one != await digest(b'{"contents":[{"text":"b"}]}')


async def test_the_late_end_of_a_session_that_was_replaced_does_not_touch_the_next_one():
    subscriptions = Server().subscriptions
    old, new = Session(), Session()
    async with anyio.create_task_group() as tasks:
        older = anyio.CancelScope()

        async def serve_old():
            with older:
                await subscriptions.serve(old)

        tasks.start_soon(serve_old)
        await turns()
        tasks.start_soon(subscriptions.serve, new)
        await turns()
        older.cancel()
        await turns()
        assert subscriptions._session is new
        tasks.cancel_scope.cancel()

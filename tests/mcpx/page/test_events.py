"""The stream of events: what it carries, how it ends, and what a browser that does not read costs."""

import anyio
import pytest

from mcpx.errors import MCPXError
from mcpx.page import events
from tests.mcpx.page import visiting
from tests.mcpx.page.visiting import LISTENERS, Visitor, served

pytestmark = pytest.mark.anyio


class Source:
    """A topic that yields what it is given, and knows who follows it."""

    def __init__(self):
        self.arguments = []
        self.left = anyio.Event()
        self.send, self._receive = anyio.create_memory_object_stream(100)

    async def topic(self, _page, argument):
        self.arguments.append(argument)
        try:
            while True:
                yield await self._receive.receive()
        finally:
            self.left.set()

    def close(self):
        self.send.close()
        self._receive.close()


@pytest.fixture
def source():
    made = Source()
    yield made
    made.close()


async def broken(_page, _argument):
    yield 1
    raise RuntimeError("secret detail")


async def refusing(_page, argument):
    raise MCPXError(f"no server named {argument}")
    yield


async def short(_page, _argument):
    yield 1


def offer(page, **topics):
    page.served.streams.topics = topics
    return page


async def none_open(page):
    with anyio.fail_after(visiting.PATIENCE_S):
        while len(page.served.streams):
            await anyio.lowlevel.checkpoint()


@LISTENERS
async def test_news_of_several_topics_come_on_one_stream(tmp_path, monkeypatch, http, source):
    async with served(tmp_path, monkeypatch, http) as page:
        offer(page, overview=source.topic, log=short)
        visitor = await Visitor.entering(page)
        async with visitor.stream("overview", "log:a%3Ab%2Fc") as stream:
            assert await stream.next("log") == 1
            source.send.send_nowait({"text": "a\nb\r\n\n</script>event: x\u2028"})
            assert await stream.next("overview") == {"text": "a\nb\r\n\n</script>event: x\u2028"}
        with anyio.fail_after(visiting.PATIENCE_S):
            await source.left.wait()
        await none_open(page)


async def test_a_topic_that_fails_ends_alone_and_its_stream_goes_on(tmp_path, monkeypatch, source):
    async with served(tmp_path, monkeypatch) as page:
        offer(page, broken=broken, refusing=refusing, short=short, overview=source.topic)
        visitor = await Visitor.entering(page)
        names = "broken", "refusing:a%22b", "none", "short:1", "overview"
        contained = []
        monkeypatch.setattr(events, "contain", lambda error, place: contained.append((str(error), place)))
        async with visitor.stream(*names) as stream:
            failed = [await stream.next("failed") for _ in range(4)]
            source.send.send_nowait(1)
            assert await stream.next("overview") == 1
        assert {each["topic"]: each["error"] for each in failed} == {
            "broken": "MCPX failed (RuntimeError); its log says more",
            'refusing:a"b': 'no server named a"b',
            "none": "there is no such topic",
            "short:1": "there is no more",
        }
        assert contained == [("secret detail", "page")]


@LISTENERS
async def test_a_stream_ends_with_its_session_and_no_other_does(tmp_path, monkeypatch, http, source):
    async with served(tmp_path, monkeypatch, http) as page:
        offer(page, overview=source.topic, log=short)
        first, second = await Visitor.entering(page), await Visitor.entering(page)
        async with first.stream("overview") as ending, second.stream("overview") as staying:
            await first.post("/ui/api/sign-out")
            await ending.over()
            source.send.send_nowait("still")
            source.send.send_nowait("still")  # the one that has ended may have taken one
            assert await staying.next("overview") == "still"
        assert (await second.get("/ui/api/here")).status == 200


async def test_a_stream_has_its_session_go_on_and_ends_when_it_is_over(tmp_path, monkeypatch, source):
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor = await Visitor.entering(page)
        now = 0.0
        page.access._now = lambda: now
        sessions = page.access._sessions
        page.access._sessions = {each: known._replace(until=10.0) for each, known in sessions.items()}
        async with visitor.stream("overview") as stream:
            source.send.send_nowait(1)
            await stream.next("overview")
            now = 11 * 3600.0
            source.send.send_nowait(2)
            await stream.next("overview")
            now = 22 * 3600.0  # longer than a session lasts without a request
            assert (await visitor.get("/ui/api/here")).status == 200
            now = 40 * 3600.0
            source.send.send_nowait(3)
            await stream.over()
        assert (await visitor.get("/ui/api/here")).status == 401


async def test_silence_is_broken_by_a_comment(tmp_path, monkeypatch, source):
    monkeypatch.setattr(events, "PING_S", 0.01)
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor = await Visitor.entering(page)
        async with visitor.stream("overview") as stream:
            await stream.until(b": still here\n\n")
            await stream.until(b": still here\n\n")
            source.send.send_nowait(1)
            assert await stream.next("overview") == 1


async def test_a_browser_that_does_not_read_holds_its_topics_and_then_loses_its_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "STALLED_S", 0.3)
    yielded = 0

    async def flood(_page, _argument):
        nonlocal yielded
        while True:
            yielded += 1
            yield "x" * 65536

    async with served(tmp_path, monkeypatch) as page:
        offer(page, flood=flood)
        visitor = await Visitor.entering(page)
        async with await visitor.connect() as connection:
            await connection.send(visitor.request("GET", "/ui/api/events?topic=flood", visitor.cookies))
            with anyio.fail_after(visiting.PATIENCE_S):
                while not yielded:
                    await anyio.lowlevel.checkpoint()
            await none_open(page)
        assert yielded * 65536 < 32 << 20  # what the system's buffers take, and ours


async def test_the_oldest_stream_of_a_browser_makes_room_and_knows_why(tmp_path, monkeypatch, source):
    monkeypatch.setattr(events, "MAX_OF_SESSION", 2)
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor, another = await Visitor.entering(page), await Visitor.entering(page)
        async with (
            visitor.stream("overview") as oldest,
            another.stream("overview") as of_another,
            visitor.stream("overview") as second,
            visitor.stream("overview") as third,
        ):
            assert await oldest.next("paused") == {}
            await oldest.over()
            assert len(page.served.streams) == 3
            for staying in (of_another, second, third):
                source.send.send_nowait("still")
                assert await staying.next("overview") == "still"
        assert (await visitor.get("/ui/api/here")).status == 200


async def test_the_next_stream_of_a_page_takes_the_place_of_its_last(tmp_path, monkeypatch, source):
    """However late it is noticed that a browser has left: no other window has to make room."""
    monkeypatch.setattr(events, "MAX_OF_SESSION", 2)
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor, another = await Visitor.entering(page), await Visitor.entering(page)
        async with (
            visitor.stream("overview", page="a") as staying,
            another.stream("overview", page="b") as of_another,
            visitor.stream("overview", page="b") as first,
            visitor.stream("overview", page="b") as second,
        ):
            await first.over()
            assert len(page.served.streams) == 3
            for each in (staying, of_another, second):
                source.send.send_nowait("still")
                assert await each.next("overview") == "still"


async def test_the_oldest_stream_of_all_browsers_makes_room(tmp_path, monkeypatch, source):
    monkeypatch.setattr(events, "MAX_STREAMS", 2)
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        first, second, third = [await Visitor.entering(page) for _ in range(3)]
        async with first.stream("overview") as oldest, second.stream("overview"), third.stream("overview"):
            assert await oldest.next("paused") == {}
            await oldest.over()
            assert len(page.served.streams) == 2


async def test_no_more_topics_are_followed_than_that(tmp_path, monkeypatch, source):
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor = await Visitor.entering(page)
        async with visitor.stream(*(f"overview:{number}" for number in range(100)), "none"):
            with anyio.fail_after(visiting.PATIENCE_S):
                while len(source.arguments) < events.MAX_TOPICS:
                    await anyio.lowlevel.checkpoint()
        await none_open(page)
        assert source.arguments == [str(number) for number in range(events.MAX_TOPICS)]


async def test_only_get_opens_a_stream(tmp_path, monkeypatch, source):
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor = await Visitor.entering(page)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            refused = await visitor.ask(method, "/ui/api/events?topic=overview", visitor.acting)
            assert refused.status == 405
        head = await visitor.get("/ui/api/events?topic=overview", method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert source.arguments == []


async def test_a_browser_that_goes_on_with_another_request_ends_what_it_had(tmp_path, monkeypatch, source):
    """As one does that is cut off: many streams begun and left leave nothing behind."""
    async with served(tmp_path, monkeypatch) as page:
        offer(page, overview=source.topic)
        visitor = await Visitor.entering(page)
        for _ in range(3 * events.MAX_STREAMS):
            async with visitor.stream("overview"):
                pass
        await none_open(page)
        assert (await visitor.get("/ui/api/here")).status == 200

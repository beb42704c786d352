"""What a view gives and raises, as a browser gets it; bodies that cannot be read; texts that are odd."""

import json

import anyio
import msgspec
import pytest

from mcpx.errors import CallError, Code, MCPXError
from mcpx.page import answers
from tests.mcpx.page import visiting
from tests.mcpx.page.visiting import Visitor, served

pytestmark = pytest.mark.anyio
HALF = "half a character: \ud83d"


class Question(msgspec.Struct):
    text: str


async def echo(_page, request):
    return {"text": (await answers.body(request, Question)).text}


async def half(_page, _request):
    return {"text": HALF}


async def half_a_topic(_page, _argument):
    yield HALF


def raising(error):
    async def handler(_page, _request):
        raise error

    return handler


def with_routes(page, **handlers):
    """The page, with these routes beside its own."""
    app = page.served.app
    for name, handler in handlers.items():
        make = answers.post if name == "echo" else answers.get
        app._app.router.routes.append(make(f"/{name}", handler, page))
    return page


async def test_what_a_view_raises_is_said_and_a_fault_is_noted(tmp_path, monkeypatch):
    contained = []
    monkeypatch.setattr(answers, "contain", lambda error, place: contained.append((str(error), place)))
    async with served(tmp_path, monkeypatch) as page:
        unknown = CallError(Code.UNKNOWN_SERVER, "no server x", server="x")
        handlers = {
            "call": raising(unknown),
            "none": raising(answers.NotFoundError("there is no such thing")),
            "wrong": raising(MCPXError("say why")),
            "odd": raising(answers.BadRequestError("it is no such thing")),
            "fault": raising(ZeroDivisionError("secret detail")),
        }
        visitor = await Visitor.entering(with_routes(page, **handlers))
        said = {name: await visitor.get(f"/ui/api/{name}") for name in handlers}
        assert {name: each.status for name, each in said.items()} == {
            "call": 200,
            "none": 404,
            "wrong": 200,
            "odd": 400,
            "fault": 500,
        }
        assert said["call"].json == {"failed": unknown.to_dict()}
        assert said["none"].json == {"error": "there is no such thing"}
        assert said["wrong"].json == {"failed": {"error": "say why"}}
        assert said["odd"].json == {"error": "it is no such thing"}
        assert said["fault"].json == {"error": "MCPX failed (ZeroDivisionError); its log says more"}
        assert contained == [("secret detail", "page")]


async def test_half_characters_of_servers_reach_the_browser(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        page.served.streams.topics = {"log": half_a_topic}
        visitor = await Visitor.entering(with_routes(page, half=half))
        assert json.loads((await visitor.get("/ui/api/half")).body) == {"text": HALF}
        async with visitor.stream("log") as stream:
            assert await stream.next("log") == HALF


async def test_a_body_that_cannot_be_read_is_said_and_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "MAX_BODY_BYTES", 1 << 20)
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(with_routes(page, echo=echo))
        assert (await visitor.post("/ui/api/echo", b'{"text": "a"}')).json == {"text": "a"}
        for body in (b"", b"{", b"[]", b'{"text": 1}', b"\xff\xfe", b'{"text": "\\ud800"}', b"[" * 100_000):
            refused = await visitor.post("/ui/api/echo", body)
            assert refused.status == 400, body[:20]
            assert refused.json["error"].startswith("the request cannot be read: ")
        refused = await visitor.post("/ui/api/echo", b'{"text": "' + b"x" * (1 << 20) + b'"}')
        assert (refused.status, refused.json) == (400, {"error": "the request is longer than 1 MB"})


async def test_a_browser_that_leaves_within_its_request_is_no_fault(tmp_path, monkeypatch):
    contained, entered, left = [], anyio.Event(), anyio.Event()
    monkeypatch.setattr(answers, "contain", lambda error, place: contained.append(error))

    async def waiting(_page, request):
        entered.set()
        try:
            while not await request.is_disconnected():  # noqa: ASYNC110 - it has no other way to ask
                await anyio.sleep(0.01)
            return await echo(_page, request)
        finally:
            left.set()

    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(with_routes(page, echo=waiting))
        whole = visitor.request("POST", "/ui/api/echo", visitor.acting, b'{"text": "a"}')
        async with await visitor.connect() as connection:
            await connection.send(whole[:-5])
            with anyio.fail_after(visiting.PATIENCE_S):
                while not page.use().has_clients:
                    await anyio.lowlevel.checkpoint()
        async with await visitor.connect() as connection:
            await connection.send(whole)
            with anyio.fail_after(visiting.PATIENCE_S):
                await entered.wait()
        with anyio.fail_after(visiting.PATIENCE_S):
            await left.wait()
            while page.use().has_clients:
                await anyio.lowlevel.checkpoint()
        assert contained == []

"""Other pages in the person's own browser, a real Chromium: what they get, and what they are given."""

import contextlib
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.mcpx.page.browsing import NEEDS_BROWSER, browsing
from tests.mcpx.page.visiting import Visitor, served

pytestmark = [pytest.mark.anyio, *NEEDS_BROWSER]

ATTACKS = """async (there) => {
  const fetched = (path, options) => fetch(there + path, {credentials: "include", ...options}).then(
    (response) => response.type === "opaque" ? "opaque" : response.text(), (error) => error.name);
  const loaded = (tag, place, path) => new Promise((resolve) => {
    const element = document.createElement(tag);
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("refused");
    element[place] = there + path;
    if (tag === "link") element.rel = "stylesheet";
    document.head.append(element);
  });
  const json = {"content-type": "application/json"};
  const stream = () => new Promise((resolve) => {
    const source = new EventSource(there + "/ui/api/events?topic=overview", {withCredentials: true});
    source.onopen = () => resolve("open");
    source.onerror = () => { source.close(); resolve("refused"); };
  });
  const framed = () => new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.onload = () => {
      try { resolve(frame.contentDocument === null ? "nothing" : frame.contentDocument.body.innerText); }
      catch (error) { resolve(error.name); }
    };
    frame.src = there + "/ui/";
    document.body.append(frame);
  });
  return {
    read: await fetched("/ui/api/here"),
    blind: await fetched("/ui/api/here", {mode: "no-cors"}),
    act: await fetched("/ui/api/sign-out", {method: "POST", headers: json, body: "{}"}),
    actBlind: await fetched("/ui/api/sign-out", {method: "POST", mode: "no-cors", body: "{}"}),
    script: await loaded("script", "src", "/ui/static/page.mjs"),
    style: await loaded("link", "href", "/ui/static/style.css"),
    image: await loaded("img", "src", "/ui/static/icon.svg"),
    stream: await stream(),
    frame: await framed(),
  };
}"""
SIGN_OUT = """fetch("api/sign-out", {
  method: "POST", headers: {"content-type": "application/json"}, body: "{}"
}).then((answer) => answer.status)"""
NOTHING = {
    "read": "TypeError",
    "blind": "TypeError",
    "act": "TypeError",
    "actBlind": "TypeError",
    "script": "refused",
    "style": "refused",
    "image": "refused",
    "stream": "refused",
    "frame": "nothing",
}


@asynccontextmanager
async def another_program():
    """A server on another port, with an empty page; and the cookies that it is given."""
    cookies = []

    async def answer(client):
        async with client:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                request = b""
                while b"\r\n\r\n" not in request:
                    request += await client.receive()
                lines = request.decode("latin-1").split("\r\n")
                cookies.extend(line.partition(": ")[2] for line in lines if line.lower().startswith("cookie"))
                page = b"<!doctype html><title>other</title><body>other"
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
                await client.send(head + b"Content-Length: %d\r\n\r\n" % len(page) + page)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, answer)
        yield listener.extra(anyio.abc.SocketAttribute.local_port), cookies
        tasks.cancel_scope.cancel()


async def test_pages_of_others_get_nothing_and_do_nothing(tmp_path, monkeypatch):
    async with (
        served(tmp_path, monkeypatch) as page,
        another_program() as (port, cookies),
        browsing() as context,
    ):
        link = await page.link()
        there = Visitor(link)
        own = await context.new_page()
        said, asked = [], []
        own.on("console", lambda message: said.append(message.text))
        own.on("pageerror", lambda error: said.append(str(error)))
        own.on("request", lambda request: asked.append(request.url))
        await own.goto(link)
        await own.wait_for_url("**/ui/")
        await own.wait_for_selector("main")
        assert said == []
        assert {url.startswith(f"{there.origin}/ui/") for url in asked} == {True}

        other = await context.new_page()
        for origin in (f"http://127.0.0.1:{port}", f"http://evil.localhost:{port}"):
            await other.goto(f"{origin}/ui/")
            assert await other.evaluate(ATTACKS, there.origin) == NOTHING, origin
        rebound = await other.goto(f"http://rebound.localhost:{there.port}/ui/")
        assert rebound is not None
        assert (rebound.status, await rebound.text()) == (421, "Invalid Host header\n")

        # what they do get: a cookie, for it is for all ports; of use to processes of this user alone
        (cookie,) = {each for each in cookies if each}
        assert (await Visitor(there.origin, cookie).get("/ui/api/here")).status == 200
        (kept,) = await context.cookies(f"{there.origin}/ui/")
        assert (kept["httpOnly"], kept["sameSite"], kept["path"]) == (True, "Strict", "/ui")

        again = await own.goto(link)
        assert again is not None
        assert again.status == 401
        still = await own.goto(f"{there.origin}/ui/")
        assert still is not None
        assert still.status == 200
        assert await own.evaluate("document.cookie") == ""
        assert await own.evaluate(SIGN_OUT) == 200
        gone = await own.goto(f"{there.origin}/ui/")
        assert gone is not None
        assert gone.status == 401

"""The listener that a browser returns to: what it takes, what it refuses, and what it never grows by."""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from mcpx.oauth import callback
from mcpx.oauth.answers import pasted
from mcpx.oauth.callback import CallbackListeners, ports_from, redirect_uri
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.sign_in_progress import Progress, Stage
from tests.mcpx.page.visiting import NEEDS_IPV6

pytestmark = pytest.mark.anyio
STATE = "s" * 43


@asynccontextmanager
async def listening(ports=(0,)):
    """A listener in tasks of its own, which may finish their pages."""
    with anyio.fail_after(50):
        async with (
            anyio.create_task_group() as tasks,
            CallbackListeners(tasks).listening(ports) as listener,
        ):
            listener.tasks = tasks
            yield listener


def expect(listener, name, state, url="https://as.example/authorize"):
    """A sign-in at a server of that name, whose browser is expected."""
    progress = Progress(name)
    progress.ask(url, state)
    listener.expect(progress)
    return progress


async def kept(progress, problem=None):
    """Carry a sign-in on to its end, once the browser has come back."""
    await progress.answer()
    progress.enter(Stage.EXCHANGED)
    progress.end(None if problem is None else SignInError(Problem.CODE_REFUSED, problem))


def follow(listener, progress, problem=None):
    """Do so in a task of the listener's."""
    listener.tasks.start_soon(kept, progress, problem)


async def raw(listener, request: bytes) -> bytes:
    """All that comes back for some bytes."""
    received = b""
    async with await anyio.connect_tcp("127.0.0.1", listener.port) as stream:
        try:
            await stream.send(request)
            async for chunk in stream:
                received += chunk
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            pass
    return received


async def get(listener, target, *, method="GET", host=None, more=""):
    host = f"127.0.0.1:{listener.port}" if host is None else host
    return (
        await raw(listener, f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())
    ).decode()


def status(page):
    return int(page.split(" ", 2)[1])


async def test_the_answer_with_the_state_is_taken_and_the_page_says_what_came_of_it():
    async with listening() as listener:
        expected = expect(listener, "notion", STATE)
        pages = []

        async def browse():
            pages.append(await get(listener, f"/callback?code=c%2F1&state={STATE}&iss=https%3A%2F%2Fas"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(browse)
            answer = await expected.answer()
            assert (answer.code, answer.state, answer.iss) == ("c/1", STATE, "https://as")
            assert "c/1" not in repr(answer)
            assert not pages
            follow(listener, expected)
        (page,) = pages
        assert status(page) == 200
        assert "signed in to notion. You can close this page" in page
        for header in ("Cache-Control: no-store", "Content-Security-Policy: default-src 'none'"):
            assert header in page
        assert "<script" not in page


async def test_a_failure_and_a_name_are_shown_as_text():
    async with listening() as listener:
        expected = expect(listener, "<script>x", STATE)
        follow(listener, expected, 'the server says <img src="x">')
        page = await get(listener, f"/callback?error=access_denied&error_description=no&state={STATE}")
        answer = await expected.answer()
        assert (answer.code, answer.error, answer.error_description) == (None, "access_denied", "no")
        assert "<script" not in page
        assert "<img" not in page
        assert "&lt;img" in page


GOOD = f"/callback?code=c&state={STATE}"


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        pytest.param({"target": "/callback?code=c&state=other"}, 400, id="another state"),
        pytest.param({"target": "/callback?code=c"}, 400, id="no state"),
        pytest.param({"target": f"/callback?state={STATE}"}, 400, id="no code"),
        pytest.param({"target": f"{GOOD}&code=d"}, 400, id="two codes"),
        pytest.param({"target": f"{GOOD}&error=e"}, 400, id="code and error"),
        pytest.param({"target": f"{GOOD}&iss=%ff"}, 400, id="no UTF-8"),
        pytest.param({"target": GOOD + "&a=1" * 100}, 400, id="many parameters"),
        pytest.param({"target": "/favicon.ico"}, 404, id="favicon"),
        pytest.param({"target": "/" + GOOD}, 404, id="another path"),
        pytest.param({"target": GOOD, "host": "evil.example:8767"}, 421, id="another host"),
        pytest.param({"target": GOOD, "host": "127.0.0.1"}, 421, id="no port"),
        pytest.param({"target": GOOD, "more": "Host: evil.example\r\n"}, 421, id="two hosts"),
        pytest.param({"target": GOOD, "method": "HEAD"}, 405, id="HEAD"),
        pytest.param({"target": GOOD, "method": "POST"}, 405, id="POST"),
        pytest.param({"target": "http://127.0.0.1/callback"}, 400, id="proxied"),
        pytest.param({"target": GOOD, "more": "A: " + "a" * 20_000 + "\r\n"}, 431, id="a long head"),
        pytest.param({"target": GOOD + "&a=" + "a" * 20_000}, 431, id="a long target"),
        pytest.param({"target": GOOD, "method": "\0"}, 405, id="rubbish"),
    ],
)
async def test_anything_else_is_refused_and_changes_nothing(request_of, code):
    async with listening() as listener:
        expected = expect(listener, "notion", STATE)
        page = await get(listener, **request_of)
        assert status(page) == code
        assert STATE not in page
        assert not expected.is_answered
        follow(listener, expected)
        assert status(await get(listener, GOOD, host=f"LOCALHOST:{listener.port}")) == 200


# --- another user of the computer

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
AT = pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=NEEDS_IPV6)])


def connection_of_another_user(listener, host):
    os.seteuid(NOBODY)
    try:
        stranger = socket.create_connection((host, listener.port))
    finally:
        os.seteuid(0)
    stranger.setblocking(False)
    return stranger


async def answer_to_another_user(listener, target, host="127.0.0.1"):
    shown = f"[{host}]" if ":" in host else host
    with connection_of_another_user(listener, host) as stranger:
        stranger.sendall(f"GET {target} HTTP/1.1\r\nHost: {shown}:{listener.port}\r\n\r\n".encode())
        received = b""
        while b"</html>" not in received:
            await anyio.wait_readable(stranger)
            if not (chunk := stranger.recv(65536)):
                break
            received += chunk
    return received.decode()


@pytest.mark.linux("whose sockets are (sock_diag)")
@needs_root
@AT
async def test_another_user_neither_completes_nor_ends_nor_uses_up_a_sign_in(host):
    async with listening() as listener:
        expected = expect(listener, "notion", STATE, "https://as.example/authorize?state=" + STATE)
        opening = "/" + listener.opening_url(expected).split("/", 3)[3]
        for target in (GOOD, f"/callback?error=access_denied&state={STATE}", opening, "/callback?code=c"):
            page = await answer_to_another_user(listener, target, host)
            assert (status(page), STATE in page, "Location" in page) == (403, False, False)
        assert (expected.is_answered, expected.strays) == (False, 0)
        assert status(await get(listener, opening)) == 302
        follow(listener, expected)
        assert status(await get(listener, f"/callback?code=mine&state={STATE}")) == 200
        assert (await expected.answer()).code == "mine"


@pytest.mark.linux("whose sockets are (sock_diag)")
@needs_root
async def test_connections_of_another_user_take_no_room_from_the_browser():
    async with AsyncExitStack() as held, listening() as listener:
        expected = expect(listener, "notion", STATE)
        mine = await held.enter_async_context(await anyio.connect_tcp("127.0.0.1", listener.port))
        await mine.send(b"GET ")
        for _ in range(callback.MAX_CONNECTIONS * 2):
            await anyio.wait_writable(held.enter_context(connection_of_another_user(listener, "127.0.0.1")))
        assert status(await answer_to_another_user(listener, GOOD)) == 403
        follow(listener, expected)
        await mine.send(f"{GOOD} HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\n\r\n".encode())
        assert status((await mine.receive()).decode()) == 200


# --- the address that a browser is started with


async def test_it_leads_to_the_authorization_request_once_and_holds_nothing_of_it():
    url = f"https://as.example/authorize?client_id=c&state={STATE}&code_challenge=x"
    async with listening() as listener:
        expected = expect(listener, "notion", STATE, url)
        address = listener.opening_url(expected)
        assert STATE not in address
        target = "/" + address.split("/", 3)[3]
        assert status(await get(listener, target, method="HEAD")) == 405
        assert status(await get(listener, target + "x")) == 410
        page = await get(listener, target)
        assert (status(page), f"Location: {url}\r\n" in page) == (302, True)
        assert "Referrer-Policy: no-referrer" in page
        again = await get(listener, target)
        assert (status(again), STATE in again) == (410, False)
        assert not expected.is_answered


@NEEDS_IPV6
async def test_a_browser_may_take_localhost_for_either_address_and_both_are_its_own():
    async with listening() as listener:
        follow(listener, expect(listener, "notion", STATE))
        request = f"GET {GOOD} HTTP/1.1\r\nHost: localhost:{listener.port}\r\n\r\n".encode()
        async with await anyio.connect_tcp("::1", listener.port) as stream:
            await stream.send(request)
            assert status((await stream.receive()).decode()) == 200
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        async with listening((port, 0)) as listener:
            assert listener.port != port


async def test_rubbish_without_end_is_cut():
    async with listening() as listener:
        expected = expect(listener, "notion", STATE)
        assert len(await raw(listener, b"a" * (1 << 20))) < 2000
        await raw(listener, b"\r\n\r\n")
        follow(listener, expected)
        assert status(await get(listener, GOOD)) == 200


async def test_a_second_answer_is_told_so():
    async with listening() as listener:
        expected = expect(listener, "notion", STATE)
        follow(listener, expected)
        assert status(await get(listener, GOOD)) == 200
        page = await get(listener, f"/callback?code=other&state={STATE}")
        assert status(page) == 409
        assert "already" in page
        assert (await expected.answer()).code == "c"
        listener.forget(expected)
        assert status(await get(listener, GOOD)) == 400


async def test_silent_connections_make_room_and_end_with_the_listener():
    async with AsyncExitStack() as silent:
        async with listening() as listener:
            expected = expect(listener, "notion", STATE)
            streams = []
            for _ in range(callback.MAX_CONNECTIONS + 10):
                stream = await silent.enter_async_context(await anyio.connect_tcp("127.0.0.1", listener.port))
                streams.append(stream)
            follow(listener, expected)
            assert status(await get(listener, GOOD)) == 200
            with anyio.fail_after(50):
                for stream in streams[:10]:
                    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                        await stream.receive()
        with pytest.raises(OSError):
            await anyio.connect_tcp("127.0.0.1", listener.port)


async def test_a_port_that_is_taken_is_left_to_its_owner():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with listening((port, 0)) as listener:
            assert listener.port != port
            assert redirect_uri(listener.port) == f"http://127.0.0.1:{listener.port}/callback"
        with pytest.raises(ExceptionGroup) as caught:
            async with listening((port,)):
                pass
        (error,) = caught.value.exceptions
        assert isinstance(error, SignInError)
        assert error.problem is Problem.PORT_TAKEN
        assert str(port) in str(error)


async def test_sign_ins_share_a_port_and_each_gets_its_own_answer():
    async with anyio.create_task_group() as tasks:
        listeners = CallbackListeners(tasks)
        async with listeners.listening((0,)) as first:
            one = expect(first, "one", "1" * 43)
            async with listeners.listening((first.port, 0)) as second:
                assert second is first
                two = expect(second, "two", "2" * 43)
                tasks.start_soon(kept, two)
                assert "to two" in await get(second, f"/callback?code=b&state={'2' * 43}")
            tasks.start_soon(kept, one)
            assert "to one" in await get(first, f"/callback?code=a&state={'1' * 43}")
            assert [(await each.answer()).code for each in (one, two)] == ["a", "b"]


def test_ports_end_where_they_end():
    assert ports_from(8767) == (8767, 8768, 8769, 8770, 8771, 0)
    assert ports_from(65534) == (65534, 65535, 0)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8767/callback?code=c&state=s",
        "  <http://127.0.0.1:8767/callback?code=c&state=s#x>\n",
        "?code=c&state=s",
        "code=c&state=s",
        "'code=c&state=s'",
    ],
)
def test_an_address_may_be_pasted_whole_or_as_its_query(text):
    answer = pasted(text)
    assert answer is not None
    assert (answer.code, answer.state) == ("c", "s")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "http://[::1",
        "https://as/authorize?client_id=x&state=s",
        "c",
        "code=",
        "\udcff",
        "x" * 100_000,
    ],
)
def test_other_text_is_no_answer(text):
    assert pasted(text) is None

"""What is refused, on every route: requests of others, from elsewhere, with odd addresses and odd headers."""

import os
import re
import socket
import struct

import anyio
import pytest

from mcpx.page.guard import HINT
from tests.mcpx.page import visiting
from tests.mcpx.page.visiting import HTTP, LISTENERS, Visitor, served

pytestmark = pytest.mark.anyio
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH")
ODD_PATHS = (
    "/ui",
    "/ui/",
    "/ui/nothing",
    "/ui/static/../../access.py",
    "/ui/static/%2e%2e/%2e%2e/access.py",
    "/ui/static/..%2f..%2faccess.py",
    "/ui/static//etc/passwd.mjs",
    "/ui/static/app.mjs%00",
    "/ui%2f",
    "/ui%2fapi%2fhere",
    "/ui/open/",
    "/ui/open%2f",
    "/ui/../ui/api/here",
    "/ui//api/here",
    "/ui/api/here/",
    "/ui/api/here;open",
    "/ui/api/here?/ui/open",
    "/ui/api/events?topic=overview",
    "/ui/api/../open",
)


def addresses(page):
    """Every address of the page, with something in place of its parameters; not the one that opens it."""
    paths = [route.path for route in page.served.app._app.routes]
    assert len(paths) > 5
    plain = [path.replace(":path}", "}").replace("{", "").replace("}", "") for path in paths]
    return [*(path for path in plain if path != "/ui/open"), *ODD_PATHS]


@LISTENERS
async def test_without_a_session_there_is_nothing(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        name, _, secret = visitor.cookie.partition("=")
        for address in addresses(page):
            for cookie in (None, f"{name}=", f"{name}={secret}x", f"{name}={secret[:-1]}", f"other={secret}"):
                refused = await Visitor(visitor.origin, cookie).get(address)
                assert (refused.status, refused.body) == (401, HINT.encode()), address
                assert "set-cookie" not in refused.headers
        for method in METHODS:
            refused = await Visitor(visitor.origin).get("/ui/api/here", method=method)
            assert refused.status == 401
        assert len(page.served.streams) == 0


@LISTENERS
async def test_from_elsewhere_there_is_nothing_even_with_the_cookie(tmp_path, monkeypatch, http):
    """Other pages, other names for this computer (DNS rebinding), other ports of it."""
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        port = visitor.port
        hosts = (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1",
            f"127.0.0.1:{port + 1}",
            f"127.0.0.1.nip.io:{port}",
            f"localhost.evil.example:{port}",
            f"127.0.0.1:{port}@evil.example",
            f"0.0.0.0:{port}",
            f"LOCALHOST.:{port}",
            f"[::ffff:127.0.0.1]:{port}",
            "",
        )
        origins = (
            "null",
            "http://evil.example",
            f"http://127.0.0.1:{port + 1}",
            "http://127.0.0.1",
            f"https://{visitor.authority}",
            f"http://{visitor.authority}.evil.example",
            f"http://evil.example/{visitor.authority}",
            f"{visitor.origin}/",
            f"{visitor.origin} http://evil.example",
            "",
        )
        for address in addresses(page):
            for host in hosts[:2]:
                refused = await visitor.ask("GET", address, visitor.cookies, host=host)
                assert (refused.status, refused.body) == (421, b"Invalid Host header\n"), address
            for header in (("Origin", origins[1]), ("Sec-Fetch-Site", "cross-site")):
                refused = await visitor.get(address, more=[header])
                assert (refused.status, refused.body) == (403, b"Not from this page\n"), address
        for host in hosts:
            assert (await visitor.ask("GET", "/ui/", visitor.cookies, host=host)).status in {400, 421}
        for method in ("GET", "POST", "OPTIONS"):
            for origin in origins:
                refused = await visitor.get("/ui/api/here", method=method, more=[("Origin", origin)])
                assert refused.status == 403, origin
                assert not {name for name in refused.headers if name.startswith("access-control")}
        for site in ("cross-site", "same-site", "anything"):
            assert (await visitor.get("/ui/", more=[("Sec-Fetch-Site", site)])).status == 403


@LISTENERS
async def test_the_page_itself_is_let_in_by_each_of_its_names(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        for name in ("127.0.0.1", "localhost", "[::1]"):
            host = f"{name}:{visitor.port}"
            more = [("Origin", f"http://{host}"), ("Sec-Fetch-Site", "same-origin")]
            there = await visitor.ask("GET", "/ui/", [*visitor.cookies, *more], host=host)
            assert there.status == 200
        assert (await visitor.get("/ui/", more=[("Sec-Fetch-Site", "none")])).status == 200
        assert (
            (await visitor.get("/ui/static/page.mjs")).headers["content-type"].startswith("text/javascript")
        )
        assert (await visitor.get("/ui", more=[])).headers["location"].endswith("/ui/")


async def test_a_code_is_taken_once_wherever_it_comes_from_but_by_nobody_elses_page(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        link = await page.link()
        visitor = Visitor(link)
        target = link.removeprefix(visitor.origin)
        assert (await visitor.get(target, more=[("Origin", "http://evil.example")])).status == 403
        assert (await visitor.ask("GET", target, (), host="evil.example")).status == 421
        assert (await visitor.get(target, method="HEAD")).status == 401
        assert (await visitor.get(target, method="POST")).status == 401
        assert (await visitor.get(target, more=[("Sec-Purpose", "prefetch;prerender")])).status == 401
        entered = await visitor.get(target, more=[("Sec-Fetch-Site", "cross-site")])
        assert entered.status == 200
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith(f"mcpx_{visitor.port}=")
        assert cookie.split("; ")[1:] == ["HttpOnly", "Path=/ui", "SameSite=Strict"]
        again = await visitor.get(target)
        assert (again.status, "set-cookie" in again.headers) == (401, False)
        assert again.body == b"This link was used, or is too old. " + HINT.encode()
        for nonsense in ("", "?code=", "?code=x", f"?code={'x' * 9000}", "?code=%ff%00", "?code=a&code=b"):
            assert (await visitor.get(f"/ui/open{nonsense}")).status == 401


async def test_of_browsers_that_race_with_one_code_one_is_let_in(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        link = await page.link()
        visitor, statuses = Visitor(link), []

        async def race():
            statuses.append((await visitor.get(link.removeprefix(visitor.origin))).status)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(race)
        assert sorted(statuses) == [200, *[401] * 7]


async def test_what_does_something_has_to_come_from_the_page_as_json(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        origin = ("Origin", visitor.origin)
        for more in (
            [],
            [origin],
            [("Content-Type", "application/json")],
            [origin, ("Content-Type", "text/plain")],
            [origin, ("Content-Type", "application/x-www-form-urlencoded")],
            [origin, ("Content-Type", "text/plain; application/json")],
            [origin, ("Content-Type", "application/jsonx")],
        ):
            refused = await visitor.get("/ui/api/sign-out", method="POST", more=more)
            assert refused.status == 403, more
        assert (await visitor.get("/ui/api/sign-out")).status == 405
        assert (await visitor.ask("PUT", "/ui/api/sign-out", visitor.acting)).status == 405
        assert (await visitor.get("/ui/api/here")).status == 200
        assert (await visitor.post("/ui/api/sign-out")).json == {"signed_out": True}
        assert (await visitor.get("/ui/api/here")).status == 401


async def test_the_cookies_of_other_programs_do_not_stand_in_the_way(tmp_path, monkeypatch):
    """Cookies know no ports: every program of this computer sets some, and can set ours, too."""
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        name, _, secret = visitor.cookie.partition("=")
        for cookie in (
            f'state={{"a":1, "b":"c"}}; {name}={secret}',
            f'broken="; {name}={secret}',
            f"{name}=planted; {name}={secret}",
            f"a@b=c; =; ;;;{name} = {secret} ;",
            f"long={'x' * 40_000}; {name}={secret}",
        ):
            let_in = await Visitor(visitor.origin, cookie).get("/ui/api/here")
            assert let_in.status == 200, cookie[:50]
        twice = await Visitor(visitor.origin).get(
            "/ui/", more=[("Cookie", "a=b"), ("Cookie", visitor.cookie)]
        )
        assert twice.status == 200
        for cookie in ("\xff=\xfe", "=" * 1000, f"{name}; {name}", "; " * 4000, f"{name}=x; " * 1000):
            assert (await Visitor(visitor.origin, cookie).get("/ui/")).status == 401


async def test_headers_that_stand_there_twice_are_refused(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        for name, value in (
            ("Host", "evil.example"),
            ("Origin", "http://evil.example"),
            ("Sec-Fetch-Site", "cross-site"),
            ("Content-Type", "text/plain"),
        ):
            own = [("Sec-Fetch-Site", "same-origin"), *visitor.acting]
            refused = await visitor.ask("POST", "/ui/api/sign-out", [*own, (name, value)])
            assert refused.status == 400, name
        assert (await visitor.get("/ui/api/here")).status == 200


@LISTENERS
async def test_what_cannot_be_read_as_a_request_costs_its_connection_alone(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        for raw in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"GET /ui/ HTTP/1.1\r\n\r\n",
            b"GET /ui/ HTTP/x\r\nHost: x\r\n\r\n",
            b"GET " + b"/ui" * 100_000 + b" HTTP/1.1\r\n\r\n",
            visitor.request("GET", "/ui/", [("Cookie", "x" * 200_000)]),
            visitor.request("GET", "/ui/", [*visitor.cookies, ("X-Bad", "a\r b")]),
        ):
            async with await visitor.connect() as connection:
                received = b""
                try:
                    await connection.send(raw)
                    with anyio.fail_after(visiting.PATIENCE_S):
                        async for chunk in connection:
                            received += chunk
                except anyio.BrokenResourceError:  # it left what was said unread
                    continue
                assert b"mcpx" not in received.lower() or b"Open this page" in received
                assert b" 200 " not in received.split(b"\r\n")[0]
        assert (await visitor.get("/ui/api/here")).status == 200


@LISTENERS
async def test_a_target_that_names_its_host_is_served_for_that_host_alone(tmp_path, monkeypatch, http):
    """RFC 9112, 3.2.2: the host of the target counts, whatever the header says."""
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        assert (await visitor.get(f"{visitor.origin}/ui/api/here")).status == 200
        assert (await visitor.get("http://evil.example/ui/api/here")).status == 421


@pytest.mark.parametrize("http", [visiting.OWN, HTTP], ids=["own", "http"])
async def test_no_header_can_say_whose_request_it_is(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        forged = [
            ("X-Forwarded-For", "10.0.0.1"),
            ("X-Forwarded-Proto", "https"),
            ("Forwarded", "for=10.0.0.1"),
        ]
        assert (await visitor.get("/ui/api/here", more=forged)).status == 200
        assert (
            await Visitor(visitor.origin).get("/ui/", more=[("X-Forwarded-Host", "x"), *forged])
        ).status == 401


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
@pytest.mark.linux("whose sockets are (sock_diag)")
@LISTENERS
async def test_another_users_process_gets_nothing_even_with_the_cookie(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        link = await page.link()
        for request in (
            visitor.request("GET", "/ui/", visitor.cookies),
            visitor.request("GET", link.removeprefix(visitor.origin), ()),
            visitor.request("POST", "/ui/api/sign-out", visitor.acting, b"{}"),
        ):
            with foreign_connection(visitor) as connection:
                connection.sendall(request)
                connection.setblocking(False)
                with anyio.fail_after(visiting.PATIENCE_S):
                    await anyio.wait_readable(connection)
                answer = visiting.read(connection.recv(65536))
                assert (answer.status, answer.body) == (403, b"This page is another user's\n")
            for abruptly in (True, False):  # one that does not wait for the answer
                with foreign_connection(visitor) as connection:
                    connection.sendall(request)
                    if abruptly:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert (await visitor.get("/ui/api/here")).status == 200
        assert (await visitor.get(link.removeprefix(visitor.origin))).status == 200


def foreign_connection(visitor):
    os.seteuid(65534)
    try:
        return socket.create_connection((visitor.host, visitor.port))
    finally:
        os.seteuid(0)


@LISTENERS
async def test_every_response_has_the_headers_that_keep_it_to_itself(tmp_path, monkeypatch, http):
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        nobody = Visitor(visitor.origin)
        answers = [
            await visitor.get(path) for path in ("/ui/", "/ui/api/here", "/ui/none", "/ui/static/page.mjs")
        ]
        answers += [await nobody.get("/ui/"), await nobody.get("/ui/open"), await visitor.get("/ui")]
        answers.append(await nobody.ask("GET", "/ui/", (), host="evil.example"))
        kept = [each.headers["cache-control"] for each in answers]
        assert kept == ["no-cache" if "etag" in each.headers else "no-store" for each in answers]
        assert kept.count("no-cache") == 1
        for each in answers:
            assert each.headers["x-content-type-options"] == "nosniff"
            assert each.headers["x-frame-options"] == "DENY"
            assert each.headers["referrer-policy"] == "no-referrer"
            assert each.headers["cross-origin-resource-policy"] == "same-origin"
            policy = each.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert "access-control-allow-origin" not in each.headers
            assert "server" not in each.headers


async def test_the_endpoints_of_http_are_as_before_beside_the_page(tmp_path, monkeypatch):
    """The cookie opens no endpoint, the token no page; a path that looks like the page's is none."""
    async with served(tmp_path, monkeypatch, HTTP) as page:
        visitor = await Visitor.entering(page)
        for path in ("/mcp", "/mcp/servers/s", "/mcp/x"):
            assert (await visitor.post(path)).status in {401, 404}
        token = (tmp_path / "token").read_text().strip()
        bearer = [("Authorization", f"Bearer {token}")]
        assert (await Visitor(visitor.origin).get("/mcp", more=bearer)).status not in {401, 403}
        assert (await Visitor(visitor.origin).get("/ui/", more=bearer)).status == 401
        for path in ("//ui/", "/UI/", "/uix", "/x/../ui/", "/%75i%2f/../mcp", "/ui./"):
            for cookie in (None, visitor.cookie):
                refused = await Visitor(visitor.origin, cookie).get(path)
                assert refused.status in {401, 404}, path


async def test_no_address_is_a_fault_that_fills_the_log(tmp_path, monkeypatch, caplog):
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        for path in (
            "/ui/api/calls/" + "9" * 5000,
            "/ui/api/calls/" + "9" * 21,
            "/ui/api/calls/-1",
            "/ui/api/calls/%D9%A1",
            "/ui/static/" + "a/" * 10_000 + "a.mjs",
            "/ui/static/" + "a" * 10_000 + ".mjs",
            "/ui/static/a%00.mjs",
            "/ui/api/servers/" + "a/" * 10_000,
            "/ui/api/servers/%ff%00/tools/%ff",
            "/ui/api/model/%F0%9F/tools/%00",
            "/ui/api/approvals?server=" + "a" * 10_000,
            "/ui/api/search?q=%00%ff&server=%ff",
        ):
            answer = await visitor.get(path)
            assert answer.status < 500, path[:60]
            assert len(answer.body) < 2000, path[:60]
    assert "Traceback" not in caplog.text


async def test_a_fault_outside_of_the_handlers_is_contained_too(tmp_path, monkeypatch, caplog):
    contained = []
    monkeypatch.setattr(
        "mcpx.core.telemetry.contained.contain", lambda error, place: contained.append((str(error), place))
    )
    monkeypatch.setattr("mcpx.page.routes._content", lambda _name: 1 // 0)
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        for _ in range(2):
            answer = await visitor.get("/ui/static/page.mjs")
            assert (answer.status, answer.body) == (500, b"Internal Server Error")
    assert contained == [("integer division or modulo by zero", "page")] * 2
    assert "Traceback" not in caplog.text


@LISTENERS
@pytest.mark.parametrize("is_own", [True, False])
async def test_whose_a_connection_is_is_asked_once_and_one_of_another_user_ends(
    tmp_path, monkeypatch, http, is_own
):
    asked = []
    async with served(tmp_path, monkeypatch, http) as page:
        visitor = await Visitor.entering(page)
        monkeypatch.setattr("mcpx.page.guard.is_own", lambda *ends: asked.append(ends) or is_own)
        one = visitor.request("GET", "/ui/api/here", visitor.cookies).replace(b"Connection: close\r\n", b"")
        last = visitor.request("GET", "/ui/api/here", visitor.cookies)
        async with await visitor.connect() as connection:
            await connection.send(one * 9 + last)
            received = b""
            with anyio.fail_after(visiting.PATIENCE_S):
                try:
                    async for chunk in connection:
                        received += chunk
                except anyio.BrokenResourceError:  # it was closed with requests unread
                    pass
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == ([b"200"] * 10 if is_own else [b"403"])
    assert len(asked) == 1


async def test_cookies_that_other_programs_have_set_do_not_sign_the_page_out(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        name, _, secret = visitor.cookie.partition("=")
        others = "; ".join(f"{name}=planted-{number}" for number in range(31))
        assert (await Visitor(visitor.origin, f"{others}; {name}={secret}").get("/ui/")).status == 200

"""Browsers over HTTP: the pages that are named get in, as the rules of CORS have it, and no others do."""

from __future__ import annotations

import httpx2
import pytest

from tests.mcpx.core.gateway.frontends.http.test_frontend import ACCEPT, HELLO, bearer, http
from tests.mcpx.scripted import entry
from tests.mcpx.serving import LEGACY, write_config

pytestmark = pytest.mark.anyio
PAGE = "https://page.example"
FOREIGN = ("https://evil.example", "null", "https://page.example.evil", "http://page.example", "*")


@pytest.fixture
def config(tmp_path):
    allowed = {"allowed_origins": [PAGE, "http://localhost:6274", "*"]}
    return write_config(tmp_path, {"s": entry()}, startup_wait=20, max_message_bytes=100_000, http=allowed)


def preflight(origin: str, *headers: str, method: str = "POST") -> dict[str, str]:
    wanted = {"Access-Control-Request-Headers": ", ".join(headers)} if headers else {}
    return {"Origin": origin, "Access-Control-Request-Method": method, **wanted}


def of_cors(answer: httpx2.Response) -> set[str]:
    return {name for name in answer.headers if name.startswith("access-control-")}


def may_be_read(answer: httpx2.Response, origin: str = PAGE) -> bool:
    exposed = answer.headers.get("access-control-expose-headers", "").split(", ")
    return (
        answer.headers.get("access-control-allow-origin") == origin
        and {"mcp-session-id", "mcp-protocol-version", "www-authenticate"} <= set(exposed)
        and "Origin" in answer.headers["vary"]
        and "access-control-allow-credentials" not in answer.headers
    )


async def test_a_preflight_of_a_named_page_is_answered_without_a_token(tmp_path, config):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        for method in ("POST", "GET", "DELETE"):
            names = ("Authorization", "content-type", "mcp-session-id", "Last-Event-ID", "Mcp-Param-Region")
            answer = await client.options(url, headers=preflight(PAGE, *names, method=method))
            assert answer.status_code == 204
            assert may_be_read(answer)
            assert method in answer.headers["access-control-allow-methods"]
            allowed = answer.headers["access-control-allow-headers"].split(", ")
            assert {name.lower() for name in names} <= set(allowed)
        answer = await client.options(url, headers=preflight(PAGE, "x-other"))
        assert "x-other" not in answer.headers["access-control-allow-headers"]
        local = preflight("http://localhost:6274") | {"Access-Control-Request-Private-Network": "true"}
        answer = await client.options(url, headers=local)
        assert may_be_read(answer, "http://localhost:6274")
        assert answer.headers["access-control-allow-private-network"] == "true"


async def test_a_preflight_of_another_page_is_refused(tmp_path, config):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        for origin in FOREIGN:
            answer = await client.options(url, headers=preflight(origin))
            assert answer.status_code == 401
            assert of_cors(answer) == set()


async def test_a_named_page_may_read_what_it_is_answered_refusals_too(tmp_path, config):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        page = {**ACCEPT, "Origin": PAGE}
        key = page | bearer(tmp_path)
        hello = await client.post(url, json=HELLO, headers=key)
        assert hello.status_code == 200
        assert may_be_read(hello)
        assert hello.headers["mcp-session-id"]
        dead = key | {"mcp-session-id": "0" * 32, "mcp-protocol-version": LEGACY}
        large = HELLO | {"padding": "x" * 200_000}
        refused = {
            401: await client.post(url, json=HELLO, headers=page),
            403: await client.post(url, json=HELLO, headers=key | {"Origin": FOREIGN[0]}),
            404: await client.post(url, json=HELLO, headers=dead),
            405: await client.put(url, headers=key | {"mcp-session-id": hello.headers["mcp-session-id"]}),
            406: await client.post(url, json=HELLO, headers=key | {"Accept": "text/html"}),
            413: await client.post(url, json=large, headers=key),
            421: await client.post(url, json=HELLO, headers=key | {"Host": "evil.example"}),
        }
        for status, answer in refused.items():
            assert answer.status_code == status
            assert may_be_read(answer) is (status != 403), status
        assert may_be_read(await client.get(url.replace("/mcp", "/elsewhere"), headers=key))


async def test_no_other_page_may_read_anything(tmp_path, config):
    async with http(tmp_path, config) as (_, url), httpx2.AsyncClient(timeout=50) as client:
        for origin in FOREIGN:
            answer = await client.post(
                url, json=HELLO, headers=ACCEPT | bearer(tmp_path) | {"Origin": origin}
            )
            assert answer.status_code == 403 or origin == "*"
            assert of_cors(answer) == set()
        answer = await client.post(url, json=HELLO, headers=ACCEPT | bearer(tmp_path))
        assert answer.status_code == 200
        assert of_cors(answer) == set()
        assert "Origin" in answer.headers["vary"]


async def test_without_named_pages_there_is_no_cors(tmp_path):
    config = write_config(tmp_path, {"s": entry()})
    async with http(tmp_path, config, "--no-auth") as (_, url), httpx2.AsyncClient(timeout=50) as client:
        answer = await client.options(url, headers=preflight(PAGE))
        assert (answer.status_code, of_cors(answer)) == (403, set())
        assert of_cors(await client.post(url, json=HELLO, headers=ACCEPT)) == set()

"""Servers behind https, with certificates of the entry's own, and errors that say what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.config.certificates import ssl_context
from mcpx.core.config.server_config import Tls
from mcpx.core.servers.transport.http_pool import find_refusal, read_url
from tests.mcpx.authority import Authority
from tests.mcpx.core.servers.raw import ECHO
from tests.mcpx.core.servers.raw_http import raw_http
from tests.mcpx.scripted import QUICK, Watch, config_of, open_watched

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


def tls(ca: Path | None, client: tuple[Path, Path] | None) -> dict[str, str]:
    found = {} if ca is None else {"ca": str(ca)}
    return found if client is None else {**found, "cert": str(client[0]), "key": str(client[1])}


def entry(url: str, tls: dict[str, str] | None, **more: Any) -> dict[str, Any]:
    return {"url": url, "start": "eager", "restart": QUICK, **({"tls": tls} if tls else {}), **more}


def cause(watch: Watch, url: str) -> str:
    """Why the server cannot be reached."""
    text = watch.hub.upstreams["s"].info().cause or ""
    before = f"the server cannot be reached: {url}: "
    assert text.startswith(before), text
    return text.removeprefix(before)


@pytest.mark.parametrize("how", ["json", "events", "sse"])
async def test_a_server_that_wants_a_certificate_gets_it_beside_headers(authority, how):
    context = authority.server_context(wants_client=True)
    own = tls(authority.ca, authority.issue("client"))
    with raw_http({}, how=how, tls=context) as server:
        config = config_of({"s": entry(server.url, own, headers={"X-Team": "one"})})
        async with open_watched(config) as watch:
            assert await watch.text(ECHO["name"], {}) == "pong"
    sent = [{name.lower(): value for name, value in each.items()} for each in server.headers["tools/call"]]
    assert [each["x-team"] for each in sent] == ["one"]


NO_CERTIFICATE = 'it wants a client certificate: give it "tls": {"cert": FILE, "key": FILE}'


@pytest.mark.parametrize("how", ["json", "sse"])
@pytest.mark.parametrize("case", ["none", "of another authority", "expired"])
async def test_one_that_refuses_the_client_says_why(authority, stranger, how, case):
    client, said = {
        "none": (None, NO_CERTIFICATE),
        "of another authority": (
            stranger.issue("client"),
            "it refuses the client certificate (unknown ca)",
        ),
        "expired": (
            authority.issue("old", days=-1),
            "it refuses the client certificate (certificate expired)",
        ),
    }[case]
    with raw_http({}, how=how, tls=authority.server_context(wants_client=True)) as server:
        async with open_watched(config_of({"s": entry(server.url, tls(authority.ca, client))})) as watch:
            assert cause(watch, server.url) == said
            assert server.headers == {}


@pytest.mark.parametrize("how", ["json", "sse"])
async def test_a_server_that_is_not_trusted_gets_nothing(authority, stranger, how):
    hint = '; name the certificate of its authority in "tls": {"ca": FILE}'
    for own in (None, tls(stranger.ca, authority.issue("client"))):
        with raw_http({}, how=how, tls=authority.server_context(wants_client=False)) as server:
            async with open_watched(config_of({"s": entry(server.url, own)})) as watch:
                why = cause(watch, server.url)
                assert why.startswith("its certificate is not trusted: ")
                assert why.endswith(hint)
                assert server.headers == {}


async def test_a_server_of_another_name_is_not_trusted(authority):
    with raw_http({}, tls=authority.server_context(wants_client=False)) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        async with open_watched(config_of({"s": entry(url, tls(authority.ca, None))})) as watch:
            assert "Hostname mismatch" in cause(watch, url)


async def test_a_server_without_tls_is_known_as_such(authority):
    with raw_http({}) as server:
        url = server.url.replace("http:", "https:")
        async with open_watched(config_of({"s": entry(url, None)})) as watch:
            assert cause(watch, url) == "it does not speak TLS there; is its address one with http://?"


async def test_new_files_are_taken_at_the_next_connection(authority, stranger, tmp_path):
    own = tuple(Path(shutil.copy(file, tmp_path / file.name)) for file in stranger.issue("renewed"))
    with raw_http({}, tls=authority.server_context(wants_client=True)) as server:
        config = config_of({"s": entry(server.url, tls(authority.ca, (own[0], own[1])))})
        async with open_watched(config) as watch:
            assert watch.state() is not State.READY
            for old, new in zip(own, authority.issue("renewed"), strict=True):
                shutil.copy(new, old)
            await watch.becomes(State.READY)
            own[0].unlink()
            await watch.hub.restart("s")
            await watch.leaves(State.READY)
            assert "no such file" in (watch.hub.upstreams["s"].info().cause or "")


async def test_a_refusal_is_not_looked_for_past_a_proxy(authority, monkeypatch):
    context = ssl_context(Tls(ca=str(authority.ca)))
    with raw_http({}, tls=authority.server_context(wants_client=True)) as server:
        assert await find_refusal(read_url(server.url), context) is not None
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        assert await find_refusal(read_url(server.url), context) is None


async def test_a_handshake_that_is_not_refused_has_no_refusal(authority):
    context = ssl_context(Tls(ca=str(authority.ca)))
    with raw_http({}, tls=authority.server_context(wants_client=False)) as server:
        assert await find_refusal(read_url(server.url), context) is None
    assert await find_refusal(read_url(server.url), context) is None  # nobody listens

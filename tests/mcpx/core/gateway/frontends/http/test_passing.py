"""What a client over HTTP writes into `_meta`, and what it gets of its progress, in both eras."""

from __future__ import annotations

import json
import math

import httpx2
import pytest

from tests.mcpx.core.gateway.frontends.http.test_frontend import ACCEPT, HELLO
from tests.mcpx.core.servers.raw import entry, result
from tests.mcpx.core.servers.raw_http import raw_http
from tests.mcpx.serving import ENVELOPE, LEGACY, MODERN, serving, write_config

pytestmark = pytest.mark.anyio

OWN = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "com.acme/x": {"n": None}}
CALL = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "echo", "arguments": {}}}
STEP = (
    '{"jsonrpc":"2.0","method":"notifications/progress","params":'
    '{"progressToken":@ID@,"progress":1,"total":2.5,"_meta":{"a":null},"com.acme/x":[1]}}'
)


def messages(response: httpx2.Response) -> list[dict[str, object]]:
    """The messages of a response, be it JSON or a stream of events."""
    if response.headers["content-type"].startswith("application/json"):
        return [response.json()]
    lines = response.text.splitlines()
    return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]


async def headers_of(client: httpx2.AsyncClient, url: str, *, modern: bool) -> dict[str, str]:
    if modern:
        return {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "exec"}
    response = await client.post(url, json=HELLO, headers=ACCEPT)
    session = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await client.post(url, json=note, headers={**ACCEPT, **session})
    return {**ACCEPT, **session}


@pytest.mark.parametrize("modern", [False, True], ids=["old-client", "new-client"])
async def test_meta_and_progress_pass_through_the_http_endpoint(modern, tmp_path):
    lines = tmp_path / "lines"
    server = entry(
        tmp_path,
        answers={"tools/call": result({"content": []})},
        before={"tools/call": [STEP]},
        lines=str(lines),
    )
    config = write_config(tmp_path, {"s": server}, startup_wait=20)
    arguments = ["serve", config, "--transport", "http", "--port", "0", "--no-auth"]
    async with serving(tmp_path, *arguments) as mcpx, httpx2.AsyncClient(timeout=50) as client:
        url = (await mcpx.logged("http.listening"))["url"]
        headers = await headers_of(client, url, modern=modern)
        meta = {**OWN, "progressToken": "mine", "mcpx/x": 1, **(ENVELOPE if modern else {})}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {**CALL, "_meta": meta}}
        got = messages(await client.post(url, json=call, headers=headers))
        infinite = json.dumps(call).replace('"mcpx/x": 1', '"x": 1e400')
        json_body = {**headers, "content-type": "application/json"}
        passed = messages(await client.post(url, content=infinite, headers=json_body))
    sent = [json.loads(line) for line in lines.read_text().splitlines() if '"tools/call"' in line]
    assert [each["params"]["_meta"].get("x") for each in sent] == [None, math.inf]  # as it was written
    assert "result" in passed[-1]
    assert sent[0]["params"]["_meta"] == {**OWN, "progressToken": sent[0]["id"]}
    [step] = [each["params"] for each in got if each.get("method") == "notifications/progress"]
    assert step == {
        "progressToken": "mine",
        "progress": 1,
        "total": 2.5,
        "_meta": {"a": None},
        "com.acme/x": [1],
    }
    assert type(step["progress"]) is int


@pytest.mark.parametrize("modern", [False, True], ids=["old-client", "new-client"])
async def test_the_token_of_a_client_reaches_no_server(modern, tmp_path):
    with raw_http({}) as raw:
        config = write_config(
            tmp_path, {"s": {"url": raw.url, "headers": {"Authorization": "Bearer own-of-the-server"}}}
        )
        arguments = ["serve", config, "--transport", "http", "--port", "0"]
        async with serving(tmp_path, *arguments) as mcpx, httpx2.AsyncClient(timeout=50) as client:
            url = (await mcpx.logged("http.listening"))["url"]
            token = (tmp_path / "state" / "token").read_text().strip()
            client.headers |= {"Authorization": f"Bearer {token}", "Cookie": "a=b", "X-Own": token}
            headers = await headers_of(client, url, modern=modern)
            params = {**CALL, "_meta": ENVELOPE} if modern else CALL
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            got = messages(await client.post(url, json=call, headers=headers))
    assert "pong" in json.dumps(got[-1]), got
    sent = [
        {name.lower(): value for name, value in each.items()} for its in raw.headers.values() for each in its
    ]
    assert {each["authorization"] for each in sent} == {"Bearer own-of-the-server"}
    assert token not in json.dumps(sent)
    assert not any("cookie" in each for each in sent)

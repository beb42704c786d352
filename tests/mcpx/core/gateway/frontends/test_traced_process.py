"""Spans of a real process, which the environment configures: what it exports, logs, and passes on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcpx.core.gateway.frontends.http.test_passing import CALL, headers_of, messages
from tests.mcpx.core.servers.raw import entry
from tests.mcpx.serving import ENVELOPE, Served, run_cli, serving, write_config
from tests.mcpx.spans import PARENT_ID, SAMPLED, TRACE_ID

pytestmark = pytest.mark.anyio

CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "MCPX_LOG": "debug"}


async def exported(mcpx: Served) -> dict[tuple[str, str], dict[str, Any]]:
    """The spans that a process has written to standard error until its end, by name and kind."""
    await mcpx.whole_log()
    text = "\n".join(mcpx.other_stderr)
    found = [json.loads(each) for each in re.findall(r"^\{\n.*?^\}", text, re.DOTALL | re.MULTILINE)]
    return {(span["name"], span["kind"].removeprefix("SpanKind.")): span for span in found}


def ids(span: dict[str, Any]) -> tuple[str, str]:
    return span["context"]["trace_id"].removeprefix("0x"), span["context"]["span_id"].removeprefix("0x")


def lines_of(folder: Path) -> list[bytes]:
    """All lines of the files of a folder."""
    return [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_bytes().splitlines()]


async def test_a_call_on_standard_input_is_exported_beside_the_protocol_and_logged(tmp_path):
    lines = tmp_path / "lines"
    config = write_config(tmp_path, {"s": entry(tmp_path, lines=str(lines))}, startup_wait=20)
    async with serving(tmp_path, "serve", config, **CONSOLE, OTEL_SERVICE_NAME="gate") as mcpx:
        await mcpx.logged("tracing.on", exporters="console")
        await mcpx.initialize()
        await mcpx.request("tools/list")
        await mcpx.request("tools/call", {**CALL, "_meta": {"traceparent": SAMPLED}})
        await mcpx.close_input()
        assert await mcpx.exit_code() == 0
        assert await mcpx.rest_of_output() == []
        spans = await exported(mcpx)
    served, route = spans["tools/call exec", "SERVER"], spans["route", "INTERNAL"]
    sent = spans["tools/call echo", "CLIENT"]
    assert served["parent_id"] == f"0x{PARENT_ID}"
    assert served["resource"]["attributes"]["service.name"] == "gate"
    assert [each["parent_id"] for each in (route, sent)] == [
        each["context"]["span_id"] for each in (served, route)
    ]
    meta = json.loads(lines.read_text().splitlines()[-1])["params"]["_meta"]
    assert tuple(meta["traceparent"].split("-")[1:3]) == ids(sent)
    [ended] = [line for line in mcpx.log if line["event"] == "call.ended"]
    assert (ended["trace_id"], ended["span_id"]) == ids(route)
    assert ended["trace_id"] == TRACE_ID
    [audited] = [json.loads(line) for line in lines_of(tmp_path / "state" / "audit") if b'"echo"' in line]
    assert (audited["name"], audited["outcome"], audited["trace_id"]) == ("echo", "ok", TRACE_ID)
    assert "nothing is changed" in run_cli(tmp_path, "audit", "verify").stdout


@pytest.mark.parametrize("modern", [False, True], ids=["old-client", "new-client"])
async def test_a_call_over_http_is_below_what_its_meta_says_else_its_headers(modern, tmp_path):
    config = write_config(tmp_path, {"s": entry(tmp_path)}, startup_wait=20)
    arguments = ["serve", config, "--transport", "http", "--port", "0", "--no-auth"]
    async with serving(tmp_path, *arguments, **CONSOLE) as mcpx, httpx2.AsyncClient(timeout=50) as client:
        url = (await mcpx.logged("http.listening"))["url"]
        headers = {**await headers_of(client, url, modern=modern), "traceparent": SAMPLED}
        meta = ENVELOPE if modern else {}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {**CALL, "_meta": meta}}
        assert "pong" in str(messages(await client.post(url, json=call, headers=headers)))
        mcpx.process.terminate()
        assert await mcpx.exit_code() == 0
        spans = await exported(mcpx)
    served = spans["tools/call exec", "SERVER"]
    assert served["parent_id"] == f"0x{PARENT_ID}"
    assert served["attributes"]["network.transport"] == "tcp"
    assert served["attributes"].get("mcp.session.id") == headers.get("mcp-session-id")
    assert ids(spans["tools/call echo", "CLIENT"])[0] == TRACE_ID


async def test_an_exporter_that_is_not_there_is_logged_and_costs_nothing_else(tmp_path):
    lines = tmp_path / "lines"
    config = write_config(tmp_path, {"s": entry(tmp_path, lines=str(lines))}, startup_wait=20)
    async with serving(tmp_path, "serve", config, OTEL_TRACES_EXPORTER="no-such") as mcpx:
        assert "no-such" in (await mcpx.logged("tracing.unusable"))["reason"]
        await mcpx.initialize()
        await mcpx.request("tools/list")
        await mcpx.request("tools/call", {**CALL, "_meta": {"traceparent": SAMPLED}})
    meta = json.loads(lines.read_text().splitlines()[-1])["params"]["_meta"]
    assert meta["traceparent"] == SAMPLED

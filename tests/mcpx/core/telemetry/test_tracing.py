"""What is read of a trace, whatever a client wrote; what spans are named; and whose provider makes them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import pytest
from opentelemetry import trace

from mcpx.core.telemetry import tracing_setup
from mcpx.core.telemetry.log import hide
from mcpx.core.telemetry.tracing import (
    MAX_STATE_CHARS,
    MAX_TARGET_CHARS,
    parent_in,
    request_attributes,
    span_name,
    target_in,
)
from mcpx.core.telemetry.tracing_setup import open_tracing
from tests.mcpx.serving import environment
from tests.mcpx.spans import PARENT_ID, SAMPLED, TRACE_ID


def parent_of(**carrier):
    found = parent_in(carrier)
    return None if found is None else trace.get_current_span(found).get_span_context()


@pytest.mark.parametrize(
    "odd",
    [
        None,
        5,
        [],
        {"traceparent": SAMPLED},
        "",
        "00-" + "0" * 32 + f"-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"ff-{TRACE_ID}-{PARENT_ID}-01",
        SAMPLED.upper(),
        SAMPLED + "-" + "x" * 1_000_000,
        "\ud800",
    ],
    ids=lambda odd: str(type(odd).__name__),
)
def test_what_names_no_span_has_no_parent(odd):
    assert parent_of(traceparent=odd, tracestate="a=b") is None


@pytest.mark.parametrize(
    "odd",
    [
        "a=b,c",
        "a=" + "b" * 300,
        ",".join(f"k{number}=v" for number in range(40)),
        "a=b\r\nspan.forged level=error",
        "a=\x1b[2Jb",
        "\u00e9=1",
        "a=\ud800",
        "a" * 250 + "=" + " " * 300,
    ],
)
def test_what_a_client_says_of_its_state_is_not_written_in_the_log(odd, caplog):
    found = parent_of(traceparent=SAMPLED, tracestate=odd)
    assert found is not None
    assert not found.trace_state
    assert caplog.records == []


def test_a_state_is_passed_on_as_it_came(caplog):
    given = "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE,,0a*/-_@t-0=x y~!"
    found = parent_of(traceparent=SAMPLED, tracestate=given)
    assert found.trace_state.to_header() == "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,0a*/-_@t-0=x y~!"
    assert caplog.records == []


@pytest.mark.parametrize("odd", [5, None, "=", "a=b," * MAX_STATE_CHARS, "\x1b[31m", "a=\n"])
def test_an_odd_state_does_not_cost_the_parent(odd):
    found = parent_of(traceparent=SAMPLED, tracestate=odd)
    assert (found.trace_id, found.span_id) == (int(TRACE_ID, 16), int(PARENT_ID, 16))
    assert not found.trace_state


def test_names_are_bounded_and_hold_no_secrets():
    long = "x" * 100_000
    assert len(span_name("tools/call", long)) < MAX_TARGET_CHARS + 20
    assert len(request_attributes("resources/read", long)["mcp.resource.uri"]) <= MAX_TARGET_CHARS + 3  # ...
    assert span_name("resources/read", "a:b") == "resources/read"
    assert span_name("prompts/get", "p") == "prompts/get p"
    assert target_in({"name": 5}) is target_in(None) is None
    assert span_name("tools/call", "\ud800").encode()
    owner = type("Owner", (), {})()
    hide(owner, lambda text: text.replace("hunter2", "[secret]"))
    try:
        assert "hunter2" not in str(request_attributes("resources/read", "db://u:hunter2@x"))
        on_the_edge = "x" * (MAX_TARGET_CHARS - 3) + "hunter2"
        assert "hun" not in span_name("tools/call", on_the_edge)
    finally:
        del owner


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": " , "},
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "TRUE"},
        {"OTEL_SERVICE_NAME": "x", "OTEL_METRICS_EXPORTER": "console"},
    ],
)
def test_nothing_is_traced_where_nobody_asks_for_it(environ):
    assert not open_tracing(environ).on


def test_the_protocol_of_otlp_is_that_of_the_environment():
    def names(**environ):
        return tracing_setup._exporters({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", **environ})

    assert names(OTEL_EXPORTER_OTLP_PROTOCOL="grpc") == ["otlp_proto_grpc"]
    assert names(OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf") == ["otlp_proto_http"]
    assert names(OTEL_TRACES_EXPORTER="console,none") == ["console"]
    assert names(OTEL_TRACES_EXPORTER="none") == []


PROGRAM = """
import json, sys
from mcpx.core.telemetry.log import configure
from mcpx.core.telemetry.tracing_setup import open_tracing
configure("debug")
{before}
tracing = open_tracing()
sdk = sorted(name for name in sys.modules if name.startswith("opentelemetry.sdk"))
{after}
print(json.dumps({{"on": tracing.on, "sdk": bool(sdk)}}))
"""


def run(tmp_path, *, before="", after="", **environ):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before, after=after)],
        env=environment(tmp_path, **environ),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"')]
    return json.loads(done.stdout), logged


def test_the_sdk_is_not_imported_where_nothing_is_configured(tmp_path):
    assert run(tmp_path)[0] == {"on": False, "sdk": False}


def test_without_the_sdk_the_log_says_what_to_install(tmp_path):
    hidden = "sys.modules['opentelemetry.sdk'] = None"
    said, logged = run(tmp_path, before=hidden, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert not said["on"]
    [problem] = [line["reason"] for line in logged if line["event"] == "tracing.unusable"]
    assert "opentelemetry-sdk" in problem


SET_BEFORE = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
"""
LOG_IN_A_SPAN = """
import structlog
from mcp.shared._otel import otel_span
from opentelemetry.trace import SpanKind
served = tracing.serve("tools/call", "exec", {}, {})
with served.current():
    structlog.get_logger().info("inside")
    with otel_span("x", kind=SpanKind.CLIENT) as theirs:
        assert not theirs.is_recording(), "the SDK of MCP traces the same call once more"
served.end()
with served.current():
    structlog.get_logger().info("after")
structlog.get_logger().info("outside")
"""


def test_a_provider_that_is_set_already_is_used_and_lines_of_log_carry_the_ids(tmp_path):
    said, logged = run(tmp_path, before=SET_BEFORE, after=LOG_IN_A_SPAN)
    assert said["on"]
    inside, after, outside = logged
    assert len(inside["trace_id"]) == 32
    assert len(inside["span_id"]) == 16
    assert "trace_id" not in after, "what a request has begun may outlive it"
    assert "trace_id" not in outside


def test_a_collector_that_does_not_answer_holds_the_end_up_for_a_bounded_time(monkeypatch):
    monkeypatch.setattr(tracing_setup, "CLOSE_TIMEOUT_S", 0.05)
    answered = threading.Event()

    class Provider:
        def shutdown(self):
            answered.wait(20)

    began = time.monotonic()
    tracing_setup._close(Provider())
    assert time.monotonic() - began < 5
    answered.set()

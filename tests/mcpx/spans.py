"""The spans that a hub makes, kept in memory by the SDK of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcpx.core.telemetry.tracing import Tracing
from tests.mcpx.scripted import soon

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-00"


def trace_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def span_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent_id(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


class Spans:
    """Those that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str, kind: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name and span.kind.name == kind]

    async def last(self, name: str, kind: str) -> ReadableSpan:
        """The latest of that name and kind; waits for it, since a span may end after its answer was sent."""
        await soon(lambda: self.named(name, kind))
        return self.named(name, kind)[-1]

    async def of_call(
        self, tool: str, *, by: str = "exec"
    ) -> tuple[ReadableSpan, ReadableSpan, ReadableSpan]:
        """The three of a call, each the parent of the next."""
        served = await self.last(f"tools/call {by}", "SERVER")
        route = await self.last("route", "INTERNAL")
        sent = await self.last(f"tools/call {tool}", "CLIENT")
        assert trace_id(served) == trace_id(route) == trace_id(sent)
        assert parent_id(route) == span_id(served)
        assert parent_id(sent) == span_id(route)
        return served, route, sent

    def clear(self) -> None:
        self._exporter.clear()


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@contextmanager
def tracing_hubs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Hubs that are opened in the block find a provider of spans."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("mcpx.core.daemon.hub.ambient", lambda: Tracing(provider))
    yield Spans(exporter)
    provider.shutdown()

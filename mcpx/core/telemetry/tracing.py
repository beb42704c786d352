"""Spans of OpenTelemetry: who makes them, what they are named, and how a trace passes from hop to hop.

Each request of a client is three spans: what the client asked of MCPX (`ServedRequest`, SERVER), the way
through the checks and the queue (INTERNAL), and each time that it was sent to the server (CLIENT); the latter
two are those of `mcpx.core.protocol.call_trace`. Names and attributes follow the semantic conventions for
MCP. Neither arguments nor results nor texts of errors are ever in them.

A trace comes and goes in `_meta`: `traceparent` and `tracestate`, in the form of W3C Trace Context. `baggage`
is passed on as it came. Without a provider of spans nothing here is called (`Tracing.on` is false), and all
three pass on as they came.

Only the API of OpenTelemetry is imported, which the MCP SDK imports as well;
`mcpx.core.telemetry.tracing_setup` brings the provider of spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mcpx.core.telemetry.log import redacted
from mcpx.core.text import cut
from mcpx.version import __version__

Attributes = Mapping[str, str | int | bool]

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
MAX_PARENT_CHARS: Final = 64  # the form has 55
MAX_STATE_CHARS: Final = 4096  # W3C asks for 512
MAX_STATES: Final = 32
_KEY: Final = r"[a-z][_0-9a-z\-*/]{0,255}|[a-z0-9][_0-9a-z\-*/]{0,240}@[a-z][_0-9a-z\-*/]{0,13}"
_VALUE: Final = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_STATE: Final = re.compile(f"(?:{_KEY})={_VALUE}")
MAX_TARGET_CHARS: Final = 256  # of the name of a tool, a prompt, a server or a resource
NAME: Final = "mcpx"
CONVENTIONS: Final = "https://opentelemetry.io/schemas/1.40.0"
_W3C: Final = TraceContextTextMapPropagator()


class Tracing:
    """Begins the spans of one process. Where nobody wants any, `on` is false, and nothing else is used."""

    def __init__(
        self, provider: TracerProvider | None = None, close: Callable[[], None] = lambda: None
    ) -> None:
        """`close` ends what sends the spans away, within a bounded time; it must not raise."""
        self._tracer: Tracer = (provider or trace.NoOpTracerProvider()).get_tracer(
            NAME, __version__, schema_url=CONVENTIONS
        )
        self.on = provider is not None
        self.close = close

    def begin(
        self,
        name: str,
        kind: SpanKind,
        parent: Context | None,
        attributes: Attributes,
        links: list[Link] | None = None,
    ) -> Span:
        """A span that has begun, and is to be ended; `parent` is None for what is current in this task."""
        return self._tracer.start_span(name, parent, kind, attributes, links)

    def serve(
        self, method: str, target: str | None, carrier: Mapping[str, Any], attributes: Attributes
    ) -> ServedRequest:
        """The span of a request of a client, whose `_meta` or headers are the `carrier` of its trace.

        What is current is its parent, where the request says none; else it is linked.
        """
        around = trace.get_current_span().get_span_context()
        given = parent_in(carrier)
        links = [Link(around)] if given is not None and around.is_valid else None
        about = {**attributes, **request_attributes(method, target)}
        return ServedRequest(self.begin(span_name(method, target), SpanKind.SERVER, given, about, links))


class ServedRequest:
    """The span of a request of a client, from when MCPX takes it until it is answered. It ends once."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.context = trace.set_span_in_context(span, get_current())
        """The parent of the spans of its parts."""
        self.over = False
        self._error: str | None = None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Have it found by `served_request` in the block, and in what is begun there."""
        token = _SERVED.set(self)
        try:
            yield
        finally:
            _SERVED.reset(token)

    def concerns(self, attributes: Attributes) -> None:
        """Note what it turns out to be about, and that it has not failed yet."""
        self._error = None
        self._span.set_attributes(dict(attributes))

    def fail(self, error: str) -> None:
        """Note that it is answered with a failure of that type."""
        self._error = error

    def end(self, error: str | None = None, **attributes: str | int) -> None:
        """Note that it has been answered; with `error`, that it failed by that."""
        if self.over:
            return
        self.over = True
        end_span(self._span, error or self._error, attributes)

    def ids(self) -> dict[str, str]:
        """The ids of trace and span, as logs have them."""
        return ids_of(self._span)


_SERVED: ContextVar[ServedRequest | None] = ContextVar("_SERVED", default=None)


def served_request() -> ServedRequest | None:
    """The request of a client that this task, or this turn of the event loop, is about.

    Timers and tasks that were begun on behalf of a request may outlive it: then it is None.
    """
    served = _SERVED.get()
    return None if served is None or served.over else served


def note_failure(error: str) -> None:
    """Note that the request of a client is answered with a failure of that type."""
    if (served := served_request()) is not None:
        served.fail(error)


# --- names and attributes


def span_name(method: str, target: str | None) -> str:
    """The name of the span of a request: its method, and the tool or prompt, of which there are not many."""
    named = target is not None and method in ("tools/call", "prompts/get")
    return f"{short(method)} {short(target or '')}" if named else short(method)


def request_attributes(method: str, target: str | None) -> dict[str, str]:
    """The attributes that say what is asked for."""
    about = {"mcp.method.name": short(method)}
    if method == "tools/call":
        about["gen_ai.operation.name"] = "execute_tool"
    if target is None:
        return about
    if method == "tools/call":
        about["gen_ai.tool.name"] = short(target)
    elif method == "prompts/get":
        about["gen_ai.prompt.name"] = short(target)
    elif method.startswith("resources/"):
        about["mcp.resource.uri"] = short(target)
    return about


def target_in(params: Mapping[str, Any] | None) -> str | None:
    """The tool, prompt or resource that the params of a request name."""
    given = params or {}
    target = given.get("name", given.get("uri"))
    return target if isinstance(target, str) else None


def short(text: str) -> str:
    """A text from outside: bounded, without the secrets of the configuration, and such as can be encoded."""
    whole = redacted(cut(text, 4 * MAX_TARGET_CHARS))  # of a secret that was cut, the rest would be left
    return cut(whole, MAX_TARGET_CHARS).encode(errors="replace").decode()


def end_span(span: Span, error: str | None, attributes: Attributes, *, at_ns: int | None = None) -> None:
    """End a span, with the type of the error by which it failed; its text may hold what was asked for."""
    for name, value in attributes.items():
        span.set_attribute(name, value)
    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(at_ns)


def ids_of(span: Span) -> dict[str, str]:
    """The ids of a span and its trace, by the names that logs have for them."""
    context = span.get_span_context()
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }


# --- from hop to hop


def parent_in(carrier: Mapping[str, Any]) -> Context | None:
    """The span that a request names as the one around it; None where it names none that can be read."""
    parent, state = carrier.get(PARENT), carrier.get(STATE)
    if not isinstance(parent, str) or len(parent) > MAX_PARENT_CHARS:
        return None
    given = {PARENT: parent}
    if isinstance(state, str) and _can_be_read(state):
        given[STATE] = state
    found = _W3C.extract(given, Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def _can_be_read(state: str) -> bool:
    """Return True if it has the form of W3C. Of any other the API writes in the log, as it came."""
    if len(state) > MAX_STATE_CHARS:
        return False
    members = [each for member in state.split(",") if (each := member.strip(" \t"))]
    return len(members) <= MAX_STATES and all(map(_STATE.fullmatch, members))


def carrier_of(span: Span) -> dict[str, str]:
    """Return the members that name a span as the one around a request, for its `_meta`."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier


def ids_for_log() -> dict[str, str]:
    """The ids of the request that a line of the log belongs to; nothing, where it belongs to none."""
    served = served_request()
    return {} if served is None else served.ids()


def ambient() -> Tracing:
    """The tracing of a program that has set a provider of spans; off, where it has not."""
    provider = trace.get_tracer_provider()
    unset = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    return Tracing(None if unset else provider)

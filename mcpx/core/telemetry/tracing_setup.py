"""The provider of spans of a process that serves, by OpenTelemetry's own variables of the environment.

`open_tracing` is called once, at the start. What counts, in this order: a provider that is set already (as by
`opentelemetry-instrument`); else `OTEL_TRACES_EXPORTER` or an `OTEL_EXPORTER_OTLP_..._ENDPOINT`, by which a
provider is made, where SDK and exporter are installed. Without either, nothing of the SDK is imported.

The provider is MCPX's own, and is not set for the process: what the MCP SDK would trace by itself would be
the same calls once more.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog
from opentelemetry import trace

from mcpx.core.telemetry import log as logs
from mcpx.core.telemetry.tracing import Tracing, ambient, ids_for_log
from mcpx.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from opentelemetry.sdk.trace.export import SpanExporter

log = structlog.get_logger()
CLOSE_TIMEOUT_S: Final = 2.0  # for the last spans; a collector that does not answer must not hold the end up
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_GROUP: Final = "opentelemetry_traces_exporter"
_OTLP: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_PACKAGES: Final = {name: f"opentelemetry-exporter-{name.replace('_', '-')}" for name in _OTLP.values()}


class _UnusableError(Exception):
    """The spans that are asked for cannot be sent; the text says why, and what to do."""


def open_tracing(environ: Mapping[str, str] = os.environ) -> Tracing:
    """The tracing of this process, whose lines of log carry the ids; off where none is configured.

    What is configured and cannot be used is logged. Never raises.
    """
    tracing = ambient()
    if tracing.on:
        _silence_sdk()
    elif names := _exporters(environ):
        try:
            tracing = _exporting_to(names)
        except _UnusableError as problem:
            log.warning("tracing.unusable", reason=str(problem))
        except Exception as error:  # noqa: BLE001 - the boundary: the exporter is another's, and may raise anything
            log.warning("tracing.unusable", reason=f"{type(error).__name__}: {error}")
        else:
            log.info("tracing.on", exporters=",".join(names))
    if tracing.on:
        logs.carry(ids_for_log)
    return tracing


def _exporters(environ: Mapping[str, str]) -> list[str]:
    """The names of the exporters that the environment asks for; none where it asks for no spans."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    given = environ.get(EXPORTER, "").strip()
    if not given and any(environ.get(name, "").strip() for name in ENDPOINTS):
        given = "otlp"
    names = [name.strip() for name in given.split(",")]
    return [
        _otlp_by_protocol(environ) if name == "otlp" else name for name in names if name not in ("", "none")
    ]


def _otlp_by_protocol(environ: Mapping[str, str]) -> str:
    """The exporter for OTLP; over HTTP, unless the environment or what is installed says otherwise."""
    given = next((environ[name].strip() for name in PROTOCOLS if environ.get(name, "").strip()), None)
    if given is not None:
        return _OTLP.get(given, f"otlp ({given})")
    installed = {each.name for each in _entry_points()}
    return next((name for name in _OTLP.values() if name in installed), _OTLP["http/protobuf"])


def _entry_points() -> EntryPoints:
    """The exporters that are installed."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - only where spans are wanted

    return entry_points(group=_GROUP)


def _exporting_to(names: list[str]) -> Tracing:
    """Tracing by a provider with these exporters, each with a thread of its own.

    Raises:
        _UnusableError: The SDK or an exporter is not installed.
        Exception: Whatever an exporter raises.
    """
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where spans are wanted
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - likewise
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - likewise
    except ImportError:
        missing = "the environment asks for spans, but opentelemetry-sdk is not installed beside MCPX"
        raise _UnusableError(f"{missing}; install it, or unset {EXPORTER}") from None
    exporters = [_exporter(name) for name in names]
    resource = Resource({"service.name": "mcpx", "service.version": __version__}).merge(
        _given_resource(Resource)
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider, lambda: _close(provider))


def _given_resource(resource: Any) -> Any:
    """Read the environment's words on this process, without the name that the SDK gives one that has none."""
    given = resource.create()
    named = {
        key: value for key, value in given.attributes.items() if not str(value).startswith("unknown_service")
    }
    return resource(named, given.schema_url)


def _exporter(name: str) -> SpanExporter:
    """The exporter of that name.

    Raises:
        _UnusableError: It is not installed.
        Exception: Whatever it raises.
    """
    found = next(iter(_entry_points().select(name=name)), None)
    if found is None:
        package = _PACKAGES.get(name)
        hint = f"install {package} beside MCPX" if package else f"see {EXPORTER}"
        raise _UnusableError(f"there is no exporter of spans {name!r}; {hint}")
    make = found.load()
    # standard output may be the connection to a client
    exporter: SpanExporter = make(out=sys.stderr) if name == "console" else make()
    return exporter


def _close(provider: Any) -> None:
    """Send the last spans, and end the provider; bounded, for exporters try again and again."""
    closing = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_S)


def _silence_sdk() -> None:
    """Have the MCP SDK make no spans of its own, which would be those of MCPX once more."""
    from mcp.shared import _otel  # noqa: PLC0415 - where a provider is set for the process

    if hasattr(_otel, "_tracer"):
        _otel._tracer = trace.NoOpTracer()  # noqa: SLF001 - the SDK has no other way to it

"""Metrics in the forms that monitoring reads: the text format of Prometheus, and OpenMetrics.

A `Family` declares a metric, `Samples` holds the values of one scrape, and `encode` writes them in the form
that the scraper prefers. What the metrics are, and where their values come from, is
`mcpx.core.daemon.monitoring`. Values of labels may be anything that UTF-8 can encode: what needs it is
escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

TEXT: Final = "text/plain"
OPENMETRICS: Final = "application/openmetrics-text"
CONTENT_TYPES: Final = {
    TEXT: f"{TEXT}; version=0.0.4; charset=utf-8",
    OPENMETRICS: f"{OPENMETRICS}; version=1.0.0; charset=utf-8",
}
_VERSIONS: Final = {TEXT: ("0.0.4",), OPENMETRICS: ("1.0.0", "0.0.1")}
_MAX_RANGES: Final = 32  # of an Accept header that are looked at
_OF_PROCESS: Final = ProcessCollector(registry=None)

Kind = Literal["counter", "gauge", "histogram", "info"]


class Family(NamedTuple):
    """One metric: its name as it is scraped, what it means, and the names of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


class Samples(Collector):
    """The values of one scrape. Each combination of a family and values of its labels is added once."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._metrics = {each.name: _metric(each) for each in families}

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add a value of a counter, a gauge or an info."""
        self._metrics[family.name].add_sample(
            family.name, dict(zip(family.labels, labels, strict=True)), value
        )

    def add_histogram(
        self, family: Family, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: str
    ) -> None:
        """Add a histogram: how many values fell between the bounds and over the last, and the values' sum."""
        metric, of = self._metrics[family.name], dict(zip(family.labels, labels, strict=True))
        so_far = list(accumulate(counts))
        for bound, count in zip((*bounds, float("inf")), so_far, strict=True):
            le = floatToGoString(bound)  # type: ignore[no-untyped-call]
            metric.add_sample(f"{family.name}_bucket", {**of, "le": le}, count)
        metric.add_sample(f"{family.name}_count", of, so_far[-1])
        metric.add_sample(f"{family.name}_sum", of, total)

    def collect(self) -> Iterator[Metric]:
        """The metrics that have a value, and those of this process that every exporter gives."""
        yield from (metric for metric in self._metrics.values() if metric.samples)
        yield from _OF_PROCESS.collect()


def _metric(family: Family) -> Metric:
    suffix = {"counter": "_total", "info": "_info"}.get(family.kind, "")
    return Metric(family.name.removesuffix(suffix), family.help, family.kind)


def encode(samples: Samples, accept: str) -> tuple[bytes, str]:
    """The samples in the form that an Accept header prefers, and the content type of that."""
    chosen = preferred(accept)
    if chosen == OPENMETRICS:
        body: bytes = generate_openmetrics(samples)  # type: ignore[no-untyped-call]
    else:
        body = generate_latest(samples)
    return body, CONTENT_TYPES[chosen]


def preferred(accept: str) -> str:
    """Which of the two forms an Accept header prefers (RFC 9110, 12.5.1); the text where it names neither."""
    qualities = {TEXT: 0.0, OPENMETRICS: 0.0}
    for part in accept.split(",")[:_MAX_RANGES]:
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        given = dict(each.partition("=")[::2] for each in parameters)
        if name in qualities and given.get("version", _VERSIONS[name][0]) in _VERSIONS[name]:
            qualities[name] = max(qualities[name], _quality(given.get("q", "1")))
    return max(qualities, key=qualities.__getitem__)  # the first of equals, which is the text


def _quality(given: str) -> float:
    try:
        return min(float(given), 1.0)
    except ValueError:
        return 0.0

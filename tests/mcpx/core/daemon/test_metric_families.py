"""The forms of metrics: which one a scraper gets, and that each is read back as it was meant."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from mcpx.core.daemon.metric_families import OPENMETRICS, TEXT, Family, Samples, encode, preferred

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
CALLS = Family("x_calls_total", "counter", "How many.", ("server",))
BUILD = Family("x_build_info", "info", "Which.", ("version",))
STATE = Family("x_state", "gauge", "Where \\ it\nis.", ("server",))
TIME = Family("x_time_seconds", "histogram", "How long.", ("server",))
UNUSED = Family("x_unused", "gauge", "Never.")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        (PROMETHEUS, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("text/plain;q=0.5, APPLICATION/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.3", TEXT),
        ("application/openmetrics-text;q=0,text/html", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;version=;q=x", TEXT),
        ("application/openmetrics-text;q=nan", TEXT),
        ("application/json", TEXT),
        (";;;,,,=;q==;\x00", TEXT),
        ("a/b," * 100_000 + "application/openmetrics-text", TEXT),
    ],
)
def test_the_form_is_what_the_scraper_prefers(accept, form):
    assert preferred(accept) == form


def scraped(accept, **of):
    samples = Samples([CALLS, BUILD, STATE, TIME, UNUSED])
    samples.add(BUILD, 1, "1.2")
    for server, calls in of.items():
        samples.add(CALLS, calls, server)
        samples.add(STATE, 0.5, server)
        samples.add_histogram(TIME, (0.1, 2.0), (3, 0, 4), 12.5, server)
    body, content_type = encode(samples, accept)
    assert content_type.startswith(preferred(accept))
    parse = openmetrics_families if preferred(accept) == OPENMETRICS else text_families
    return {each.name: each for each in parse(body.decode())}


@pytest.mark.parametrize("accept", [TEXT, OPENMETRICS])
def test_values_are_read_back(accept):
    found = scraped(accept, a=7, b=0)
    assert [(each.name, each.labels["server"], each.value) for each in found["x_calls"].samples] == [
        ("x_calls_total", "a", 7),
        ("x_calls_total", "b", 0),
    ]
    of_a = [each for each in found["x_time_seconds"].samples if each.labels["server"] == "a"]
    assert [(each.name, each.labels.get("le"), each.value) for each in of_a] == [
        ("x_time_seconds_bucket", "0.1", 3),
        ("x_time_seconds_bucket", "2.0", 3),
        ("x_time_seconds_bucket", "+Inf", 7),
        ("x_time_seconds_count", None, 7),
        ("x_time_seconds_sum", None, 12.5),
    ]
    assert found["x_state"].documentation == STATE.help
    assert "x_unused" not in found
    assert found["process_cpu_seconds"].samples[0].value > 0
    build = found["x_build" if accept == OPENMETRICS else "x_build_info"]
    assert build.type == ("info" if accept == OPENMETRICS else "gauge")


@pytest.mark.parametrize("accept", [TEXT, OPENMETRICS])
@pytest.mark.parametrize(
    "name", ['a"} 1\nx_calls_total{server="b', "\\", "\\n", "", "漢字 🦊", "\r\u2028", " # "]
)
def test_no_name_gets_out_of_its_label(accept, name):
    found = scraped(accept, **{name: 3})
    assert [(each.labels, each.value) for each in found["x_calls"].samples] == [({"server": name}, 3)]


def test_a_value_has_all_the_labels_of_its_family():
    with pytest.raises(ValueError, match="shorter"):
        Samples([CALLS]).add(CALLS, 1)

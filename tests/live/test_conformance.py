"""The official conformance suite finds the same through the transparent endpoint as directly, in both eras.

All scenarios of the newest version of the suite; `scripts/conformance` runs all versions, reference servers
and ways.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.live.conformance.clients import check_mcpx, check_sign_ins
from tests.live.conformance.runs import Entry, Run, baseline, differences, failures, unexplained
from tests.live.conformance.suite import REVISIONS, Check, Found, check_server, missing
from tests.live.conformance.targets import DIRECT, REFERENCES, TARGETS, opened
from tests.live.servers import absent

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(240)]

REFERENCE = REFERENCES[0]  # speaks both eras
TRANSPARENT = TARGETS[0]
NEWEST = REVISIONS[1:]


@pytest.fixture
def installed():
    for revision in NEWEST:
        absent(missing(revision))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("revision", NEWEST, ids=lambda revision: str(revision.protocol))
async def test_the_suite_finds_the_same_through_the_transparent_endpoint(revision, tmp_path):
    async with opened(REFERENCE, DIRECT, tmp_path) as url:
        alone = await check_server(revision, url, [])
    assert failures(alone) == []
    async with opened(REFERENCE, TRANSPARENT, tmp_path) as url:
        through = await check_server(revision, url, [])
    different = differences(alone, through)
    known = baseline().difference
    assert unexplained(Run(REFERENCE, revision, TRANSPARENT), different, known) == [], through.reasons
    assert through.counts()[0] > 80


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("revision", "endpoint", "scenario", "checks"),
    [(NEWEST[0], "exec", "sse-retry", 3), (NEWEST[1], "transparent", "http-custom-headers", 18)],
)
async def test_mcpx_is_a_good_client(revision, endpoint, scenario, checks):
    found = await check_mcpx(revision, endpoint, [scenario])
    assert failures(found) == [], found.reasons
    assert found.counts()[0] >= checks


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("revision", "scenario", "checks"),
    [(REVISIONS[0], "auth/client-credentials-jwt", 4), (NEWEST[1], "auth/scope-step-up", 15)],
)
async def test_mcpx_signs_in_as_the_specification_says(revision, scenario, checks):
    found = await check_sign_ins(revision, [scenario])
    assert failures(found) == [], found.reasons
    assert found.counts()[0] >= checks


def found(**statuses):
    checks = Counter(Check("scene", name, name, status) for name, status in statuses.items())
    return Found(checks, {})


@pytest.mark.parametrize(
    ("through", "different"),
    [
        ({"one": "SUCCESS", "two": "WARNING"}, []),
        ({"one": "FAILURE", "two": "WARNING"}, [("one", "FAILURE")]),
        ({"one": "SUCCESS", "two": "SUCCESS"}, []),  # better than alone
        ({"one": "SUCCESS"}, [("two", "MISSING")]),
        ({"one": "SUCCESS", "two": "WARNING", "three": "SKIPPED"}, [("three", "SKIPPED")]),
    ],
)
def test_what_is_worse_through_mcpx_is_a_difference(through, different):
    checks = differences(found(one="SUCCESS", two="WARNING"), found(**through))
    assert [(check.id, check.status) for check in checks] == different


def test_an_entry_of_the_baseline_covers_its_own_check_only():
    run = Run(REFERENCE, NEWEST[1], TRANSPARENT)
    checks = [Check("scene", name, name, "FAILURE") for name in ("one", "two")]
    entry = Entry(because="so", target="transparent", scenario="scene", check="one")
    assert unexplained(run, checks, [entry]) == checks[1:]
    elsewhere = Entry(because="so", target="three tools", scenario="scene")
    assert unexplained(run, checks, [elsewhere]) == checks


def test_every_entry_of_the_baseline_names_its_reason():
    known = baseline()
    assert all(len(entry.because) > 40 for entry in known.difference + known.client)

"""What MCPX is made of besides its own code: the licences may be used, and the bill of materials is whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from scripts.lab.releasing import licences
from scripts.lab.releasing.licences import Licensed, licence_of, objections
from scripts.lab.releasing.sbom import bill
from scripts.lib import lock
from tests.release.artefacts import TOOLS, require, run

VENDOR = licences.VENDORED.parent
APPROVED = "License :: OSI Approved :: "


def test_everything_that_is_used_has_a_licence_that_may_be():
    found = [*licences.everything()]
    assert objections(found) == []
    named = {each.name for each in found}
    assert named >= lock.locked(lock.RUNTIME).keys() | lock.locked(lock.DEV).keys() | {"preact", "htm"}


@pytest.mark.parametrize(
    ("fields", "classifiers", "told"),
    [
        ({"License-Expression": "MIT OR GPL-2.0-only"}, [], "MIT OR GPL-2.0-only"),
        ({"License": "Apache 2.0"}, [], "Apache-2.0"),
        ({"License": "a whole licence\nof many lines"}, [APPROVED + "MIT License"], "MIT"),
        ({}, [APPROVED + "MIT License", APPROVED + "Apache Software License"], "Apache-2.0 OR MIT"),
        ({}, [APPROVED + "MIT License", APPROVED + "Some License"], ""),
        ({"License": "see LICENSE"}, [], ""),
        ({}, [], ""),
    ],
)
def test_a_licence_is_told_by_what_the_distribution_declares(fields, classifiers, told):
    assert licence_of(fields, classifiers) == told


@pytest.mark.parametrize(
    ("licence", "used", "fine"),
    [
        ("MIT", "runtime", True),
        ("Apache-2.0 AND BSD-2-Clause", "runtime", True),
        ("GPL-2.0-only OR MIT", "runtime", True),
        ("GPL-2.0-only AND MIT", "runtime", False),
        ("GPL-3.0-or-later", "runtime", False),
        ("GPL-3.0-or-later", "tests", True),
        ("AGPL-3.0-only", "tests", False),
        ("Proprietary", "page", False),
        ("", "tests", False),
    ],
)
def test_what_may_not_be_used_or_cannot_be_told_is_named(licence, used, fine):
    lines = objections([Licensed("thing", "1", licence, used)])
    assert (lines == []) is fine
    assert all(line.startswith("thing 1: ") for line in lines)


@pytest.fixture(scope="module")
def made():
    return bill("1.2.3", "MIT", at=datetime(2026, 1, 2, tzinfo=UTC), serial=UUID(int=0))


def test_the_bill_has_all_that_is_locked_or_vendored_with_digests_and_how_it_hangs_together(made):
    parts = {part["bom-ref"]: part for part in made["components"]}
    locked = {f"pkg:pypi/{name}@{version}" for name, version in lock.locked(lock.RUNTIME).items()}
    pages = {f"page/{each.file}" for each in licences.vendored()}
    assert parts.keys() == locked | pages
    text = lock.RUNTIME.read_text()
    digests = [each["hashes"][0]["content"] for ref in locked for each in parts[ref]["externalReferences"]]
    assert len(digests) == text.count("--hash=sha256:")
    assert all(digest in text for digest in digests)
    needs = {each["ref"]: set(each["dependsOn"]) for each in made["dependencies"]}
    own = made["metadata"]["component"]["bom-ref"]
    reached, left = set(), {own}
    while left:
        reached |= left
        left = set().union(*(needs.get(ref, set()) for ref in left)) - reached
    assert {ref.partition("@")[0] for ref in parts.keys() - reached} <= {"pkg:pypi/setuptools"}


@pytest.mark.others
def test_the_bill_is_what_cyclonedx_says_it_must_be(made, tmp_path):
    require("uv")
    files = [tmp_path / "sbom.cdx.json", tmp_path / "wrong.cdx.json"]
    files[0].write_text(json.dumps(made))
    files[1].write_text(json.dumps(made | {"components": "none"}))
    said = json.loads(run([TOOLS / "python", Path(__file__).parent / "validate_bill.py", *files]))
    assert (said[0], "'none' is not of type 'array'" in said[1]) == (None, True)

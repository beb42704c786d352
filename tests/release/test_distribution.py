"""What MCPX is called where it is installed from, and that what it needs is locked."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mcpx import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<hashes>( \\\n    --hash=sha256:[0-9a-f]{64})+)$",
    re.MULTILINE,
)


def lock(name: str) -> dict[str, str]:
    """The versions of a lock, each of which has hashes; there is nothing else in it."""
    text = (ROOT / "scripts/lib" / name).read_text()
    assert re.sub(LOCKED, "", re.sub(r"^#.*$", "", text, flags=re.MULTILINE)).strip() == ""
    return {found["name"]: found["version"] for found in LOCKED.finditer(text)}


def test_the_distribution_is_not_called_what_another_is_and_cannot_be_uploaded():
    told = distribution("mcpx-gateway")
    assert told.version == __version__
    assert "Private :: Do Not Upload" in told.metadata.get_all("Classifier", [])
    assert {point.name: point.value for point in told.entry_points} == {"mcpx": "mcpx.__main__:main"}


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_nobody_is_told_to_install_the_other_one(file):
    text = (ROOT / file).read_text()
    assert re.findall(r"(?:pip|pipx|uv|tool) (?:install|run|add) (?:-\S+ )*mcpx\b(?!-gateway)", text) == []
    assert re.findall(r"\buvx mcpx\b(?!-gateway)", text) == []


def test_what_the_project_asks_for_is_locked_with_hashes():
    runtime, dev = lock("requirements.txt"), lock("requirements-dev.txt")
    assert not set(runtime) & set(dev)
    project = PROJECT["project"]
    for needed, locked in (
        ([*project["dependencies"], *PROJECT["build-system"]["requires"]], runtime),
        (project["optional-dependencies"]["dev"], {**runtime, **dev}),
    ):
        for one in map(Requirement, needed):
            assert one.specifier.contains(locked[canonicalize_name(one.name)]), f"{one}; run scripts/lock"

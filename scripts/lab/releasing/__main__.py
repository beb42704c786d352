"""The texts of a release, and its version; `scripts/release` says how it is called."""

from __future__ import annotations

import argparse
import difflib
import json
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from packaging.version import Version

from scripts.lab.releasing import formula
from scripts.lab.releasing.building import build
from scripts.lab.releasing.changelog import UNRELEASED, ReleaseError, notes, released, version_of
from scripts.lab.releasing.sbom import bill

DISTRIBUTION: Final = "mcpx-gateway"
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
NEXT: Final = """
Next, when you have read the difference:
  git commit --all --message "Release {version}"
  git tag --annotate v{version} --message v{version}
  git push --follow-tags
"""


def main(arguments: list[str] | None = None, root: Path = Path(__file__).parents[3]) -> int:
    """Do as told in the checkout `root`; 1 with one line on standard error where that cannot be."""
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument("version", nargs="?", help="the version to release, as 1.2.3")
    parser.add_argument("--dry-run", action="store_true", help="show the difference, and change nothing")
    parser.add_argument(
        "--notes", nargs="?", const=UNRELEASED, metavar="VERSION", help="print the notes alone"
    )
    parser.add_argument("--formula", nargs=2, metavar=("URL", "FILE"), help="print the Homebrew formula")
    parser.add_argument(
        "--try", nargs="?", const="", dest="attempt", metavar="URL", help="print the lines to try it"
    )
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build source distribution and wheel")
    parser.add_argument(
        "--sbom", action="store_true", default=None, help="print the bill of materials (CycloneDX)"
    )
    chosen = parser.parse_args(arguments)
    asked = [chosen.version, chosen.notes, chosen.formula, chosen.attempt, chosen.build, chosen.sbom]
    if sum(each is not None for each in asked) != 1:
        parser.error("give a VERSION, or one of --notes, --build, --formula, --try and --sbom")
    try:
        if chosen.version is not None:
            release(root, version_of(chosen.version), dry_run=chosen.dry_run)
        else:
            print(text(root, chosen), end="")
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def text(root: Path, chosen: argparse.Namespace) -> str:
    """The text that was asked for."""
    if chosen.notes is not None:
        return notes((root / "CHANGELOG.md").read_text("utf-8"), chosen.notes)
    if chosen.build is not None:
        return "".join(f"{path}\n" for path in build(root, chosen.build))
    version = current(root)
    if chosen.attempt is not None:
        return attempts(version, chosen.attempt)
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    if chosen.sbom:
        made = bill(version, project["license"], at=datetime.now(UTC), serial=uuid4())
        return json.dumps(made, indent=2) + "\n"
    url, wheel = chosen.formula[0], Path(chosen.formula[1])
    if not wheel.is_file() or f"-{version}-" not in wheel.name:
        raise ReleaseError(f"{wheel} is no wheel of {version}: build one with scripts/release --build FOLDER")
    return formula.formula(project, wheel, version, url)


def attempts(version: str, url: str) -> str:
    """The lines that run MCPX once, without installing it."""
    file = f"{url.rstrip('/')}/{DISTRIBUTION.replace('-', '_')}-{version}-py3-none-any.whl"
    what = file if url else f"{DISTRIBUTION}=={version}"
    return f"uvx --from {what} mcpx demo\npipx run --spec {what} mcpx demo\n"


def release(root: Path, version: str, *, dry_run: bool) -> None:
    """Set the version and date the changelog, or show both; print the notes."""
    if not dry_run and (changed := _git(root, "status", "--porcelain")):
        raise ReleaseError(f"there are changes that are not committed; commit or stash them:\n{changed}")
    if _git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} is there already: choose a later version")
    if Version(current(root)) > Version(version):
        raise ReleaseError(
            f"{version} is before {current(root)}, the version of this checkout: choose a later one"
        )
    module, changelog = root / "mcpx" / "version.py", root / "CHANGELOG.md"
    before = {path: path.read_text("utf-8") for path in (module, changelog)}
    after = {
        module: _VERSION.sub(f'__version__ = "{version}"', before[module]),
        changelog: released(before[changelog], version, datetime.now(UTC).date()),
    }
    for path, new in after.items():
        if dry_run:
            _show(str(path.relative_to(root)), before[path], new)
        else:
            path.write_text(new, "utf-8")
    print(notes(after[changelog], version), end="")
    print("dry run: nothing is changed" if dry_run else NEXT.format(version=version), file=sys.stderr)


def current(root: Path) -> str:
    """The version of the checkout."""
    found = _VERSION.findall((root / "mcpx" / "version.py").read_text("utf-8"))
    if len(found) != 1:
        raise ReleaseError('mcpx/version.py must have one line __version__ = "..."')
    return str(found[0])


def _show(name: str, old: str, new: str) -> None:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, n=1, lineterm="")
    for line in lines:
        print(line, file=sys.stderr)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"a release is made in a git checkout: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

"""Locks what MCPX needs: one version of each distribution, and the hashes of its files. Run by scripts/lock.

Two files beside this one: `requirements.txt` for running and building, `requirements-dev.txt` for what the
checks and tests need besides. pip resolves them, for the oldest Python that MCPX runs on; then the markers of
every distribution are read for each Python and system that is supported, so that what only another one needs
is there too. All that is locked is installed everywhere: a backport too many does no harm.

    lock.py               adds and drops what pyproject.toml asks for; what is locked keeps its version
    lock.py --upgrade     takes the newest versions
    lock.py --newer FILE  writes the newest versions for running to FILE, if any differs from the lock's
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from pip._internal.models.index import PyPI

HERE = Path(__file__).parent
PROJECT = HERE.parents[1] / "pyproject.toml"
RUNTIME, DEV = HERE / "requirements.txt", HERE / "requirements-dev.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {"linux": ("Linux", ("x86_64", "aarch64")), "darwin": ("Darwin", ("arm64",))}
PLATFORMS = ("any", "linux", "manylinux", "musllinux", "macosx")
JSON = "application/vnd.pypi.simple.v1+json"
PATIENCE_S = 60.0
HEAD = """\
# Made by scripts/lock out of pyproject.toml: do not edit.
# {what}, with the hashes of all files that a supported Python may take.
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--newer", type=Path)
    chosen = parser.parse_args()
    project = tomllib.loads(PROJECT.read_text())
    runtime = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    if chosen.newer:
        write_newer(runtime, chosen.newer)
        return
    dev = [*runtime, *project["project"]["optional-dependencies"]["dev"]]
    kept = {} if chosen.upgrade else {**locked(RUNTIME), **locked(DEV)}
    pins = resolve(runtime, kept)
    more = resolve(dev, {**kept, **pins})
    write(RUNTIME, "What MCPX needs to run and to be built", pins)
    write(DEV, "What its checks and tests need besides", {n: v for n, v in more.items() if n not in pins})


def write_newer(requirements: list[str], file: Path) -> None:
    newest, known = resolve(requirements, {}), locked(RUNTIME)
    for name, version in newest.items():
        if known.get(name) != version:
            print(f"{name} {version} (locked: {known.get(name, 'none')})")
    if newest != known:
        file.write_text("".join(f"{name}=={version}\n" for name, version in newest.items()))


def locked(file: Path) -> dict[str, str]:
    """The versions in a file of ours, by canonical name."""
    lines = file.read_text().splitlines() if file.exists() else []
    pins = (line.removesuffix(" \\").split("==") for line in lines if "==" in line)
    return dict(pin for pin in pins if len(pin) == 2)  # noqa: PLR2004 - a name and a version


def locked_digests(file: Path) -> dict[str, list[str]]:
    """The SHA-256 of the wheels of each distribution in a file of ours."""
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        if "==" in line and not line.startswith("#"):
            digests = found.setdefault(line.partition("==")[0], [])
        elif "--hash=sha256:" in line:
            digests.append(line.partition("--hash=sha256:")[2].removesuffix(" \\"))
    return found


def resolve(requirements: list[str], kept: dict[str, str]) -> dict[str, str]:
    """The version of each distribution that is needed, by canonical name, in order."""
    wanted = list(requirements)
    while True:
        found = ask_pip(wanted, kept)
        if not (missing := sorted(set(unmet(requirements, found)))):
            return {name: one["version"] for name, one in sorted(found.items())}
        wanted += missing


def ask_pip(requirements: list[str], kept: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The metadata of what pip would install on the oldest Python, by canonical name."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in kept.items()))
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += [
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
            "--report",
            "-",
            "--target",
            folder,
        ]
        command += ["--python-version", PYTHONS[0], "--only-binary", ":all:", "--constraint", constraints]
        done = subprocess.run([*command, *requirements], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    installed = [one["metadata"] for one in json.loads(done.stdout)["install"]]
    return {canonicalize_name(one["name"]): one for one in installed}


def unmet(requirements: Iterable[str], found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What some supported Python or system needs, and pip did not, for this one."""
    for environment in environments():
        stack = [(Requirement(text), environment) for text in requirements]
        seen: set[tuple[str, str]] = set()
        while stack:
            one, around = stack.pop()
            if one.marker is not None and not one.marker.evaluate(around):
                continue
            name = canonicalize_name(one.name)
            if name not in found:
                yield f"{one.name}{one.specifier}"
                continue
            for extra in ("", *one.extras):
                if (name, extra) not in seen:
                    seen.add((name, extra))
                    inner = {**environment, "extra": extra}
                    stack += [(Requirement(text), inner) for text in found[name].get("requires_dist", [])]


def environments() -> Iterator[dict[str, str]]:
    for python, (system, (name, machines)) in product(PYTHONS, SYSTEMS.items()):
        for machine in machines:
            yield {
                "python_version": python,
                "python_full_version": f"{python}.0",
                "implementation_version": f"{python}.0",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "os_name": "posix",
                "sys_platform": system,
                "platform_system": name,
                "platform_machine": machine,
                "extra": "",
            }


def write(file: Path, what: str, pins: dict[str, str]) -> None:
    lines = [HEAD.format(what=what)]
    for name, version in pins.items():
        hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(digests(name, version)))
        lines.append(f"{name}=={version}{hashes}\n")
    file.write_text("".join(lines))
    print(f"{file.name}: {len(pins)} distributions")


def digests(name: str, version: str) -> Iterator[str]:
    """The SHA-256 of each file of a version that a supported Python may take, from pip's index."""
    asked = urllib.request.Request(f"{index()}/{name}/", headers={"Accept": JSON})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        files = json.load(answer)["files"]
    ours = [file for file in files if may_be_taken(file["filename"], name, version)]
    if not ours:
        sys.exit(f"error: the index has no file of {name} {version}")
    yield from (file["hashes"]["sha256"] for file in ours)


@cache
def index() -> str:
    """The address of the index that pip is set up with."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return (os.environ.get("PIP_INDEX_URL") or done.stdout.strip() or PyPI.simple_url).rstrip("/")


def may_be_taken(filename: str, name: str, version: str) -> bool:
    """Whether it is a wheel of that version for a supported Python on a supported system.

    No source: building one would fetch what is not locked.
    """
    if not filename.endswith(".whl"):
        return False
    try:
        its_name, its_version, _, tags = parse_wheel_filename(filename)
    except ValueError:
        return False
    if its_name != name or str(its_version) != version:
        return False
    oldest, newest = (int(python.split(".")[1]) for python in (PYTHONS[0], PYTHONS[-1]))
    for tag in tags:
        minor = tag.interpreter.removeprefix("cp3")
        ours = oldest <= int(minor) <= newest if minor.isdigit() else tag.interpreter == "py3"
        stable = minor.isdigit() and tag.abi == "abi3" and int(minor) <= newest
        if (ours or stable) and tag.platform.startswith(PLATFORMS):
            return True
    return False


if __name__ == "__main__":
    main()

"""The Homebrew formula: every locked wheel as a resource, with its digest, for each system and processor.

Of each distribution it has the wheel for any system, or one for each; what is locked for none of them is an
error. The address of a wheel is what pip's index says of the file with that digest. Macs with Intel are left
out: cryptography has had no wheel for them since version 49.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from packaging.tags import Tag, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

from scripts.lab.releasing.changelog import ReleaseError
from scripts.lib import lock

PYTHON: Final = (3, 13)
AT_A_TIME: Final = 8  # questions to the index
BUILDING: Final = {"setuptools"}  # locked, and of no use to what is installed
SYSTEMS: Final = {
    ("macos", "arm"): (*mac_platforms((14, 0), "arm64"),),
    ("linux", "arm"): (
        *(f"manylinux_2_{minor}_aarch64" for minor in range(39, 16, -1)),
        "manylinux2014_aarch64",
    ),
    ("linux", "intel"): (
        *(f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1)),
        *(f"manylinux{year}_x86_64" for year in (2014, 2010, 1)),
    ),
}
"""The kinds of machine, as Homebrew names them, with the platforms of wheels that each takes, best first."""

HEAD: Final = """\
class McpxGateway < Formula
  include Language::Python::Virtualenv

  desc "{description}"
  homepage "{homepage}"
  url "{url}", using: :nounzip
  version "{version}"
  sha256 "{sha256}"
  license all_of: [{licences}]

  depends_on "python@{python}"

  on_macos do
    depends_on arch: :arm64
  end

"""
TAIL: Final = """\
  def install
    virtualenv_create(libexec, "python{python}")
    python = Formula["python@{python}"].opt_bin/"python{python}"
    pip = [python, "-m", "pip", "--python=#{{libexec}}/bin/python", "install", "--no-deps", "--no-index"]
    resources.each {{ |each| each.stage {{ system(*pip, *Dir["*.whl"]) }} }}
    system(*pip, *Dir["*.whl"])
    bin.install_symlink libexec/"bin/mcpx"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/mcpx version")
    shop = {{ command: libexec/"bin/python", args: ["-P", "-m", "mcpx.demo.tools"] }}
    (testpath/"config.json").write JSON.generate({{ mcpServers: {{ shop: }} }})
    call = "exec --config config.json shop convert_units value=1 source=km target=m"
    assert_match "1000", shell_output("#{{bin}}/mcpx #{{call}}")
    system bin/"mcpx", "daemon", "stop", "--config", "config.json"
  end
end
"""


class Wheel(NamedTuple):
    """A file of the index."""

    url: str
    sha256: str


Files = Mapping[str, Wheel]


def formula(project: Mapping[str, object], wheel: Path, version: str, url: str) -> str:
    """The formula of a wheel that is downloaded from the folder `url`, homepage of the project, too."""
    licences = ", ".join(f'"{one}"' for one in str(project["license"]).split(" AND "))
    head = HEAD.format(
        description=str(project["description"]).split(":")[0],
        homepage=url.partition("/releases/")[0],
        url=f"{url.rstrip('/')}/{wheel.name}",
        version=version,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        licences=licences,
        python=python(),
    )
    lock.index()  # asked once, not by each thread
    with ThreadPoolExecutor(AT_A_TIME) as index:
        found = dict(zip(locked(), index.map(lambda pin: files(*pin), locked().items()), strict=True))
    blocks = [resource(name, its) for name, its in found.items()]
    return head + "\n".join(blocks) + "\n" + TAIL.format(python=python())


def python() -> str:
    return ".".join(map(str, PYTHON))


def locked() -> dict[str, str]:
    """The versions of what MCPX needs to run, by name."""
    return {name: version for name, version in lock.locked(lock.RUNTIME).items() if name not in BUILDING}


def files(name: str, version: str) -> Files:
    """The wheels of a version that are in the lock, by file name, from pip's index."""
    asked = urllib.request.Request(f"{lock.index()}/{name}/", headers={"Accept": lock.JSON})
    with urllib.request.urlopen(asked, timeout=lock.PATIENCE_S) as answer:
        listed = json.load(answer)["files"]
    known = lock.RUNTIME.read_text()
    return {
        file["filename"]: Wheel(urllib.request.urljoin(asked.full_url, file["url"]), file["hashes"]["sha256"])
        for file in listed
        if lock.may_be_taken(file["filename"], name, version) and file["hashes"]["sha256"] in known
    }


def resource(name: str, found: Files) -> str:
    """The block of one distribution: one wheel for all, or one for each kind of machine."""
    chosen = {kind: best(name, found, platforms) for kind, platforms in SYSTEMS.items()}
    if len(set(chosen.values())) == 1:
        return _block(name, next(iter(chosen.values())), indent=2)
    lines = []
    for system, processor in SYSTEMS:
        block = _block(name, chosen[system, processor], indent=6)
        lines.append(f"  on_{system} do\n    on_{processor} do\n{block}    end\n  end\n")
    return "".join(lines)


def best(name: str, found: Files, platforms: tuple[str, ...]) -> Wheel:
    """The wheel that pip would take there."""
    tags: dict[str, frozenset[Tag]] = {file: parse_wheel_filename(file)[3] for file in found}
    for wanted in _tags(platforms):
        for file, its in tags.items():
            if wanted in its:
                return found[file]
    raise ReleaseError(f"the lock has no wheel of {name} for {platforms[0]}: run scripts/lock")


def _tags(platforms: tuple[str, ...]) -> Iterator[Tag]:
    yield from cpython_tags(PYTHON, platforms=platforms)
    yield Tag("py3", "none", "any")


def _block(name: str, wheel: Wheel, *, indent: int) -> str:
    space = " " * indent
    return (
        f'{space}resource "{name}" do\n'
        f'{space}  url "{wheel.url}", using: :nounzip\n'
        f'{space}  sha256 "{wheel.sha256}"\n'
        f"{space}end\n"
    )

"""The libraries of the page are the published files, unchanged, with their licences."""

import hashlib
import re
from importlib.resources import files

VENDOR = files("mcpx.page") / "static" / "vendor"
ROW = re.compile(r"^\| `([^`]+)` \| (\S+) \| (\S+) \| `[^`]+` \| (\S+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def rows() -> dict[str, tuple[str, str]]:
    """By file: the package that it is of, and its digest, as the list has them."""
    text = (VENDOR / "VENDORED.md").read_text()
    return {name: (package, digest) for name, package, _, _, digest in ROW.findall(text)}


def test_each_file_is_the_one_that_is_listed() -> None:
    digests = {name: digest for name, (_, digest) in rows().items()}
    assert digests == {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in digests}


def test_each_file_is_listed_or_a_licence() -> None:
    there = {each.name for each in VENDOR.iterdir()} - {"VENDORED.md"}
    licences = {name for name in there if name.startswith("LICENSE-")}
    assert there - licences == set(rows())


def test_each_package_has_its_licence() -> None:
    wanted = {f"LICENSE-{package.split('/')[-1]}.txt" for package, _ in rows().values()}
    assert wanted == {each.name for each in VENDOR.iterdir() if each.name.startswith("LICENSE-")}

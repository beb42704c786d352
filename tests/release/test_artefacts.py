"""What a release consists of: the files in the wheel and the source distribution, and that each installer's
environment answers a first call. All of it from the two files that are built here, once."""

from __future__ import annotations

import json
import tarfile
import zipfile
from email import message_from_bytes

import pytest

from mcpx import __version__
from tests.docs import pages
from tests.mcpx.serving import environment
from tests.release.artefacts import ROOT, Environment, require, run

pytestmark = pytest.mark.others
LICENCES = {"LICENSE", *(f"LICENSE-{name}.txt" for name in ("htm", "inter", "preact"))}
SHIPPED = ("mcpx", "supervisors")


def in_wheel(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def sources():
    """The files below the two packages that git knows, but for pages of documentation."""
    listed = run(["git", "ls-files", *SHIPPED], cwd=ROOT).splitlines()
    return {name for name in listed if not name.endswith("README.md")}


def test_the_wheel_holds_the_two_packages_whole_and_nothing_else(built):
    names = in_wheel(built).keys()
    about = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - about == sources()
    assert {"mcpx/py.typed", "supervisors/py.typed", "mcpx/page/static/index.html"} <= names


def test_the_licence_of_everything_in_the_wheel_stands_in_it_and_in_its_metadata(built):
    files = in_wheel(built)
    kept = {name: text for name, text in files.items() if ".dist-info/licenses/" in name}
    assert {name.rpartition("/")[2] for name in kept} == LICENCES
    (metadata,) = [message_from_bytes(text) for name, text in files.items() if name.endswith("/METADATA")]
    vendored = pages.table(ROOT / "mcpx/page/static/vendor/VENDORED.md", *VENDORED)
    assert metadata["License-Expression"].split(" AND ") == [
        "MIT",
        *sorted({row[4] for row in vendored} - {"MIT"}),
    ]
    assert metadata["Version"] == __version__
    assert set(metadata.get_all("Provides-Extra")) >= {"keychain", "ray"}


VENDORED = ("file", "package", "version", "file in the package", "licence", "SHA-256")


def test_the_source_distribution_holds_no_tests_and_the_wheel_is_built_of_it(built):
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {name.partition("/")[0] for name in names if name} == {
        *SHIPPED, "LICENSE", "PKG-INFO", "README.md", "mcpx_gateway.egg-info", "pyproject.toml", "setup.cfg",
    }  # fmt: skip
    assert sources() <= names


INSTALLED = {
    "pip": ("with_pip", "wheel", ""),
    "pipx": ("with_pipx", "wheel", ""),
    "uv tool, from source": ("with_uv", "sdist", ""),
    "uv tool, with extras": ("with_uv", "wheel", "keychain,ray"),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", INSTALLED)
def test_a_clean_environment_answers_a_first_call_and_one_runs_the_demo_to_its_end(way, built, tmp_path):
    how, which, extras = INSTALLED[way]
    require("uv")
    file = getattr(built, which)
    mcpx = getattr(Environment(tmp_path / "installed"), how)(f"mcpx-gateway[{extras}] @ {file.as_uri()}")
    env = environment(tmp_path) | {"HOME": str(tmp_path)}
    told = json.loads(run([mcpx, "version", "--json"], env=env))
    assert told["version"] == __version__
    assert told["installed"] == {"from": file.as_uri(), "by": way.partition(",")[0], "editable": False}
    assert str(tmp_path / "installed") in told["path"]

    python = mcpx.resolve().parent / "python"
    for module in ("keyring", "ray"):
        has = run(
            [python, "-c", f"import importlib.util; print(importlib.util.find_spec({module!r}) is not None)"]
        )
        assert has.strip() == str(bool(extras))
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {"mcpServers": {"shop": {"command": str(python), "args": ["-P", "-m", "mcpx.demo.tools"]}}}
        )
    )
    try:
        done = run(
            [mcpx, "exec", "--config", config, "shop", "convert_units", "value=1", "source=km", "target=m"],
            env=env,
        )
        assert "1000" in done
    finally:
        run([mcpx, "daemon", "stop", "--config", config], env=env)
    if extras:  # one of them is enough, and has compiled what is imported
        assert "server processes have ended" in run([mcpx, "demo"], env=env)

"""The recipes beside the wheel: the image's, which is linted and whose health check is run, and the formula,
which Ruby reads as each kind of machine would. An image is built by the workflow of a release, for here
there need be neither a builder nor a base to build on.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from mcpx import __version__
from scripts.lab.releasing.formula import SYSTEMS, locked
from scripts.lib import lock
from tests.live.servers import absent
from tests.mcpx.serving import environment
from tests.release.artefacts import ROOT, require, run

pytestmark = pytest.mark.others
CONTAINERFILE = ROOT / ".github" / "Containerfile"
URL = "https://example.com/owner/mcpx/releases/download/v1"


def instructions():
    """The instructions of the recipe, in order, with their continuation lines joined."""
    text = re.sub(r"^\s*#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", " ", text)
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def only(name):
    (found,) = [value for each, value in instructions() if each == name]
    return found


def test_the_linter_of_recipes_finds_nothing():
    assert run([require("hadolint"), "--failure-threshold", "style", CONTAINERFILE]) == ""


def test_the_image_runs_as_nobody_special_and_takes_the_locked_versions_and_the_wheel():
    assert only("USER") == "10001:10001"
    stages = [value for name, value in instructions() if name == "FROM"]
    assert stages == ["${BASE} AS build", "${BASE}"]
    assert "slim" in only("ARG")
    last = [name for name, _ in instructions()]
    assert last.index("USER") > len(last) - last[::-1].index("FROM")  # in the stage that is shipped
    build = " ".join(value for name, value in instructions() if name == "RUN")
    assert "--require-hashes" in build
    wheel = f"mcpx_gateway-{__version__}-py3-none-any.whl"
    copied = next(value for name, value in instructions() if name == "COPY").split()
    assert any(fnmatch(wheel, pattern) for pattern in copied)
    assert "requirements.txt" in copied


def test_the_health_check_tells_a_gateway_that_serves_from_none(tmp_path):
    """Both commands of the recipe are run as they stand, but for paths, the port and the address."""
    check = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    command = json.loads(only("CMD"))
    assert [check[0], *json.loads(only("ENTRYPOINT"))] == ["python", "mcpx"]
    config = tmp_path / "config.json"
    config.write_text('{"mcpServers": {}}')
    given = {"/config/config.json": str(config), "0.0.0.0": "127.0.0.1", "8765": "0"}
    serve = [sys.executable, "-m", "mcpx", *(given.get(each, each) for each in command)]
    env = environment(tmp_path)
    with subprocess.Popen(serve, env=env, stderr=subprocess.PIPE, text=True, cwd=ROOT) as gateway:
        try:
            assert gateway.stderr is not None
            listening = next(line for line in gateway.stderr if "http.listening" in line)
            port = re.search(r"127\.0\.0\.1:(\d+)", listening)[1]
            assert health(check, port) == 0
        finally:
            gateway.terminate()
            gateway.communicate(timeout=60)
    assert health(check, port) != 0


def health(check, port):
    command = [sys.executable, *(each.replace(":8765", f":{port}") for each in check[1:])]
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode


@pytest.fixture(scope="module")
def formula(built, tmp_path_factory):
    absent(None if shutil.which("ruby") else "ruby is missing; scripts/test --all installs it")
    file = tmp_path_factory.mktemp("formula") / "mcpx-gateway.rb"
    command = [sys.executable, "-m", "scripts.lab.releasing", "--formula", URL, built.wheel]
    file.write_text(run(command, cwd=ROOT))
    return file


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("system", "processor"), [*SYSTEMS, ("macos", "intel")])
def test_each_machine_is_given_every_locked_distribution_and_its_digest(formula, built, system, processor):
    run(["ruby", "-wc", formula])
    said = json.loads(
        run(["ruby", Path(__file__).parent / "recorded_formula.rb", formula, system, processor])
    )
    assert said["refused"] == ((system, processor) not in SYSTEMS)
    if said["refused"]:
        return
    assert (said["version"], said["depends_on"]) == (__version__, "python@3.13")
    assert said["url"] == f"{URL}/{built.wheel.name}"
    assert said["homepage"] == "https://example.com/owner/mcpx"
    known = locked()
    assert {name: version_of(each["url"]) for name, each in said["resources"].items()} == known
    digests = lock.RUNTIME.read_text()
    for each in said["resources"].values():
        assert f"sha256:{each['sha256']}" in digests


def version_of(url):
    return shlex.split(url.rpartition("/")[2])[0].split("-")[1]

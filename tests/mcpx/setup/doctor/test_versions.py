"""Versions that fit together, and the command of a service unit, read as it is written."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from mcpx.core.daemon.service import install, service
from mcpx.core.store.folders import ensure_folder
from mcpx.setup.doctor.installation import Installation
from mcpx.setup.doctor.machine import check_versions, command_of
from mcpx.version import __version__


def findings(level):
    return [each for each in check_versions(Installation(None)) if each.level == level]


UNFIT = {
    "too old": ("msgspec>=999.1", "MCPX needs >=999.1"),
    "too new": ("msgspec<0.1,>=0.0", "MCPX needs <0.1,>=0.0"),
    "missing": ("no-such-distribution>=1", "is missing"),
}


@pytest.mark.parametrize(("requirement", "text"), UNFIT.values(), ids=UNFIT)
def test_a_package_that_does_not_fit_is_named(home, monkeypatch, requirement, text):
    monkeypatch.setattr(metadata, "requires", lambda _: [requirement, 'keyring>=99; extra == "keychain"'])
    (finding,) = findings("wrong")
    assert text in finding.text
    assert "pip install" in (finding.advice or "")


def test_what_is_installed_fits(home):
    assert not findings("wrong")
    (versions,) = findings("ok")
    assert versions.text.startswith(f"MCPX {__version__}, Python ")


OTHERS = {
    "an older one": ('echo "mcpx, version 0.0.1"', "which is MCPX 0.0.1"),
    "another program": ("exit 2", "which is not this MCPX"),
}


@pytest.mark.parametrize(("code", "text"), OTHERS.values(), ids=OTHERS)
def test_another_mcpx_that_is_typed_is_named(home, monkeypatch, code, text):
    other = ensure_folder(home.folder / "other") / "mcpx"
    other.write_text(f"#!/bin/sh\n{code}\n")
    other.chmod(0o700)
    monkeypatch.setenv("PATH", str(other.parent))
    (finding,) = findings("note")
    assert str(other) in finding.text
    assert text in finding.text


ODD = 'my "own" 100% $HOME \\ config.json'


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_command_of_a_unit_is_read_as_it_was_meant(home, platform):
    environ = {"HOME": str(home.folder), "PATH": "/nowhere"}
    config = home.folder / ODD
    install(config, platform=platform, environ=environ)
    file = service(platform, environ).file
    words = command_of(file, file.read_text())
    assert words == [sys.executable, "-P", "-m", "mcpx", "daemon", "run", "--config", str(config)]


@pytest.mark.parametrize("name", ["mcpx.service", "mcpx.core.daemon.plist"])
def test_a_unit_without_a_command_has_none(name):
    assert command_of(Path(name), "nothing") == []

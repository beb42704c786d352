"""The files for systemd and launchd: whatever is in a path or a variable arrives as it is."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpx.daemon.service_files import MARK, launchd_agent, systemd_unit
from tests.mcpx.daemon.unit_reading import assignments, unquoted, values

AWKWARD = [
    "/plain",
    "/with space/and  two",
    "/100%/%h/%%",
    '/say "hi"',
    "/it's",
    "/back\\slash/\\n",
    "/$HOME/${X}/$$",
    "/a;b",
    ";",
    "/#hash",
    "/tab\there",
    "/line\nbreak",
    "/ünïcödé/文",
    "/ends with \\",
    "",
    "@x",
    "-x",
    "/€{}[]()*?!&|<>`~",
]


@pytest.mark.parametrize("awkward", AWKWARD)
def test_a_systemd_unit_says_the_command_and_the_variables_as_they_are(awkward):
    command = ("/usr/bin/python3", "-m", "mcpx", awkward, "last")
    unit = systemd_unit(command, command, {"PATH": awkward, "B": "two words"})
    for line in (*values(unit, "ExecStart"), *values(unit, "ExecReload")):
        # without the colon systemd would look for variables
        assert line.startswith(":") is ("$" in awkward)
        assert unquoted(line.removeprefix(":")) == list(command)
    assert [unquoted(each) for each in values(unit, "Environment")] == [[f"PATH={awkward}"], ["B=two words"]]


def test_a_systemd_unit_is_kept_alive_until_it_is_stopped_and_watched():
    unit = systemd_unit(("/x",), ("/y",), {})
    expected = {
        ("Service", "Type", "notify"),
        ("Service", "Restart", "on-failure"),
        ("Service", "WatchdogSec", "30"),
        ("Install", "WantedBy", "default.target"),
    }
    assert expected <= set(assignments(unit))
    assert len({(section, key) for section, key, _ in assignments(unit)}) == len(assignments(unit))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("awkward", [each for each in AWKWARD if each])
def test_the_real_systemd_finds_nothing_wrong_with_it(tmp_path, awkward):
    command = (sys.executable, "-m", "mcpx", "daemon", "run", "--config", awkward)
    unit = systemd_unit(command, command, {"PATH": awkward})
    assert verified(tmp_path, unit) == (0, "")
    assert verified(tmp_path, unit.replace("Restart=", "Restrat="))[1]  # it does look


def verified(folder, unit):
    file = folder / "mcpx.service"
    file.write_text(unit, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "verify", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("awkward", [each for each in AWKWARD if each])
def test_a_launchd_agent_says_the_command_and_the_variables_as_they_are(awkward):
    text = launchd_agent(("/usr/bin/python3", awkward), {"PATH": awkward}, log=Path("/tmp/log"))
    agent = plistlib.loads(text.encode())
    assert agent["ProgramArguments"] == ["/usr/bin/python3", awkward]
    assert agent["EnvironmentVariables"] == {"PATH": awkward}
    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert MARK in text

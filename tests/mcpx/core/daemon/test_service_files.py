"""The files for systemd and launchd: whatever is in a path or a variable arrives as it is."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpx.core.daemon.service import MARK, launchd_agent, served_by, systemd_unit
from tests.mcpx.core.daemon.unit_reading import assignments, unquoted, values

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
SERVICE = (
    "Environment ExecReload ExecStart KillMode Restart RestartPreventExitStatus RestartSec Type WatchdogSec"
)
SYSTEMD_KNOWS = {
    ("Unit", "Description"),
    ("Install", "WantedBy"),
    *(("Service", key) for key in SERVICE.split()),
}
"""Of systemd.unit(5), systemd.service(5), systemd.exec(5) and systemd.kill(5), as far as it is used."""


@pytest.mark.parametrize("awkward", AWKWARD)
def test_a_systemd_unit_says_the_command_and_the_variables_as_they_are(awkward):
    command = ("/usr/bin/python3", "-m", "mcpx", awkward, "last")
    unit = systemd_unit(command, command, {"PATH": awkward, "B": "two words"})
    for line in (*values(unit, "ExecStart"), *values(unit, "ExecReload")):
        # without the colon systemd would look for variables
        assert line.startswith(":") is ("$" in awkward)
        assert unquoted(line.removeprefix(":")) == list(command)
    assert [unquoted(each) for each in values(unit, "Environment")] == [[f"PATH={awkward}"], ["B=two words"]]


@pytest.mark.parametrize("awkward", [each for each in AWKWARD if "\n" not in each])
def test_the_configuration_that_a_file_names_is_read_back(awkward, tmp_path):
    command = ("/usr/bin/python3", "-m", "mcpx", "daemon", "run", "--config", awkward)
    assert served_by(systemd_unit(command, command, {})) == awkward
    if "\t" not in awkward:
        assert served_by(launchd_agent(command, {}, log=tmp_path)) == awkward
    assert served_by("[Service]\nExecStart=/x\n") is None


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


@pytest.mark.parametrize("awkward", [each for each in AWKWARD if each])
def test_systemd_finds_nothing_wrong_with_it(tmp_path, awkward):
    """The real one too, where it is installed."""
    command = (sys.executable, "-m", "mcpx", "daemon", "run", "--config", awkward)
    unit = systemd_unit(command, command, {"PATH": awkward})
    misspelt = unit.replace("Restart=", "Restrat=")
    assert {(section, key) for section, key, _ in assignments(unit)} <= SYSTEMD_KNOWS
    if shutil.which("systemd-analyze"):
        assert verified(tmp_path, unit) == (0, "")
        assert verified(tmp_path, misspelt)[1]  # it does look


def verified(folder, unit):
    file = folder / "mcpx.service"
    file.write_text(unit, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "verify", str(file)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=50,
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

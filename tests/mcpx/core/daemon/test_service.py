"""`mcpx daemon install` and `uninstall`: what is done with the files, and what is said.

The service managers are scripts that note how they were called.
"""

from __future__ import annotations

import os
import plistlib
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcpx.cli.operations.daemon import daemon
from mcpx.core.daemon.service import ServiceError, install, service, uninstall
from tests.mcpx.core.daemon.unit_reading import unquoted, values


class Home:
    """A user with a service manager that notes what it is asked."""

    def __init__(self, folder, tool):
        self.folder = folder
        self.noted = folder / "noted"
        self.tool = folder / "bin" / tool
        self.tool.parent.mkdir()
        self.works()
        self.environ = {"HOME": str(folder / "home of mine"), "PATH": f"{self.tool.parent}:/usr/bin:/bin"}
        self.config = folder / "my config.json"

    def works(self):
        self._script(f'echo "$@" >> "{self.noted}"')

    def fails(self, said):
        self._script(f'echo "{said}" >&2; exit 1')

    def _script(self, body):
        self.tool.write_text(f"#!/bin/sh\n{body}\n")
        self.tool.chmod(0o755)

    def asked(self):
        """What it was asked since the last time."""
        text = self.noted.read_text() if self.noted.exists() else ""
        self.noted.unlink(missing_ok=True)
        return text.splitlines()


@pytest.fixture
def linux(tmp_path):
    home = Home(tmp_path, "systemctl")
    return home, {"platform": "linux", "environ": home.environ}


@pytest.fixture
def mac(tmp_path):
    home = Home(tmp_path, "launchctl")
    return home, {"platform": "darwin", "environ": home.environ}


def test_on_linux_it_is_written_started_and_said(linux):
    home, given = linux
    lines = install(home.config, **given).lines
    file = Path(home.environ["HOME"]) / ".config/systemd/user/mcpx.service"
    assert lines[0] == f"wrote {file}"
    assert home.asked() == ["--user daemon-reload", "--user enable --now mcpx.service"]
    unit = file.read_text()
    command = [sys.executable, "-P", "-m", "mcpx", "daemon", "run", "--config", str(home.config)]
    assert unquoted(values(unit, "ExecStart")[0]) == command
    again = [sys.executable, "-P", "-m", "mcpx", "reload", "--config", str(home.config)]
    assert unquoted(values(unit, "ExecReload")[0]) == again
    assert unquoted(values(unit, "Environment")[0]) == [f"PATH={home.environ['PATH']}"]
    assert [each.name for each in file.parent.iterdir()] == ["mcpx.service"]


def test_a_folder_for_configurations_of_the_users_own_is_respected(linux, tmp_path):
    home, given = linux
    home.environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    install(home.config, **given)
    assert (tmp_path / "xdg/systemd/user/mcpx.service").exists()


def test_again_it_changes_nothing_and_with_another_configuration_it_starts_anew(linux):
    home, given = linux
    install(home.config, **given)
    home.asked()
    assert install(home.config, **given).lines[0].endswith("mcpx.service is there already")
    assert home.asked() == ["--user daemon-reload", "--user enable --now mcpx.service"]
    lines = install(home.folder / "other.json", **given).lines
    assert lines[0].startswith(f"replaced (it served {home.config}) ")
    assert home.asked() == [
        "--user daemon-reload",
        "--user enable mcpx.service",
        "--user restart mcpx.service",
    ]


def test_that_of_another_configuration_is_not_removed(linux):
    home, given = linux
    install(home.config, **given)
    with pytest.raises(ServiceError, match="runs another configuration"):
        uninstall(home.folder / "other.json", **given)
    assert f"removed {service(**given).file}" in uninstall(home.config, **given).lines


def test_it_is_removed_and_removing_it_again_is_well(linux):
    home, given = linux
    install(home.config, **given)
    home.asked()
    file = service(**given).file
    assert f"removed {file}" in uninstall(**given).lines
    assert not file.exists()
    assert home.asked() == ["--user disable --now mcpx.service", "--user daemon-reload"]
    assert uninstall(**given).lines == [f"{file} is not there; nothing to remove"]
    assert home.asked() == []


def test_where_the_service_manager_does_not_work_it_says_what_to_run(linux):
    home, given = linux
    home.fails("Failed to connect to bus: No medium found")
    lines, is_complete = install(home.config, **given)
    assert not is_complete
    assert service(**given).file.exists()
    assert "systemctl --user daemon-reload did not work: Failed to connect to bus: No medium found" in lines
    assert "then run: systemctl --user daemon-reload && systemctl --user enable --now mcpx.service" in lines
    home.tool.unlink()
    home.environ["PATH"] = str(home.tool.parent)  # where there is none at all
    lines = uninstall(**given).lines
    assert any("did not work: No such file or directory" in line for line in lines)
    assert not service(**given).file.exists()


@pytest.mark.parametrize(
    "deed", [lambda home, given: install(home.config, **given), lambda _, given: uninstall(**given)]
)
def test_a_file_of_somebody_else_is_left_as_it_is(linux, deed):
    home, given = linux
    file = service(**given).file
    file.parent.mkdir(parents=True)
    file.write_text("[Service]\nExecStart=/usr/bin/mine\n")
    with pytest.raises(ServiceError, match="not written by MCPX"):
        deed(home, given)
    assert file.read_text() == "[Service]\nExecStart=/usr/bin/mine\n"
    assert home.asked() == []


def test_a_folder_that_cannot_be_made_is_a_clear_error(linux):
    home, given = linux
    Path(home.environ["HOME"]).write_text("a file where the home should be")
    with pytest.raises(ServiceError, match=r"mcpx\.service cannot be (read|written): Not a directory"):
        install(home.config, **given)


def test_on_macos_it_is_an_agent(mac):
    home, given = mac
    lines = install(home.config, **given).lines
    file = Path(home.environ["HOME"]) / "Library/LaunchAgents/mcpx.daemon.plist"
    assert lines[0] == f"wrote {file}"
    domain = f"gui/{os.getuid()}"
    loaded = [f"bootout {domain}/mcpx.daemon", f"bootstrap {domain} {file}"]
    assert home.asked() == loaded
    agent = plistlib.loads(file.read_bytes())
    assert agent["ProgramArguments"][-2:] == ["--config", str(home.config)]
    install(home.config, **given)
    assert home.asked() == loaded
    assert f"removed {file}" in uninstall(**given).lines
    assert not file.exists()


def test_another_system_is_told_what_to_do(linux):
    _, given = linux
    with pytest.raises(ServiceError, match="mcpx daemon run"):
        service(platform="freebsd14", environ=given["environ"])


# --- the commands


@pytest.mark.skipif(sys.platform != "linux", reason="its service manager is systemd's")
def test_the_commands_print_what_was_done(linux, monkeypatch):
    home, given = linux
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name, value in home.environ.items():
        monkeypatch.setenv(name, value)
    home.config.write_text('{"mcpServers": {"x": {"command": "x"}}}')
    done = CliRunner().invoke(daemon, ["install", "--config", str(home.config)], catch_exceptions=False)
    file = service(**given).file
    assert done.output.splitlines()[0] == f"wrote {file}"
    done = CliRunner().invoke(daemon, ["uninstall"], catch_exceptions=False)
    assert f"removed {file}" in done.output


def test_a_configuration_that_cannot_be_used_is_not_installed(linux, monkeypatch):
    home, given = linux
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name, value in home.environ.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(daemon, ["install", "--config", str(home.config)])
    assert "no such file" in str(done.exception)
    assert not service(**given).file.exists()

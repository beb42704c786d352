"""The state that a server has by its entry is the same on every surface, and what is said to help helps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpx.core.rendering.descriptions import describe_tools
from mcpx.core.rendering.descriptions.servers import instructions
from tests.mcpx.core.daemon.daemons import House
from tests.mcpx.scripted import config_of, entry, open_watched
from tests.mcpx.serving import run_cli

STATES = {
    "keyed": "needs setup",
    "foldered": "needs setup",
    "filed": "needs setup",
    "edited": "needs setup",
    "typo": "invalid",
    "off": "disabled",
}
MISSING = {
    "keyed": ["WEATHER_API_KEY"],
    "filed": ["gone.env"],
    "foldered": ["gone"],
    "edited": ["workspaceFolderBasename"],
}


class Desk:
    """A house whose commands have a home folder, and a login shell that reads its `.profile`."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.home = house.folder / "home"
        self.home.mkdir()
        house.write(
            {
                "fine": entry(),
                "keyed": {**entry(), "env": {"KEY": "${WEATHER_API_KEY}"}},
                "foldered": {**entry(), "cwd": "gone"},
                "filed": {**entry(), "env_file": "gone.env"},
                "edited": {**entry(), "args": ["${workspaceFolderBasename}"]},
                "typo": {"comand": "npx"},
                "off": {**entry(), "disabled": True, "env": {"KEY": "${NOBODY_SET_THIS}"}},
            }
        )

    def run(self, *command: str) -> Any:
        environ = {"HOME": str(self.home), "SHELL": "/bin/sh"}
        return run_cli(self.house.folder, *command, "--config", self.house.config, **environ)

    def rows(self, *command: str) -> dict[str, Any]:
        return {each["name"]: each for each in json.loads(self.run(*command, "--json").stdout)["servers"]}


@pytest.fixture
def desk(house: House) -> Desk:
    return Desk(house)


def test_every_surface_names_the_same_state_and_what_is_missing(desk: Desk) -> None:
    checked = desk.run("check", "--json")
    assert checked.returncode == 2  # of the misspelt key
    by_check = {each["name"]: each for each in json.loads(checked.stdout)["servers"]}
    by_entry = desk.rows("status")
    assert desk.run("daemon", "start").returncode == 0
    by_status = desk.rows("status")
    for name, state in STATES.items():
        surfaces = (by_check, by_entry, by_status)
        assert {rows[name]["state"] for rows in surfaces} == {state}, name
        for missing in MISSING.get(name, ()):
            assert any(each.endswith(missing) for each in by_check[name]["missing"])
            assert any(each.endswith(missing) for each in by_status[name]["missing"])
            assert missing in by_entry[name]["why"]
        assert by_check[name]["remedy"] == by_status[name]["remedy"]
    assert by_check["fine"]["state"] is None
    doctor = json.loads(desk.run("doctor", "--no-start", "--json").stdout)["findings"]
    said = {each["subject"]: each for each in doctor if each["subject"] in STATES}
    for name in MISSING:
        assert (said[name]["level"], said[name]["text"].partition(":")[0]) == ("wrong", "needs setup")
        assert said[name]["advice"] == by_check[name]["remedy"]
    assert (said["typo"]["level"], said["off"]["level"]) == ("note", "ok")


def test_a_missing_variable_alone_is_a_finding_with_an_exit_code(desk: Desk) -> None:
    desk.house.write({"keyed": {**entry(), "env": {"KEY": "${WEATHER_API_KEY}"}}})
    checked = desk.run("check", "--json")
    assert checked.returncode == 1
    (finding,) = json.loads(checked.stdout)["warnings"]
    assert (finding["level"], finding["missing"]) == ("warning", "WEATHER_API_KEY")
    assert finding["path"] == "$.mcpServers.keyed.env.KEY"
    desk.house.write({"fine": {"command": "sh"}, "off": {**entry(), "args": ["${UNSET}"], "disabled": True}})
    assert desk.run("check").returncode == 0


def test_what_is_said_to_help_does_help_and_nothing_else_claims_to(desk: Desk) -> None:
    assert desk.run("daemon", "start").returncode == 0
    remedy = desk.rows("status")["keyed"]["remedy"]
    line = "export WEATHER_API_KEY=VALUE"
    assert remedy == f"add to ~/.profile: {line}; then: mcpx restart keyed --config {desk.house.config}"
    refused = desk.run("restart", "keyed")
    assert refused.returncode == 1
    assert "needs setup: environment variable WEATHER_API_KEY is not set" in refused.stderr
    enabled = desk.run("enable", "keyed", "--yes")
    assert enabled.returncode == 1
    assert "enabled" not in enabled.stdout
    assert (
        "keyed is not started (needs setup: environment variable WEATHER_API_KEY is not set)"
        in enabled.stdout
    )
    desk.house.write({"keyed": {**entry(), "env": {"KEY": "${WEATHER_API_KEY}", "MORE": "x"}}})
    reloaded = desk.run("reload").stdout
    assert "keyed is not started (needs setup: environment variable WEATHER_API_KEY is not set)" in reloaded
    (desk.home / ".profile").write_text(f"{line}\n")
    assert desk.run("restart", "keyed").returncode == 0
    assert desk.rows("status")["keyed"]["state"] == "ready"


@pytest.mark.anyio
async def test_models_are_told_what_is_missing_and_not_shown_what_is_off() -> None:
    servers = {
        "fine": entry(),
        "keyed": {**entry(), "env": {"KEY": "${THIS_IS_NOT_SET_ANYWHERE}"}},
        "slack": {**entry(), "disabled": True},
    }
    async with open_watched(config_of(servers)) as watch:
        known = watch.hub.registry.list_servers()
        unknown = str(await watch.failure("echo", server="slakc"))
        listed = str((await watch.hub.calls.inspect()).content[0]["text"])
        for shown in (instructions(known), describe_tools(known, budget=4000), listed, unknown):
            assert "keyed" in shown
            assert "slack" not in shown
        refused = await watch.failure("echo", server="keyed")
        assert refused.details["missing"] == ["THIS_IS_NOT_SET_ANYWHERE"]
        assert "needs setup: environment variable THIS_IS_NOT_SET_ANYWHERE is not set" in str(refused)
        assert "$.mcpServers" not in str(refused)
        off = await watch.failure("echo", server="slack")
        assert str(off).startswith(
            "slack is switched off; nothing was sent. To switch it on: mcpx enable slack"
        )

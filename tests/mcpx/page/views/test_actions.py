"""What the page does with a server: restarting it, switching it, signing in to it and out of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpx.core.catalog.snapshot import State
from mcpx.core.config import load
from mcpx.errors import MCPXError
from mcpx.page import commands
from tests.mcpx.oauth.scripted_issuer import scripted_issuer
from tests.mcpx.oauth.test_names_of_accounts import id_token
from tests.mcpx.page.signed_in import Visitor, visiting
from tests.mcpx.scripted import config_of, entry
from tests.ports import free_port

pytestmark = pytest.mark.anyio
LOGIN_PORT = free_port()  # another than the default, which the machine's own sign-ins use


async def test_a_server_is_restarted_whatever_its_state():
    servers = {"s": entry(), "gone": {"command": "/does/not/exist"}, "off": {**entry(), "disabled": True}}
    async with visiting(config_of(servers)) as visitor:
        pid = visitor.hub.upstreams["s"].pid
        assert (await visitor.post("/servers/s/restart")) == {"state": "ready", "described": "ready"}
        assert visitor.hub.upstreams["s"].pid != pid
        assert (await visitor.post("/servers/gone/restart"))["state"] == "parked"
        refused = await visitor.post("/servers/off/restart", fails=True)
        assert "cannot be restarted" in refused["error"]


async def edited(visitor: Visitor, command: str, **options: Any) -> Any:
    """What comes of an edit that is previewed and then made."""
    preview = await visitor.post(f"/setup/{command}", **options)
    assert preview["changed"] is False
    return await visitor.post(f"/setup/{command}", **options, apply=True, seen=preview["seen"])


async def test_servers_are_added_edited_renamed_and_removed_and_all_of_it_is_taken_back(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "config.json"
    first = '{\n  // mine\n  "mcpServers": {}\n}\n'
    file.write_text(first)
    async with visiting(load(str(file)), state=tmp_path / "state") as visitor:
        given = entry() | {"env": {"KEY": "hunter2hunter2"}}
        preview = await visitor.post("/setup/add", server="a", entry=json.dumps(given))
        assert "hunter2" not in json.dumps(preview)
        assert '+    "a": {' in preview["diff"]
        assert file.read_text() == first
        done = await edited(visitor, "add", server="a", entry=json.dumps(given))
        assert (done["state"], done["described"]) == ("ready", "ready")
        again = await visitor.post("/setup/add", server="a", entry="{}", fails=True)
        assert "is in" in again["error"]

        shown = (await visitor.get("/setup/entry", server="a"))["entry"]
        assert shown["env"] == {"KEY": "***"}
        changed = json.dumps(shown | {"env": {"KEY": "***", "MORE": "x"}, "call_timeout": 5})
        done = await edited(visitor, "add", server="a", entry=changed, replace=True)
        assert done["state"] == "ready"
        assert visitor.hub.config.servers["a"].transport.program.env["KEY"] == "hunter2hunter2"
        moved = json.dumps(shown | {"env": {"OTHER": "***"}})
        refused = await visitor.post("/setup/add", server="a", entry=moved, replace=True, fails=True)
        assert "env.OTHER has ***" in refused["error"]

        done = await edited(visitor, "rename", server="a", to="b")
        assert done["state"] == "ready"
        assert list(visitor.hub.upstreams) == ["b"]
        assert (await visitor.call("echo", {"text": "by its old name"}, server="a"))["is_error"] is False
        done = await edited(visitor, "remove", server="b")
        assert done["gone"] is True
        assert (await visitor.get("/setup/entry", server="b", fails=True))["error"].endswith("from elsewhere")
        assert file.read_text() == first
        for _ in range(4):
            seen = (await visitor.post("/setup/undo"))["seen"]
            assert (await visitor.post("/setup/undo", apply=True, seen=seen))["changed"] is True
        assert file.read_text() == first
        assert (await visitor.post("/setup/undo"))["undone"] is None


async def test_an_edit_that_would_be_another_by_now_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"mcpServers": {"a": entry()}}))
    async with visiting(load(str(file)), state=tmp_path / "state") as visitor:
        seen = (await visitor.post("/setup/remove", server="a"))["seen"]
        file.write_text(json.dumps({"mcpServers": {"a": entry() | {"call_timeout": 3}}}, indent=1))
        refused = await visitor.post("/setup/remove", server="a", apply=True, seen=seen, fails=True)
        assert "not what was shown" in refused["error"]
        assert "a" in json.loads(file.read_text())["mcpServers"]
        for unknown in ("no-such", "", "--yes"):
            assert (await visitor.post("/setup/remove", server=unknown, fails=True))["error"]


async def test_switching_edits_the_configuration_as_the_command_does(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"mcpServers": {"--all": entry(), "s": entry()}}))
    async with visiting(load(str(file)), state=tmp_path / "state") as visitor:
        done = await edited(visitor, "disable", server="--all")
        assert done["changed"] is True
        assert json.loads(file.read_text())["mcpServers"]["--all"]["disabled"] is True
        done = await edited(visitor, "enable", server="--all")
        assert done["checks"]["--all"]["state"] == "ready"
        for name in ("--all", "s"):
            assert (await edited(visitor, "disable", server=name))["state"] == "disabled"
        assert all(each["disabled"] for each in json.loads(file.read_text())["mcpServers"].values())
        file.write_text("{")
        refused = await visitor.post("/setup/disable", server="s", fails=True)
        assert str(file) in refused["error"]


async def test_enabling_and_restarting_what_lacks_a_variable_say_the_state_that_followed(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    lacking = {**entry(), "disabled": True, "env": {"KEY": "${THIS_IS_NOT_SET_ANYWHERE}"}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"mcpServers": {"k": lacking}}))
    async with visiting(load(str(file)), state=tmp_path / "state") as visitor:
        done = await edited(visitor, "enable", server="k")
        assert done["state"] == "needs setup"
        assert done["described"] == "needs setup: environment variable THIS_IS_NOT_SET_ANYWHERE is not set"
        shown = (await visitor.get("/servers/k"))["card"]
        assert (shown["state"], shown["tone"]) == ("needs setup", "ask")
        assert shown["missing"] == ["THIS_IS_NOT_SET_ANYWHERE"]
        assert "mcpx restart k" in shown["remedy"]
        refused = await visitor.post("/servers/k/restart", fails=True)
        assert "THIS_IS_NOT_SET_ANYWHERE" in refused["error"]


@pytest.mark.parametrize(("backend", "said"), [("null", "shop key"), ("fail", "no keychain")])
async def test_what_the_keychain_lacks_is_kept_there_and_the_server_tried_again(
    tmp_path, monkeypatch, backend, said
):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    chosen = tmp_path / ".config" / "python_keyring" / "keyringrc.cfg"
    chosen.parent.mkdir(parents=True)
    chosen.write_text(f"[backend]\ndefault-keyring=keyring.backends.{backend}.Keyring\n")
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"mcpServers": {"k": entry() | {"env": {"KEY": "${keychain:shop key}"}}}}))
    async with visiting(load(str(file)), state=tmp_path / "state") as visitor:
        given = {"server": "k", "name": "shop key", "value": "hunter2hunter2"}
        refused = await visitor.post("/setup/secret", given, fails=True)
        assert said in refused["error"]  # that of `null` takes everything, and has nothing
        assert "hunter2" not in refused["error"]
        noted = tmp_path / "state" / "secret-names.json"
        assert noted.exists() is (backend == "null")
        assert (await visitor.post("/setup/secret", given | {"server": "gone"}, fails=True))["code"]


async def test_a_command_is_bounded(tmp_path: Path, monkeypatch: Any):
    marks = tmp_path / "pid"
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho $$ > {marks}\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    async with visiting(config_of({})) as visitor:
        with pytest.raises(MCPXError, match=r"did not answer within 0\.2 s"):
            await commands.run(visitor.hub, "doctor", within_s=0.2)
        with pytest.raises(ProcessLookupError):
            os.kill(int(marks.read_text()), 0)
        with anyio.move_on_after(0.2) as scope:
            await commands.run(visitor.hub, "doctor")
        assert scope.cancelled_caught
        with pytest.raises(ProcessLookupError):
            os.kill(int(marks.read_text()), 0)
        program.write_text("#!/bin/sh\necho nonsense\n")
        with pytest.raises(MCPXError, match="did not say what came of it"):
            await commands.run(visitor.hub, "doctor")


async def test_a_person_signs_in_and_out(tmp_path):
    with scripted_issuer() as issuer, scripted_issuer(discovery="none") as second:
        second.grants = issuer.grants
        issuer.metadata = {"authorization_endpoint": f"{second.issuer}/authorize"}
        issuer.token_answer = {"id_token": id_token(b'{"email": "alice@x.example"}')}
        config = config_of({"s": {"type": "http", "url": issuer.mcp_url}}, login_port=LOGIN_PORT)
        async with visiting(config, state=tmp_path) as visitor:
            assert (await visitor.get("/servers/s"))["card"]["state"] == "needs sign-in"
            refused = await visitor.post("/servers/s/signed-in", fails=True)
            assert "no sign-in to s is under way" in refused["error"]
            begun = await visitor.post("/servers/s/sign-in")
            assert begun["url"].startswith("http")
            assert begun["note"].startswith("you agree at ")
            wrong = await visitor.post("/servers/s/sign-in-answer", {"address": "nonsense"}, fails=True)
            assert "not the address" in wrong["error"]
            await anyio.to_thread.run_sync(lambda: issuer.browse(begun["url"], person="alice"))
            done = await visitor.post("/servers/s/signed-in")
            assert (done["state"], done["account"]) == ("ready", "alice@x.example")
            assert (await visitor.post("/servers/s/signed-in"))["state"] == "ready"  # it is over
            shown = (await visitor.get("/servers/s"))["card"]["sign_in"]
            assert (shown["account"], "command" in shown) == ("alice@x.example", True)
            assert (await visitor.post("/servers/s/sign-out")) == {"signed_out": True}
            await visitor.watch.becomes(State.NEEDS_SIGN_IN, "s")

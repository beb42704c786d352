"""The setup view shows the configuration without secrets, and changes files exactly as the terminal does."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import pytest

from mcpx.core.config import parse
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.errors import ConfigError
from mcpx.page import commands
from mcpx.page.page import Page
from mcpx.page.views import setup
from tests.mcpx.page.signed_in import signed_in
from tests.mcpx.scripted import PATIENCE_S, open_watched, soon
from tests.mcpx.serving import run_cli

pytestmark = pytest.mark.anyio
SECRETS = ("hunter2hunter2", "s3cr3t-in-an-argument", "passw0rd", "k3y-in-a-query", "b3ar3r-of-a-header")
OTHERS = {"mcpServers": {"notes": {"command": "notes-server", "env": {"NOTES_KEY": "n0t3s-k3y-n0t3s"}}}}


def configuration(**more):
    return {
        "mcpServers": {
            "shop": {
                "command": "shop-server",
                "args": ["--token", "s3cr3t-in-an-argument"],
                "env": {"SHOP_KEY": "hunter2hunter2"},
                "disabled": True,
            },
            "web": {
                "url": "https://me:passw0rd@example.com/mcp?key=k3y-in-a-query",
                "headers": {"Authorization": "Bearer b3ar3r-of-a-header"},
                "disabled": True,
            },
            **more,
        }
    }


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with Cursor in it, which has one server."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "MCPX_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(OTHERS))
    return tmp_path


@asynccontextmanager
async def looking(home, text):
    file = home / "config.json"
    file.write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
    file.chmod(0o600)
    config = parse(json.dumps(configuration()), where=str(file))
    async with open_watched(config) as watch, signed_in(Page(watch.hub, ClientSessions(watch.hub))) as page:
        yield page, file


def as_in_a_terminal(home, *command):
    """What the command line says."""
    done = run_cli(home, *command, "--json", HOME=str(home))
    return json.loads(done.stdout)


async def test_the_configuration_is_shown_without_its_secrets(home):
    async with looking(home, configuration()) as (page, file):
        found = await page.get("/setup")
    assert found["path"] == str(file)
    assert json.loads(found["text"])["mcpServers"]["shop"]["command"] == "shop-server"
    assert found["usable"]
    assert found["problem"] is None
    assert not [each for each in SECRETS if each in json.dumps(found)]


@pytest.mark.parametrize("broken", ['{"mcpServers": %s', "\ufeff[%s", '{"a": "\ud83d", %s', "%s}}"])
async def test_nor_where_it_is_broken(home, broken):
    text = broken % json.dumps(configuration()["mcpServers"], indent=1)
    async with looking(home, text.encode(errors="replace").decode()) as (page, _):
        found = await page.get("/setup")
    assert not found["usable"]
    assert found["findings"][0]["level"] == "error"
    assert "shop-server" in found["text"]
    assert not [each for each in SECRETS if each in json.dumps(found)]


async def test_every_mistake_has_its_place(home):
    text = json.dumps(configuration(odd={"comand": "x"}), indent=2)
    async with looking(home, text) as (page, file):
        found = await page.get("/setup")
        said = as_in_a_terminal(home, "check", "--config", str(file))
    [mistake] = [each for each in found["findings"] if each["level"] == "error"]
    assert text.splitlines()[mistake["line"] - 1].index('"comand"') == mistake["column"] - 1
    assert found["text"].splitlines()[mistake["line"] - 1] == text.splitlines()[mistake["line"] - 1]
    assert [mistake, *said["warnings"]] == [*said["problems"], *found["findings"][1:]]


async def test_a_file_that_is_gone_is_said(home):
    async with looking(home, configuration()) as (page, file):
        file.unlink()
        found = await page.get("/setup")
    assert (found["text"], found["usable"]) == (None, False)
    assert "no such file" in found["findings"][0]["text"]


async def test_import_is_previewed_made_and_taken_back(home):
    async with looking(home, configuration()) as (page, file):
        before = file.read_bytes()
        preview = await page.post("/setup/import")
        said = as_in_a_terminal(home, "import", "--dry-run", "--config", str(file))
        assert {key: each for key, each in preview.items() if key != "seen"} == said
        assert file.read_bytes() == before
        assert "n0t3s-k3y" not in json.dumps(preview)

        done = await page.post("/setup/import", apply=True, seen=preview["seen"])
        assert done["changed"]
        assert json.loads(file.read_text())["mcpServers"]["notes"]["env"] == {"NOTES_KEY": "n0t3s-k3y-n0t3s"}
        assert [each["command"] for each in (await page.get("/setup"))["changes"]] == ["import"]

        undo = await page.post("/setup/undo")
        assert undo["command"] == "import"
        assert (await page.post("/setup/undo", apply=True, seen=undo["seen"]))["changed"]
        assert file.read_bytes() == before


async def test_install_is_for_the_clients_that_are_chosen(home):
    (home / ".codeium").mkdir()
    (home / ".codeium" / "mcp_config.json").write_text("{}")
    async with looking(home, configuration()) as (page, _):
        preview = await page.post("/setup/install")
        assert {each["client"] for each in preview["clients"]} == {"cursor", "windsurf"}
        chosen = await page.post("/setup/install", clients=["cursor"])
        await page.post("/setup/install", apply=True, seen=chosen["seen"], clients=["cursor"])
        assert "mcpx" in (home / ".cursor" / "mcp.json").read_text()
        assert (home / ".codeium" / "mcp_config.json").read_text() == "{}"


async def test_nothing_is_changed_that_was_not_shown(home):
    async with looking(home, configuration()) as (page, file):
        preview = await page.post("/setup/import")
        more = {"mcpServers": OTHERS["mcpServers"] | {"evil": {"command": "evil"}}}
        (home / ".cursor" / "mcp.json").write_text(json.dumps(more))
        before = file.read_bytes()
        refused = await page.post("/setup/import", apply=True, seen=preview["seen"], fails=True)
        assert "nothing was changed" in refused["error"]
        await page.post("/setup/import", apply=True, fails=True)
        await page.post("/setup/import", apply=True, seen=preview["seen"], clients=["cursor"], fails=True)
        assert file.read_bytes() == before


@pytest.mark.parametrize("client", ["--config=/etc/passwd", "--yes", "", "../x", "nobody", "cursor\0"])
async def test_a_client_that_there_is_not_is_refused(home, client):
    async with looking(home, configuration()) as (page, _):
        refused = await page.post("/setup/install", clients=[client], fails=True)
        assert refused["error"] == "there is no such client"


async def test_what_cannot_be_done_is_said_in_the_words_of_the_command(home):
    async with looking(home, '{"mcpServers": ') as (page, file):
        refused = await page.post("/setup/import", fails=True)
        assert (
            refused["error"] == as_in_a_terminal(home, "import", "--dry-run", "--config", str(file))["error"]
        )


async def test_doctor_says_what_it_says_in_a_terminal(home):
    async with looking(home, configuration(odd={"comand": "x"})) as (page, file):
        report = await page.post("/setup/doctor", starts=False)
        assert [each["text"] for each in report["findings"] if "comand" in each["text"]]
        said = as_in_a_terminal(home, "doctor", "--no-start", "--config", str(file))
        assert [(each["section"], each["subject"]) for each in report["findings"]] == [
            (each["section"], each["subject"]) for each in said["findings"]
        ]
        assert not [each for each in SECRETS if each in json.dumps(report)]


async def test_one_runs_at_a_time_and_the_next_one_waits(home, monkeypatch):
    async with looking(home, configuration()) as (page, _):
        lock = commands._changing.setdefault(page.page.hub, anyio.Lock())
        async with anyio.create_task_group() as tasks:
            await lock.acquire()
            tasks.start_soon(page.post, "/setup/undo")
            tasks.start_soon(page.post, "/setup/import")
            await soon(lambda: lock.statistics().tasks_waiting == 2)
            lock.release()
        monkeypatch.setattr(commands, "WAIT_S", 0.01)
        await lock.acquire()
        refused = await page.post("/setup/undo", fails=True)
        assert "wait for it" in refused["error"]
        lock.release()
        await page.post("/setup/undo")


async def test_one_doctor_is_enough(home):
    async with looking(home, configuration()) as (page, _):
        async with commands._examining.setdefault(page.page.hub, anyio.Lock()):
            refused = await page.post("/setup/doctor", fails=True)
        assert "is running already" in refused["error"]


async def test_the_topic_tells_of_another_configuration(home, monkeypatch):
    monkeypatch.setattr(setup, "LOOK_S", 0.01)
    async with looking(home, configuration()) as (page, file):
        news = setup.TOPICS["setup"](page.page, "")
        with anyio.fail_after(PATIENCE_S):
            assert await anext(news) == {"problem": None, "version": 1}
            await page.page.hub.file.reload()
            assert await anext(news) == {"problem": None, "version": 2}
            file.write_text("{")
            with pytest.raises(ConfigError):
                await page.page.hub.file.reload()
            assert (await anext(news))["problem"] == page.page.hub.file.problem
        await news.aclose()

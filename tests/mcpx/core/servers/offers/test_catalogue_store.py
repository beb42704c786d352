"""The writer of the remembered catalogues: a moment later, at the end, and never a reason to fail."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest
from structlog.testing import capture_logs

from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.config import ServerConfig, Stdio
from mcpx.core.servers.offers import catalogue_store
from mcpx.core.servers.offers.catalogue_store import CatalogueStore
from supervisors import ChildSpec, Supervisor
from tests.mcpx.scripted import soon

pytestmark = pytest.mark.anyio
SERVER = ServerConfig(name="s", transport=Stdio(command="python3"))


@pytest.fixture
def state(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


@asynccontextmanager
async def running(store, tasks):
    supervisor = Supervisor()
    supervisor.add(ChildSpec(name="catalogues", run=store.run))
    await tasks.start(supervisor.run)
    yield
    supervisor.stop()


@pytest.fixture
async def tasks():
    async with anyio.create_task_group() as group:
        yield group


def offered(name):
    tool = ToolInfo(server_name="s", name=name, input_schema={})
    return Catalogue(generation=1, tools={name: tool})


def keep(store, name, server=SERVER):
    store.keep(server, store.identity(server), offered(name), {})


def known(state, server=SERVER):
    found = CatalogueStore(state).load(server)
    return None if found is None else list(found.catalogue.tools)


async def test_what_is_noted_is_written_soon(state, tasks):
    store = CatalogueStore(state, debounce_s=0)
    async with running(store, tasks):
        keep(store, "one")
        await soon(lambda: known(state) == ["one"])
        keep(store, "two")
        await soon(lambda: known(state) == ["two"])


async def test_a_storm_of_listings_is_one_write_and_the_last_one_is_kept_at_the_end(state, monkeypatch):
    written = []
    async with anyio.create_task_group() as tasks:
        store = CatalogueStore(state, debounce_s=3600)
        monkeypatch.setattr(store._files, "write", lambda *note: written.append(list(note[2].tools)))
        async with running(store, tasks):
            for number in range(100):
                keep(store, str(number))
    assert written == [["99"]]


async def test_a_folder_that_cannot_be_written_is_said_once_and_written_when_it_can_be(state, tasks):
    (state / "catalogues").write_text("in the way")
    store = CatalogueStore(state, debounce_s=0)
    with capture_logs() as logs:
        async with running(store, tasks):
            keep(store, "one")
            await soon(lambda: logs)
            keep(store, "two")
            await soon(lambda: not store._news.is_set())
            (state / "catalogues").unlink()
            store.touch("whatever")
            await soon(lambda: known(state) == ["two"])
    assert [(line["event"], line["log_level"]) for line in logs] == [("catalogue.unwritable", "warning")]


async def test_what_cannot_be_written_at_all_costs_itself(state, tasks, monkeypatch):
    store = CatalogueStore(state, debounce_s=0)
    other = ServerConfig(name="other", transport=SERVER.transport)
    write = store._files.write

    def written(server, *rest):
        if server.name == "other":
            raise ValueError("an odd one")
        write(server, *rest)

    monkeypatch.setattr(store._files, "write", written)
    async with running(store, tasks):
        keep(store, "odd", other)
        keep(store, "one")
        await soon(lambda: known(state) == ["one"])


async def test_what_is_wanted_stays_young_however_long_mcpx_runs(state, monkeypatch):
    monkeypatch.setattr(catalogue_store, "TOUCH_INTERVAL_S", 0.01)
    touched = []
    async with anyio.create_task_group() as tasks:
        store = CatalogueStore(state, debounce_s=0)
        store.load(SERVER)
        monkeypatch.setattr(store._files, "touch", lambda identity, *, right: touched.append(right))
        async with running(store, tasks):
            await soon(lambda: len(touched) > 3)
    assert set(touched) == {False}


def test_a_disabled_server_has_no_catalogue(state):
    store = CatalogueStore(state)
    server = ServerConfig(name="s", transport=Stdio(command="${UNSET}"), disabled="UNSET is not set")
    assert store.load(server) is None

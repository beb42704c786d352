"""The knowledge base behind MCPX: documents listed, read, and refused outside the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpx.demo.knowledge import BUNDLED
from tests.forking.client import command
from tests.live import gateways

pytestmark = pytest.mark.anyio


def knowledge(*arguments: str) -> dict[str, Any]:
    start, *args = command("-m", "mcpx.demo.knowledge", *arguments)
    return {"command": start, "args": args}


@pytest.fixture(params=gateways.ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return request.param


def folder_in(place: Path) -> Path:
    """A folder with one document, and everything that must not get out of it."""
    (place / "secret.txt").write_text("secret")
    (place / "docs-of-others").mkdir()
    (place / "docs-of-others" / "theirs.txt").write_text("secret")
    inside = place / "docs"
    inside.mkdir()
    (inside / "link.txt").symlink_to(place / "secret.txt")
    (inside / "way").symlink_to(place)
    (inside / ".hidden").write_text("secret")
    (inside / "open.txt").write_text("open")
    return inside


async def test_the_leaflets_are_listed_and_read(endpoint, tmp_path):
    config = gateways.write_config(tmp_path, {"kb": knowledge()}, startup_wait=20)
    async with gateways.open_gateway(endpoint, config) as gateway:
        listed = (await gateway.descriptions())["resources"]
        for name, first in (
            ("diabetes.txt", "糖尿病"),
            ("heart-disease.txt", "心脏病"),
            ("hypertension.txt", "高血压"),
        ):
            uri = (BUNDLED / name).as_uri()
            assert uri in listed
            read = await gateway.resources("kb", uri)
            assert read.content[0].text == (BUNDLED / name).read_text("utf-8")
            assert read.content[0].text.startswith(first)


async def test_nothing_outside_the_folder_is_read(endpoint, tmp_path):
    inside = folder_in(tmp_path)
    base = inside.resolve().as_uri()
    refused = [
        f"{base}/../secret.txt",
        f"{base}/%2e%2e/secret.txt",
        f"{base}/%2E%2E%2Fsecret.txt",
        f"{base}/..%2fsecret.txt",
        f"{base}/%252e%252e/secret.txt",
        f"{base}/sub/../../secret.txt",
        f"{base}-of-others/theirs.txt",
        f"{base}/link.txt",
        f"{base}/way/secret.txt",
        f"{base}/.hidden",
        f"{base}/missing.txt",
        (tmp_path / "secret.txt").resolve().as_uri(),
        str((tmp_path / "secret.txt").resolve()),
        "file:///etc/passwd",
        "file://elsewhere" + str(inside.resolve()) + "/open.txt",
        f"{base}/open.txt%00",
        "open.txt",
    ]
    config = gateways.write_config(tmp_path, {"kb": knowledge("--folder", str(inside))}, startup_wait=20)
    async with gateways.open_gateway(endpoint, config) as gateway:
        for uri in refused:
            answer = await gateway.resources("kb", uri)
            assert answer.is_error, uri
            assert "secret" not in answer.content[0].text.replace(uri, ""), uri
        read = await gateway.resources("kb", f"{base}/open.txt")
        assert read.content[0].text == "open"


async def test_a_document_that_comes_is_offered_and_one_that_goes_is_not(endpoint, tmp_path):
    inside = folder_in(tmp_path)
    new = inside / "new.txt"
    arguments = ("--folder", str(inside), "--poll", "0.02")
    config = gateways.write_config(tmp_path, {"kb": knowledge(*arguments)}, startup_wait=20)
    uri = new.parent.resolve().as_uri() + "/new.txt"
    async with gateways.open_gateway(endpoint, config) as gateway:
        assert uri not in (await gateway.descriptions())["resources"]
        await gateway.exec("kb", "search_documents", {"query": "x"})  # by now it listens for changes
        new.write_text("brand new")
        with anyio.fail_after(50):
            await gateway.log.wait_for("upstream.listed", server="kb", resources=2)
        assert uri in (await gateway.descriptions())["resources"]
        assert (await gateway.resources("kb", uri)).content[0].text == "brand new"
        new.unlink()
        with anyio.fail_after(50):
            await gateway.log.wait_for("upstream.listed", server="kb", resources=1)
        assert uri not in (await gateway.descriptions())["resources"]

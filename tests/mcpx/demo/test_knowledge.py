"""The knowledge base over real stdio, in both protocol eras."""

from __future__ import annotations

import base64
import json

import pytest
from mcp.shared.exceptions import MCPError

from mcpx.demo.knowledge import BUNDLED

pytestmark = pytest.mark.anyio

LEAFLETS = {"diabetes.txt": "糖尿病", "heart-disease.txt": "心脏病", "hypertension.txt": "高血压"}


def lines(name: str) -> list[str]:
    return (BUNDLED / name).read_text("utf-8").splitlines()


async def test_the_three_leaflets_are_listed_with_name_type_and_size_and_no_description(connect):
    async with connect("knowledge") as client:
        resources = (await client.list_resources()).resources
    assert [resource.name for resource in resources] == sorted(LEAFLETS)
    for resource in resources:
        assert resource.uri == (BUNDLED / resource.name).as_uri()
        assert resource.mime_type == "text/plain"
        assert resource.size == (BUNDLED / resource.name).stat().st_size
        assert resource.description is None


async def test_a_leaflet_is_read_whole_by_its_uri(connect):
    async with connect("knowledge") as client:
        for resource in (await client.list_resources()).resources:
            (content,) = (await client.read_resource(resource.uri)).contents
            assert content.uri == resource.uri
            assert content.text == (BUNDLED / resource.name).read_text("utf-8")
            assert content.text.startswith(LEAFLETS[resource.name])
            assert 6 <= len(content.text.splitlines()) <= 12


async def test_a_refused_uri_is_the_protocols_not_found_with_the_uri(connect, era):
    uri = (BUNDLED / "asthma.txt").as_uri()
    async with connect("knowledge") as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.code == (-32002 if era == "legacy" else -32602)
    assert caught.value.data == {"uri": uri}


async def test_nothing_outside_the_folder_can_be_read(connect, tmp_path):
    outside, inside = tmp_path / "secret.txt", tmp_path / "docs"
    outside.write_text("secret")
    inside.mkdir()
    (inside / "link.txt").symlink_to(outside)
    (inside / "open.txt").write_text("open")
    base = inside.resolve().as_uri()
    refused = [
        outside.as_uri(),
        f"{base}/../secret.txt",
        f"{base}/%2e%2e/secret.txt",
        f"{base}/%2E%2E%2Fsecret.txt",
        f"{base}/link.txt",
    ]
    async with connect("knowledge", "--folder", str(inside)) as client:
        assert [r.name for r in (await client.list_resources()).resources] == ["open.txt"]
        for uri in refused:
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(uri)
        (content,) = (await client.read_resource(f"{base}/open.txt")).contents
    assert content.text == "open"


async def test_another_folder_may_hold_unicode_names_subfolders_and_binary_files(connect, tmp_path):
    (tmp_path / "子").mkdir()
    (tmp_path / "子" / "血压.md").write_text("# 血压", "utf-8")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\xff")
    async with connect("knowledge", "--folder", str(tmp_path)) as client:
        binary, text = (await client.list_resources()).resources
        (blob,) = (await client.read_resource(binary.uri)).contents
        (words,) = (await client.read_resource(text.uri)).contents
    assert (text.name, text.mime_type, words.text) == ("子/血压.md", "text/markdown", "# 血压")
    assert (blob.mime_type, base64.b64decode(blob.blob, validate=True)) == ("image/png", b"\x89PNG\xff")


async def test_a_file_added_while_running_is_listed_and_read(connect, tmp_path):
    async with connect("knowledge", "--folder", str(tmp_path)) as client:
        assert (await client.list_resources()).resources == []
        (tmp_path / "new.txt").write_text("news")
        (resource,) = (await client.list_resources()).resources
        (content,) = (await client.read_resource(resource.uri)).contents
    assert content.text == "news"


async def test_search_documents_names_every_line_that_matches(connect):
    async with connect("knowledge") as client:
        result = await client.call_tool("search_documents", {"query": "每周至少运动"})
        nothing = await client.call_tool("search_documents", {"query": "哮喘"})
    assert json.loads(result.content[0].text) == result.structured_content
    (match,) = result.structured_content["matches"]
    assert match["name"] == "diabetes.txt"
    assert lines("diabetes.txt")[match["line"] - 1] == match["text"]
    assert nothing.structured_content == {"matches": []}


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 3}])
async def test_search_without_a_query_is_an_error_that_says_so(connect, arguments):
    async with connect("knowledge") as client:
        result = await client.call_tool("search_documents", arguments)
    assert result.is_error
    assert "query must be" in result.content[0].text

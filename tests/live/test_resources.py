"""The resources tool gives what the server gives, and lists what the server lists."""

from __future__ import annotations

import pytest

from tests.live import servers
from tests.live.carried import blocks
from tests.live.directly import at_one_moment

pytestmark = pytest.mark.live

TEXTS = ["demo://resource/static/document/architecture.md", "demo://resource/dynamic/text/1"]
BLOB = "demo://resource/dynamic/blob/1"


@pytest.fixture(autouse=True)
def _everything(scratch):
    servers.require(servers.live_server("everything", scratch))


@pytest.mark.parametrize("uri", TEXTS)
def test_a_text_is_the_servers_own(gateway, direct, uri):
    theirs, mine = at_one_moment(
        lambda: direct.read("everything", uri), lambda: gateway.resources("everything", uri)
    )
    (item,) = theirs.contents
    assert item.text
    assert blocks(mine) == [{"type": "text", "text": item.text}]
    assert mine.structured_content == {"result": item.text}


def test_a_binary_is_the_servers_own(gateway, direct):
    theirs, mine = at_one_moment(
        lambda: direct.read("everything", BLOB), lambda: gateway.resources("everything", BLOB)
    )
    (item,) = theirs.contents
    assert item.blob
    (block,) = blocks(mine)
    assert block["type"] == "resource"
    assert block["resource"] == {"uri": BLOB, "mimeType": item.mime_type, "blob": item.blob}
    assert mine.structured_content == {"uri": BLOB, "mime_type": item.mime_type, "blob": item.blob}


def test_json_is_given_as_text(gateway, direct, scratch):
    servers.require(servers.live_server("memory", scratch))
    uri = "memory://knowledge-graph"
    theirs, mine = at_one_moment(lambda: direct.read("memory", uri), lambda: gateway.resources("memory", uri))
    assert mine.structured_content == {"result": theirs.contents[0].text}


def test_every_resource_is_listed_in_the_description(gateway, direct):
    listed = direct.listed_resources("everything")
    assert len(listed) >= 7
    description = gateway.descriptions()["resources"]
    assert all(str(resource.uri) in description for resource in listed)


def test_an_unknown_resource_fails_with_the_servers_own_words(gateway):
    answer = gateway.resources("everything", "demo://resource/nowhere")
    assert answer.is_error
    assert answer.structured_content["code"] in {"unknown_resource", "upstream_error"}
    assert "demo://resource/nowhere" in answer.content[0].text


def test_an_unknown_server_suggests_the_right_one(gateway):
    answer = gateway.resources("everythin", BLOB)
    assert answer.structured_content["code"] == "unknown_server"
    assert answer.structured_content["did_you_mean"][0] == "everything"

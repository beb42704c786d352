"""Tools of the five servers, run through MCPX: the result is the server's own."""

from __future__ import annotations

import base64
import itertools

import pytest

from tests.live import servers
from tests.live.carried import assert_carried, blocks
from tests.live.directly import at_one_moment

pytestmark = pytest.mark.live

HERE = "<the server's folder>"  # stands for a folder that is known only when the test runs
NODES = {"entities", "relations"}
numbers = itertools.count()

CALLS = [
    ("everything", "echo", {"message": "grüße \u2603 \U0001f40d"}),
    ("everything", "get-sum", {"a": 2, "b": 40}),
    ("everything", "get-tiny-image", {}),
    ("everything", "get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("everything", "get-resource-links", {"count": 4}),
    ("everything", "get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("everything", "get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
    ("everything", "get-structured-content", {"location": "Chicago"}),
    ("filesystem", "read_text_file", {"path": f"{HERE}/hello.txt"}),
    ("filesystem", "read_text_file", {"path": f"{HERE}/sub/numbers.json"}),
    ("filesystem", "read_media_file", {"path": f"{HERE}/tone.wav"}),
    ("filesystem", "read_media_file", {"path": f"{HERE}/dot.png"}),
    ("filesystem", "list_directory", {"path": HERE}),
    ("filesystem", "directory_tree", {"path": HERE}),
    ("filesystem", "read_text_file", {"path": "/outside/of/it"}),
    ("memory", "read_graph", {}),
    ("memory", "search_nodes", {"query": "number 2"}),
    ("memory", "open_nodes", {"names": ["node 1", "node 3"]}),
    ("git", "git_log", {"repo_path": HERE, "max_count": 5}),
    ("git", "git_status", {"repo_path": HERE}),
    ("git", "git_show", {"repo_path": HERE, "revision": "HEAD"}),
    ("git", "git_show", {"repo_path": HERE, "revision": "no-such-revision"}),
    ("time", "get_current_time", {"timezone": "Asia/Tokyo"}),
    ("time", "convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}),
]


@pytest.fixture
def ready(scratch):
    """`ready(server, arguments)`: the server is there; the arguments with its folder in place."""
    folders = {"filesystem": scratch / "files", "git": scratch / "repository"}

    def fill(server, arguments):
        servers.require(servers.live_server(server, scratch))
        folder = str(folders.get(server, scratch).resolve())
        return {
            name: value.replace(HERE, folder) if isinstance(value, str) else value
            for name, value in arguments.items()
        }

    return fill


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{call[1]}")
def test_a_result_is_the_servers_own(gateway, direct, ready, call):
    server, tool, arguments = call
    arguments = ready(server, arguments)
    theirs, mine = at_one_moment(
        lambda: direct.call(server, tool, arguments), lambda: gateway.exec(server, tool, arguments)
    )
    assert theirs.content
    assert_carried(mine, theirs)


@pytest.mark.parametrize(
    ("call", "kinds"),
    [
        (("everything", "get-tiny-image", {}), ["text", "image", "text"]),
        (("everything", "get-resource-links", {"count": 2}), ["text", "resource_link", "resource_link"]),
        (("everything", "get-resource-reference", {"resourceType": "Blob"}), ["text", "resource", "text"]),
        (("filesystem", "read_media_file", {"path": f"{HERE}/tone.wav"}), ["audio"]),
    ],
)
def test_each_kind_of_block_keeps_its_kind_and_place(gateway, ready, call, kinds):
    server, tool, arguments = call
    answer = gateway.exec(server, tool, ready(server, arguments))
    assert [block.type for block in answer.content] == kinds


def test_a_sound_comes_through_byte_for_byte(gateway, ready, scratch):
    answer = gateway.exec("filesystem", "read_media_file", ready("filesystem", {"path": f"{HERE}/tone.wav"}))
    (block,) = blocks(answer)
    assert block["mimeType"] == "audio/wav"
    assert base64.b64decode(block["data"]) == (scratch / "files" / "tone.wav").read_bytes()


def test_an_image_comes_through_byte_for_byte(gateway, ready, scratch):
    answer = gateway.exec("filesystem", "read_media_file", ready("filesystem", {"path": f"{HERE}/dot.png"}))
    (block,) = blocks(answer)
    assert block["mimeType"] == "image/png"
    assert base64.b64decode(block["data"]) == (scratch / "files" / "dot.png").read_bytes()


def test_json_is_shown_to_the_model_as_toon(gateway, direct, ready):
    ready("memory", {})
    theirs, mine = at_one_moment(
        lambda: direct.call("memory", "read_graph", {}), lambda: gateway.exec("memory", "read_graph")
    )
    assert mine.content[0].text != theirs.content[0].text
    assert_carried(mine, theirs)
    assert mine.structured_content.keys() == NODES


def test_a_tool_that_writes_has_written_what_the_server_then_tells(gateway, direct, ready):
    ready("memory", {})
    name = f"written {next(numbers)}"
    entity = {"name": name, "entityType": "test", "observations": ["through MCPX"]}
    written = gateway.exec("memory", "create_entities", {"entities": [entity]})
    assert not written.is_error
    told = direct.call("memory", "open_nodes", {"names": [name]})
    assert told.structured_content["entities"] == [entity]
    direct.call("memory", "delete_entities", {"entityNames": [name]})


def test_a_file_that_is_written_through_mcpx_is_on_the_disk(gateway, ready, scratch):
    arguments = ready("filesystem", {"path": f"{HERE}/written.txt", "content": "zwölf\n"})
    try:
        assert not gateway.exec("filesystem", "write_file", arguments).is_error
        assert (scratch / "files" / "written.txt").read_text("utf-8") == "zwölf\n"
    finally:
        (scratch / "files" / "written.txt").unlink(missing_ok=True)

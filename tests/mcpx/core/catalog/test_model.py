"""The catalogue's structs: the protocol's names of their fields."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import PromptInfo, ResourceInfo, TemplateInfo, ToolInfo

COMMON = {"name", "title", "description", "icons", "_meta"}
RESOURCES = COMMON | {"mimeType", "annotations"}


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (ToolInfo, COMMON | {"inputSchema", "outputSchema", "annotations", "execution"}),
        (ResourceInfo, RESOURCES | {"uri", "size"}),
        (TemplateInfo, RESOURCES | {"uriTemplate"}),
        (PromptInfo, COMMON | {"arguments"}),
    ],
)
def test_fields_are_named_as_the_protocol_names_them(kind, members):
    assert {member for _, member in kind.members()} == members


def test_an_entry_in_the_protocols_words_has_what_the_server_gave():
    info = ResourceInfo(server_name="s", uri="x:1", name="", mime_type="text/plain", size=0, meta={"a": 1})
    assert info.to_protocol() == {
        "uri": "x:1",
        "name": "",
        "mimeType": "text/plain",
        "size": 0,
        "_meta": {"a": 1},
    }

"""The catalogue's structs: the protocol's names of their fields."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import PromptInfo, ResourceInfo, TemplateInfo, ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo, State

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


@pytest.mark.parametrize(
    ("state", "retry_in_s", "whole", "alone"),
    [
        (State.READY, None, "ready", "ready"),
        (State.PARKED, None, "parked: it died", "parked"),
        (State.WAITING, 3.6, "waiting, retry in 4 s: it died", "waiting, retry in 4 s"),
    ],
)
def test_a_state_reads_with_its_cause_or_without(state, retry_in_s, whole, alone):
    info = ServerInfo(name="s", state=state, transport="stdio", cause="it died", retry_in_s=retry_in_s)
    assert info.describe_state() == whole
    assert info.describe_state(cause=False) == alone


def test_a_state_that_wants_a_sign_in_has_the_command():
    info = ServerInfo(
        name="s", state=State.NEEDS_SIGN_IN, transport="http", cause="no token", sign_in="mcpx login s"
    )
    assert info.describe_state() == "needs sign-in: run: mcpx login s"
    assert info.refuse("is not available") == (
        "s is not available (needs sign-in: run: mcpx login s); nothing was sent"
    )
    assert info.why() == {"state": "needs sign-in", "cause": "no token", "sign_in": "mcpx login s"}
    assert info.to_dict()["sign_in"] == "mcpx login s"
    assert not info.available

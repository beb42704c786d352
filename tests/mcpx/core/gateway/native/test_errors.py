"""Errors of servers that carry links for a person."""

from __future__ import annotations

import json

from mcpx.core.gateway.native.errors import about_resource, as_protocol_error
from mcpx.core.gateway.tools import definitions
from mcpx.core.wire.enclosed import restore
from mcpx.errors import CallError, Code


def test_links_in_an_error_name_their_server_and_unsafe_ones_are_left_out():
    links = [
        {"mode": "url", "message": "Go", "url": url, "elicitationId": "1"}
        for url in ("https://a.example/x", "javascript:alert(1)")
    ]
    upstream = {"code": -32042, "message": "Links first", "data": {"elicitations": links, "x": None}}
    error = CallError(Code.UPSTREAM_ERROR, "no", server="weather", details={"upstream": upstream})
    for shown in (
        as_protocol_error(error),
        about_resource(error, uri="a:b", own="a:b", version="2025-11-25"),
    ):
        assert shown.code == -32042
        data = json.loads(restore(json.dumps(shown.data, separators=(",", ":")).encode()))
        (link,) = data["elicitations"]
        assert link["message"] == "weather asks:\n\nGo\n\nThe link opens a.example."
        assert data["x"] is None


def test_a_model_reads_no_link_in_an_error_that_a_person_may_not_be_given():
    links = [{"mode": "url", "message": "Go", "url": "javascript:alert(1)", "elicitationId": "1"}]
    for elicitations in (links, {"a": links[0]}):
        upstream = {"code": -32042, "message": "Links first", "data": {"elicitations": elicitations, "x": 1}}
        error = CallError(Code.UPSTREAM_ERROR, "no", server="weather", details={"upstream": upstream})
        shown = definitions.failure(error, structured=True)["structuredContent"]["upstream"]
        assert shown == upstream | {"data": {"elicitations": [], "x": 1}}
        (of_native,) = definitions.failure_in_meta(error)["_meta"].values()
        assert of_native["upstream"] == shown

"""Calls that are wrong: the answer says what is, and the server hears nothing of them."""

from __future__ import annotations

import json

import pytest

from tests.live import servers

pytestmark = pytest.mark.live

GOOD = {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}


@pytest.fixture
def recorded(gateway, scratch):
    """The gateway, whose server `recorded` is there."""
    servers.require(servers.live_server("time", scratch))
    gateway.wait_for("upstream.ready", server="recorded")
    return gateway


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({**GOOD, "time": 1230}, {"$.time"}),
        ({"source_timezone": "UTC", "time": "12:30"}, {"$.target_timezone"}),
        ({"source_timezone": 1, "time": None, "target_timezone": []}, {
            "$.source_timezone",
            "$.time",
            "$.target_timezone",
        }),
        ({}, {"$.source_timezone", "$.time", "$.target_timezone"}),
        (None, {"$.source_timezone", "$.time", "$.target_timezone"}),
        ([1, 2], {"$"}),
        ('{"time": ', {"$"}),
        ('{"source_timezone": "UTC", "time": 5, "target_timezone": "UTC"}', {"$.time"}),
    ],
)  # fmt: skip
def test_bad_arguments_name_every_path_and_send_nothing(recorded, arguments, paths):
    before = recorded.calls_sent()
    answer = recorded.exec("recorded", "convert_time", arguments)
    assert answer.is_error
    told = answer.structured_content
    assert (told["code"], told["outcome"]) == ("invalid_arguments", "not_sent")
    assert {problem["path"] for problem in told["problems"]} == paths
    text = answer.content[0].text
    assert all(f"- {path}: " in text for path in paths)
    assert "source_timezone: string" in text  # the schema in its TypeScript form
    assert recorded.exec("recorded", "convert_time", GOOD).structured_content
    assert recorded.calls_sent()[len(before) :] == [("convert_time", GOOD)]


def test_arguments_as_a_json_string_are_read_as_the_object_they_hold(recorded, direct):
    before = recorded.calls_sent()
    answer = recorded.exec("recorded", "convert_time", json.dumps(GOOD))
    assert not answer.is_error
    assert recorded.calls_sent()[len(before) :] == [("convert_time", GOOD)]


@pytest.mark.parametrize(
    ("name", "nearest"), [("recordd", "recorded"), ("Recorded", "recorded"), ("the-time", "time")]
)
def test_an_unknown_server_suggests_the_right_one(recorded, name, nearest):
    before = recorded.calls_sent()
    for answer in (recorded.exec(name, "convert_time", GOOD), recorded.inspect(name)):
        assert answer.is_error
        told = answer.structured_content
        assert (told["code"], told["outcome"]) == ("unknown_server", "not_sent")
        assert nearest in told["did_you_mean"]
        assert "Did you mean " in answer.content[0].text
    assert recorded.calls_sent() == before


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("convertTime", "convert_time"),
        ("current_time", "get_current_time"),
        ("get_curent_time", "get_current_time"),
    ],
)
def test_an_unknown_tool_suggests_the_right_one(recorded, name, nearest):
    before = recorded.calls_sent()
    for answer in (recorded.exec("recorded", name, GOOD), recorded.inspect("recorded", name)):
        assert answer.is_error
        told = answer.structured_content
        assert (told["code"], told["outcome"]) == ("unknown_tool", "not_sent")
        assert told["did_you_mean"][0] == nearest
        assert f"Did you mean {nearest}" in answer.content[0].text
    assert recorded.calls_sent() == before


def test_a_tool_of_another_server_is_found_there(recorded, scratch):
    servers.require(servers.live_server("git", scratch))
    answer = recorded.exec("recorded", "git_log", {})
    assert answer.structured_content["code"] == "unknown_tool"
    assert answer.structured_content["servers_with_it"] == ["git"]

"""Results in the envelope of the client's era, of members that nobody has read."""

from __future__ import annotations

import json

import msgspec
import pytest

from mcpx.core.rendering.result_members import closing, enveloped, read_block, read_texts
from mcpx.core.rendering.result_reading import UnknownResultType, read_members, read_tool_result

STAMP = b'{"io.modelcontextprotocol/serverInfo":{"name":"mcpx"}}'
THEIRS = '"io.modelcontextprotocol/serverInfo":{"name":"theirs"}'
FILLER = '"a":"' + "x" * 70_000 + '"'


def raw(text):
    return msgspec.Raw(text.encode())


def closed(meta, stamp=STAMP):
    """The envelope that `closing` writes, and the one of `enveloped`, which must be the same."""
    made = json.loads(b"{" + b"".join(closing(raw(meta), stamp)).lstrip(b","))
    assert made == json.loads(enveloped({"_meta": raw(meta)} if meta else {}, stamp))
    return made


@pytest.mark.parametrize("meta", ["", "null", "{}", f"{{{THEIRS}}}", " {} "[1:3]])
def test_the_stamp_is_all_the_meta_there_is(meta):
    assert closed(meta) == {"resultType": "complete", "_meta": json.loads(STAMP)}
    assert closed(meta, None) in ({}, {"_meta": {}})


@pytest.mark.parametrize("filler", ['"a":1e2', FILLER], ids=["small", "large"])
def test_the_server_s_own_members_are_kept_but_for_its_name(filler):
    for members in (filler, f"{filler},{THEIRS}", f"{THEIRS},{filler}"):
        given = json.loads(f"{{{members}}}")
        assert closed(f"{{{members}}}")["_meta"] == given | json.loads(STAMP)
    assert closed(f"{{{filler}}}", None) == {"_meta": json.loads(f"{{{filler}}}")}


def test_large_meta_that_holds_nothing():
    assert closed("{" + " " * 70_000 + "}")["_meta"] == json.loads(STAMP)


def test_meta_that_is_no_object_is_its_clients_matter():
    assert closed("[1]")["_meta"] == [1]


def test_the_envelope_of_2026_is_for_its_clients_alone():
    members = {"resultType": "complete", "ttlMs": 5, "cacheScope": "private", "x": None}
    assert json.loads(enveloped(members, None)) == {"x": None}
    assert json.loads(enveloped(members, STAMP)) == members | {"_meta": json.loads(STAMP)}


@pytest.mark.parametrize("block", ["5", "null", "[]", '"text"', "{}", '{"type":5,"text":{},"resource":[]}'])
def test_odd_blocks_stay_what_they_are(block):
    assert json.loads(msgspec.json.encode(read_block(raw(block)))) == json.loads(block)


def test_usual_results_are_read_as_any_other():
    text = {"type": "text", "text": "é"}
    for result in (
        {"content": [text]},
        {"content": [text, text], "isError": True, "structuredContent": {"a": 1}},
        {"content": [], "structuredContent": None},
    ):
        encoded = msgspec.Raw(msgspec.json.encode(result))
        usual, other = read_texts(encoded), read_members(encoded)
        assert usual is not None
        content = msgspec.json.decode(other.pop("content"))
        assert msgspec.json.decode(msgspec.json.encode(usual)) == {
            "isError": False,
            **msgspec.json.decode(msgspec.json.encode(other)),
            "content": content,
        }


@pytest.mark.parametrize("whole", [False, True])
def test_a_result_of_an_unknown_type_is_raised_with_its_members(whole):
    with pytest.raises(UnknownResultType) as caught:
        read_tool_result(raw('{"resultType":"task","task":{"id":"1"}}'), server="s", whole=whole)
    assert "'task'" in str(caught.value)
    assert json.loads(enveloped(caught.value.result, STAMP))["task"] == {"id": "1"}

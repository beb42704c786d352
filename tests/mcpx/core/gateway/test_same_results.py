"""A server's results reach clients of both eras at all endpoints as the same bytes."""

from __future__ import annotations

import json

import pytest

from tests.mcpx.core.gateway.endpoints import exactly, open_endpoints

pytestmark = pytest.mark.anyio
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
HERS = json.dumps({SERVER_INFO: {"name": "exact", "version": "1"}})[1:-1]
NUMBERS = '{"b":1e400,"a":-1e400,"c":1e2,"d":1.0,"e":-0.0,"f":1' + "0" * 30 + "}"
ODD = f'{{"z":{NUMBERS},"a":null,"a":[1,1],"":{{}},"\\u00e9":"\\u2028"}}'
DEEP = '{"a":' * 600 + "1" + "}" * 600
CALL = {"name": "exec", "arguments": {"server_name": "s", "tool_name": "say"}}
READ_TOOL = {"name": "resources", "arguments": {"server_name": "s", "uri": "a:b"}}
BLOCKS = {
    "unknown-type": f'{{"type":"hologram","x":{ODD}}}',
    "no-type": '{"text":"x"}',
    "odd-type": '{"type":["text"],"text":"x"}',
    "null-type": '{"type":null}',
    "odd-text": '{"type":"text","text":5}',
    "array-as-text": '{"type":"text","text":["{}"]}',
    "empty": "{}",
    "text-with-more": f'{{"type":"text","text":"hi","annotations":{ODD},"_meta":{{"n":null}},"v":{ODD}}}',
    "json-with-more": f'{{"type":"text","text":"[1]","annotations":{ODD},"vendor":{ODD}}}',
    "image": f'{{"type":"image","data":"aGk=","mimeType":"image/png","vendor":{ODD}}}',
    "odd-image": '{"type":"image"}',
    "link": f'{{"type":"resource_link","uri":"x:y","name":"y","size":1e2,"vendor":{ODD}}}',
    "resource": f'{{"type":"resource","v":{ODD},"resource":{{"uri":"x:y","text":"[1]","v":{ODD}}}}}',
    "odd-resource": '{"type":"resource","resource":[1]}',
}


@pytest.fixture(scope="module")
def anyio_backend():
    """For the fixture of the module, too."""
    return "asyncio"


@pytest.fixture(scope="module", params=["handshake", "modern"], ids=["old-server", "new-server"])
async def all_endpoints(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    async with open_endpoints(folder, request.param, result_token_budget=0) as opened:
        yield opened


@pytest.fixture
def endpoints(all_endpoints):
    yield all_endpoints
    all_endpoints.forget()


def members(result: bytes) -> dict:
    """The members of a result, exactly, without the envelope of 2026-07-28."""
    kind, pairs = exactly(result)
    assert kind == "object"
    return {
        name: value for name, value in pairs if name not in {"resultType", "_meta", "ttlMs", "cacheScope"}
    }


def meta(result: bytes) -> dict:
    return json.loads(result).get("_meta", {})


def assert_stamped(results: dict[str, bytes]) -> None:
    """MCPX's own name is in results of 2026-07-28, the server's in none."""
    assert "resultType" not in json.loads(results["handshake"])
    assert SERVER_INFO not in meta(results["handshake"])
    assert json.loads(results["modern"])["resultType"] == "complete"
    assert meta(results["modern"])[SERVER_INFO]["name"] == "mcpx"


async def test_blocks_and_members_that_mcpx_does_not_know(endpoints):
    for block in BLOCKS.values():
        for more in ("", f',"vendor":{ODD},"n":null'):
            given = f'{{"content":[{block},{{"type":"text","text":"and"}}],"isError":false{more}}}'
            results = await endpoints.results("tools/call", CALL, given)
            for result in results.values():
                got = members(result)
                got.pop("structuredContent", None)  # what a JSON text holds
                assert got == members(given.encode())
            assert_stamped(results)


async def test_what_is_nested_deeply(endpoints):
    block = f'{{"type":"deep","x":{DEEP}}}'
    for result in (await endpoints.results("tools/call", CALL, f'{{"content":[{block}]}}')).values():
        assert block.encode() in result


async def test_structured_content_is_the_bytes_that_came(endpoints):
    for value in (ODD, NUMBERS, DEEP):
        given = f'{{"structuredContent":{value},"content":[{{"type":"text","text":"hi"}}]}}'
        for result in (await endpoints.results("tools/call", CALL, given)).values():
            assert b'"structuredContent":' + value.encode() in result
        for result in (
            await endpoints.results("tools/call", CALL, f'{{"structuredContent":{value}}}')
        ).values():
            assert b'"structuredContent":' + value.encode() in result


async def test_meta_is_kept_but_for_what_the_server_says_of_itself(endpoints):
    for theirs in (f'"a":{ODD},{HERS}', '"b":null,"a":1e400', HERS, ""):
        given = f'{{"content":[{{"type":"text","text":"hi"}}],"_meta":{{{theirs}}}}}'
        results = await endpoints.results("tools/call", CALL, given)
        assert_stamped(results)
        for result in results.values():
            _, pairs = dict(exactly(result)[1]).get("_meta", ("object", []))
            kept = [pair for pair in pairs if pair[0] != SERVER_INFO]
            assert kept == [pair for pair in exactly(f"{{{theirs}}}")[1] if pair[0] != SERVER_INFO]


async def test_json_text_is_shown_in_its_form_and_its_block_keeps_the_rest(endpoints):
    text = json.dumps(json.dumps([{"id": n, "name": "x"} for n in range(20)], indent=1))
    given = f'{{"content":[{{"annotations":{ODD},"type":"text","text":{text}}}],"vendor":{ODD}}}'
    for result in (await endpoints.results("tools/call", CALL, given)).values():
        got = members(result)
        assert got["vendor"] == exactly(ODD)
        block = dict(got["content"][0][1])
        assert block["annotations"] == exactly(ODD)
        assert block["text"].startswith("[20]{id,name}:")


async def test_white_space_of_any_kind(endpoints):
    given = '{"content" :\t[ {"type"\r: "text" , "text":"hi" } ]\r,"structuredContent":{\r"a" : 1\r}\r}'
    for result in (await endpoints.results("tools/call", CALL, given)).values():
        assert json.loads(result)["structuredContent"] == {"a": 1}
        assert b"\n" not in result


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_lines_of_a_server_over_http_end_no_line_of_a_client(era, tmp_path):
    result = {"resultType": "complete", "content": [{"type": "text", "text": "a\nb"}]}
    given = json.dumps(result | {"structuredContent": {"a": 1}, "isError": False}, indent=1)
    async with open_endpoints(tmp_path, era, over_http=True) as endpoints:
        for text in (given, given.replace("\n", "\r\n")):
            for got in (await endpoints.results("tools/call", CALL, text)).values():
                assert members(got) == members(given.encode())


async def test_large_results(endpoints):
    text = json.dumps("[" + "é, " * 400_000)
    block = f'{{"type":"text","text":{text},"annotations":{ODD}}}'
    given = f'{{"vendor":{ODD},"content":[{block}],"_meta":{{{HERS}}}}}'
    results = await endpoints.results("tools/call", CALL, given)
    assert_stamped(results)
    for result in results.values():
        assert members(result) | {"isError": None} == members(given.encode()) | {"isError": None}


async def test_what_is_not_json_is_an_error_that_says_so(endpoints):
    for number in ("NaN", "Infinity", "-Infinity"):
        for given in (
            f'{{"content":[],"structuredContent":{{"a":{number}}}}}',
            f'{{"content":[{{"type":"text","text":"[1]"}}],"x":{number}}}',
        ):
            for result in (await endpoints.results("tools/call", CALL, given)).values():
                said = json.loads(result)
                assert said["isError"]
                assert said["structuredContent"]["code"] == "protocol_error"
                assert said["structuredContent"]["outcome"] == "unknown"
                assert "NaN or an infinity" in said["structuredContent"]["error"]


async def test_a_result_of_an_unknown_type_is_for_new_clients_to_judge(endpoints):
    given = f'{{"resultType":"acme/odd","x":{ODD},"_meta":{{"a":1}}}}'
    for params in (CALL, READ_TOOL):
        method = "resources/read" if params is READ_TOOL else None
        results = await endpoints.results("tools/call", params, given, upstream=method)
        got = exactly(results["modern"])[1]
        assert [pair for pair in got if pair[0] != "_meta"] == exactly(given)[1][:-1]
        assert meta(results["modern"]).keys() == {"a", SERVER_INFO}
        said = json.loads(results["handshake"])["structuredContent"]
        assert (said["code"], said["outcome"]) == ("protocol_error", "unknown")
        assert "acme/odd" in said["error"]
    for (_, era), answer in (await endpoints.answers("resources/read", {"uri": "mcpx://s/a:b"})).items():
        if era == "modern":
            assert json.loads(bytes(answer.result))["resultType"] == "acme/odd"
        else:
            assert (answer.error["code"], answer.error["data"]["outcome"]) == (-32603, "unknown")


ITEM = f'{{"uri":"a:b","text":"[1]","mimeType":"text/x","_meta":{{"n":null,"x":1e400}},"vendor":{ODD}}}'


async def test_a_resource_read_by_the_tool(endpoints):
    given = f'{{"contents":[{ITEM},{{"uri":"a:b","blob":"aGk=","vendor":{ODD}}}],"vendor":{ODD}}}'
    results = await endpoints.results("tools/call", READ_TOOL, given, upstream="resources/read")
    assert_stamped(results)
    for result in results.values():
        got = members(result)
        assert got["vendor"] == exactly(ODD)
        text, blob = (dict(pairs) for _, pairs in got["content"])
        assert text["vendor"] == exactly(ODD)
        assert text["_meta"] == exactly('{"n":null,"x":1e400}')
        assert dict(blob["resource"][1])["vendor"] == exactly(ODD)


async def test_a_native_read(endpoints):
    given = f'{{"vendor":{ODD},"contents":[{ITEM}],"_meta":{{"a":null,{HERS}}}}}'
    results = await endpoints.results("resources/read", {"uri": "mcpx://s/a:b"}, given)
    assert_stamped(results)
    assert json.loads(results["modern"])["ttlMs"] == 0
    assert "ttlMs" not in json.loads(results["handshake"])
    for result in results.values():
        assert members(result) == members(given.replace('"uri":"a:b"', '"uri":"mcpx://s/a:b"').encode())
        assert meta(result)["a"] is None


async def test_a_prompt(endpoints):
    blocks = [BLOCKS[name] for name in BLOCKS if name != "odd-resource"]
    content = ",".join(f'{{"role":"user","content":{block},"vendor":{ODD}}}' for block in blocks)
    given = f'{{"messages":[{content}],"description":null,"vendor":{ODD}}}'
    results = await endpoints.results("prompts/get", {"name": "s.p"}, given)
    assert_stamped(results)
    for result in results.values():
        assert members(result) == members(given.replace('"uri":"x:y"', '"uri":"mcpx://s/x:y"').encode())


async def test_a_completion(endpoints):
    given = f'{{"completion":{{"values":["a"],"total":1e400,"vendor":{ODD}}},"vendor":{ODD}}}'
    params = {"ref": {"type": "ref/prompt", "name": "s.p"}, "argument": {"name": "x", "value": ""}}
    results = await endpoints.results("completion/complete", params, given)
    assert_stamped(results)
    for result in results.values():
        assert members(result) == members(given.encode())


async def test_the_data_of_an_error(endpoints):
    data = {"a": None, "b": [{"c": None}], "n": 10**30, "deep": json.loads(DEEP)}
    endpoints.fail_with({"code": -32050, "message": "no", "data": data})
    for params in ({"uri": "mcpx://s/a:b"}, {"name": "s.p"}):
        method = "resources/read" if "uri" in params else "prompts/get"
        for answer in (await endpoints.answers(method, params)).values():
            answer.error["data"].pop("uri", None)
            assert answer.error == {"code": -32050, "message": "no", "data": data}
    for answer in (await endpoints.answers("tools/call", CALL)).values():
        assert json.loads(bytes(answer.result))["structuredContent"]["upstream"]["data"] == data


async def test_lists_in_the_envelope_of_each_era(endpoints):
    for method, member in {
        "resources/list": "resources",
        "resources/templates/list": "resourceTemplates",
        "prompts/list": "prompts",
    }.items():
        answers = await endpoints.answers(method, {})
        for (_, era), answer in answers.items():
            result = bytes(answer.result)
            assert len(json.loads(result)[member]) == 1
            assert (
                ("resultType" in json.loads(result)) == ("ttlMs" in json.loads(result)) == (era == "modern")
            )

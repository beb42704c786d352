"""Every native answer is the server's own, field by field, for each pair of eras.

The differences that are allowed, and why:

* `uri`, `uriTemplate` and a prompt's `name` are in MCPX's namespace, so that servers cannot collide.
* `_meta["io.modelcontextprotocol/serverInfo"]` names who answered: MCPX, or the server where it did.
* `data.uri` of an error is the URI that the client asked for; the message is the server's own, unaltered.
"""

from __future__ import annotations

from typing import Any

import pytest
from mcp import MCPError
from mcp_types import PromptReference, ResourceTemplateReference
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.mcpx.core.gateway.native.connecting import direct, entry, open_gateway
from tests.mcpx.scripted import config_of

pytestmark = pytest.mark.anyio

SERVER = "a.b c"
URI = "mcpx://a.b%20c/"
PROMPT = "a%2Eb c."
STAMP = "io.modelcontextprotocol/serverInfo"
ROW = "row://people/7?columns=name"


def plain(model: Any) -> Any:
    """As JSON, without the stamp of who answered."""
    dumped = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = dumped.get("_meta")
    if meta is not None and set(meta) <= {STAMP}:
        del dumped["_meta"]
    elif meta is not None:
        meta.pop(STAMP, None)
    return dumped


def renamed(value: Any) -> Any:
    """The server's answer with its names put into MCPX's namespace."""
    if isinstance(value, list):
        return [renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: URI + item if key in {"uri", "uriTemplate"} else renamed(item) for key, item in value.items()
    }


async def failure(call: Any, *arguments: Any) -> tuple[int, str, Any]:
    with pytest.raises(MCPError) as caught:
        await call(*arguments)
    error = caught.value.error
    return error.code, error.message, error.data


@pytest.fixture
async def pair(era, mode, ears):
    """A client of the server itself, and one behind MCPX."""
    async with (
        open_gateway(config_of({SERVER: entry(era, ears)})) as mcpx,
        direct(mode, ears) as theirs,
        mcpx.client(mode) as ours,
    ):
        assert (ours.protocol_version in MODERN_PROTOCOL_VERSIONS) is (mode == "modern")
        assert theirs.protocol_version == ours.protocol_version
        upstream = mcpx.hub.upstreams[SERVER].catalogue.protocol_version
        assert (upstream in MODERN_PROTOCOL_VERSIONS) is (era == "both")
        yield theirs, ours


async def test_capabilities(pair):
    theirs, ours = pair
    mine = plain(ours.server_capabilities)
    assert mine.pop("logging") == {}  # MCPX takes a level for all servers, this one or another
    assert mine == plain(theirs.server_capabilities)


async def test_lists(pair):
    theirs, ours = pair
    assert plain(await ours.list_resources()) == renamed(plain(await theirs.list_resources()))
    mine = plain(await ours.list_resource_templates())
    assert mine == renamed(plain(await theirs.list_resource_templates()))
    prompts = plain(await theirs.list_prompts())
    for prompt in prompts["prompts"]:
        prompt["name"] = PROMPT + prompt["name"]
    assert plain(await ours.list_prompts()) == prompts


@pytest.mark.parametrize("uri", ["note:///full", ROW])
async def test_reads(pair, uri):
    theirs, ours = pair
    assert plain(await ours.read_resource(URI + uri)) == renamed(plain(await theirs.read_resource(uri)))
    # the server's own name will do as well, where only one server has it
    assert plain(await ours.read_resource(uri)) == plain(await theirs.read_resource(uri))


async def test_a_prompt(pair):
    theirs, ours = pair
    given = {"who": "everybody", "tone": "calm"}
    mine = plain(await ours.get_prompt(PROMPT + "brief.the/team", given))
    assert mine == renamed(plain(await theirs.get_prompt("brief.the/team", given)))
    assert mine["messages"][2]["content"]["uri"] == URI + "note:///other"
    read = await ours.read_resource(mine["messages"][2]["content"]["uri"])
    assert read.contents[0].text == "other"


async def test_completions(pair):
    theirs, ours = pair
    asked = {"argument": {"name": "who", "value": "ev"}, "context_arguments": {"tone": "calm"}}
    mine = await ours.complete(PromptReference(name=PROMPT + "brief.the/team"), **asked)
    assert plain(mine) == plain(await theirs.complete(PromptReference(name="brief.the/team"), **asked))
    template = "row://{table}/{id}{?columns*}"
    asked = {"argument": {"name": "table", "value": "p"}}
    mine = await ours.complete(ResourceTemplateReference(uri=URI + template), **asked)
    assert plain(mine) == plain(await theirs.complete(ResourceTemplateReference(uri=template), **asked))


async def test_an_error_about_a_resource(pair):
    theirs, ours = pair
    code, message, data = await failure(theirs.read_resource, "note:///none")
    assert await failure(ours.read_resource, URI + "note:///none") == (
        code,
        message,
        {**data, "uri": URI + "note:///none"},
    )


async def test_an_error_about_a_prompt(pair):
    theirs, ours = pair
    told = await failure(theirs.get_prompt, "brief.the/team", {})
    assert told[0] == -32602
    assert await failure(ours.get_prompt, PROMPT + "brief.the/team", {}) == told

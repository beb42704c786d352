"""The codes, keys and errors that MCPX has of its own, held against the SDK's."""

import mcp
import mcp_types
import pytest
from mcp.shared import inbound, subscriptions
from mcp.shared.dispatcher import coerce_request_id as sdk_coerce
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params as sdk_token
from pydantic import TypeAdapter

from mcpx.core.gateway.sdk_path import own_errors
from mcpx.core.wire import envelope
from mcpx.core.wire.envelope import INVALID_PARAMS, MCPError, NoBackChannelError

OF_SDK = (mcp_types, inbound, subscriptions)
NAMES = [name for name in vars(envelope) if name.isupper() and any(hasattr(home, name) for home in OF_SDK)]


@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_the_sdks(name):
    of_sdk = next(getattr(home, name) for home in OF_SDK if hasattr(home, name))
    assert getattr(envelope, name) == of_sdk


@pytest.mark.parametrize("request_id", [7, "7", "-7", "seven", "", "7.5"])
def test_ids_are_found_as_the_sdk_finds_them(request_id):
    assert envelope.coerce_request_id(request_id) == sdk_coerce(request_id)


@pytest.mark.parametrize(
    "params",
    [None, {}, {"_meta": None}, {"_meta": {}}]
    + [{"_meta": {"progressToken": token}} for token in (1, "a", True, None, [1])],
)
def test_progress_tokens_are_read_as_the_sdk_reads_them(params):
    assert envelope.progress_token_from_params(params) == sdk_token(params)


def test_an_error_of_the_sdks_server_becomes_one_of_ours():
    with pytest.raises(MCPError) as caught, own_errors():
        raise mcp.MCPError(-32002, "no such resource", {"uri": "a:b"})
    assert caught.value.members() == {"code": -32002, "message": "no such resource", "data": {"uri": "a:b"}}


def test_wrong_parameters_become_invalid_params_without_a_word_of_pydantic():
    with pytest.raises(MCPError) as caught, own_errors():
        TypeAdapter(int).validate_python("x")
    assert caught.value.members() == {
        "code": INVALID_PARAMS,
        "message": "Invalid request parameters",
        "data": "",
    }


def test_errors_of_our_own_pass_as_they_are():
    error = NoBackChannelError("roots/list")
    with pytest.raises(MCPError) as caught, own_errors():
        raise error
    assert caught.value is error and "roots/list" in str(error)

"""Whatever the file holds: a config or a `ConfigError` in one printable line, nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcpx.core.config import Config, Http, Sse, Stdio, json_schema, parse
from mcpx.core.config.server_config import OAuth
from mcpx.errors import ConfigError

SCHEMA = json_schema()
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no bug
VALIDATOR = Draft202012Validator(SCHEMA)
ENVIRON = {"A": "apple", "HOME": "/home/me", "URL": "http://x/mcp"}

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from(["stdio", "http", "sse", "http://x/mcp", "${A}", "${NOPE}", "${URL}", "$${A}", "~/x"])
)  # fmt: skip
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
words = st.sampled_from(
    sorted(
        {*SCHEMA["properties"], *SCHEMA["$defs"]["server"]["properties"], *OAuth.__struct_fields__}
        | {"port", "cap", "name", "cert", "key", "ca", "enabled", "CLIENT_ID", "authServerMetadataUrl"}
    )
)

WHOLE: dict[str, Any] = {
    "mcpServers": {
        "a": {"command": "x", "args": ["${A}", "y"], "env": {"K": "v"}, "cwd": "w", "restart": {"cap": 3}},
        "b": {"type": "http", "url": "${URL}", "headers": {"X": "${NOPE}"}, "call_timeout": 3},
    },
    "servers": {
        "c": {"url": "http://x/sse", "alwaysAllow": []},
        "f": {
            "url": "https://x",
            "auth": {"client_id": "i", "client_secret": "${A}", "scopes": ["a", "b c"]},
        },
        "g": {"url": "https://x", "oauth": {"clientId": "i", "redirectUri": "http://x"}, "tls": {"ca": "c"}},
    },
    "mcp": {"servers": {"d": {"command": "~/x"}}, "inputs": []},
    "mcp_servers": [{"name": "e", "command": "x", "disabled": True}],
    "http": {"port": 1, "allowed_hosts": ["a"]},
    "queue_size": 3,
}


def containers(node: Any) -> list[Any]:
    """Every object and array in a document, the document among them."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [each for child in inner for each in containers(child)] + [node] * isinstance(node, dict | list)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A document in every accepted form, with up to three of its values replaced, added or taken away."""
    document = json.loads(json.dumps(WHOLE))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from([each for each in containers(document) if each or each is document]))
        if isinstance(place, list):
            place[draw(st.integers(0, len(place) - 1))] = draw(values)
        elif draw(st.booleans()) and place:
            del place[draw(st.sampled_from(sorted(place)))]
        else:
            key = draw(st.sampled_from(sorted(place)) | words | st.text(max_size=8) if place else words)
            place[key] = draw(values)
    return document


documents = damaged() | values


def outcome(text: str | bytes) -> Config | None:
    """The config, or `None` for an error that is one clear line."""
    try:
        return parse(text, where="c.json", environ=ENVIRON)
    except ConfigError as error:
        told = error
    assert str(told).startswith("c.json:")
    assert str(told).isprintable()
    assert told.problem
    return None


@PATIENT
@given(documents)
def test_any_json_is_a_config_or_one_line_of_error(document: Any) -> None:
    config = outcome(json.dumps(document))
    if config is None:
        return
    assert all(isinstance(each.transport, Stdio | Http | Sse) for each in config.servers.values())
    assert all(notice.isprintable() for notice in config.notices)
    assert all((each.disabled or "x").isprintable() for each in config.servers.values())


@PATIENT
@given(st.text() | st.binary() | st.text(alphabet='{}[]",:0123456789 \n/*a\\'))
def test_any_text_is_a_config_or_one_line_of_error(text: str | bytes) -> None:
    outcome(text)


@PATIENT
@given(st.lists(st.text(alphabet="${}:-Aenv1 \\~", max_size=30), max_size=4))
def test_expansion_of_any_string_ends_in_a_string(args: list[str]) -> None:
    config = outcome(json.dumps({"mcpServers": {"s": {"command": "x", "args": args}}}))
    assert config is not None
    transport = config.servers["s"].transport
    assert isinstance(transport, Stdio)
    assert len(transport.args) == len(args)
    for written, became in zip(args, transport.args, strict=True):
        assert "${" in written or became == written


@PATIENT
@given(
    st.fixed_dictionaries(
        {"command": st.text(alphabet="abc/~", min_size=1)},
        optional={
            "args": st.lists(st.text(alphabet="abc -")),
            "env": st.dictionaries(
                st.text(alphabet="ABC_", min_size=1), st.text(alphabet="abc") | st.integers()
            ),
            "cwd": st.text(alphabet="ab/.", min_size=1),
            "queue_timeout": st.floats(0.001, 1000) | st.integers(1, 1000),
            "disabled": st.booleans(),
        },
    )
)
def test_what_the_parser_takes_the_schema_takes(entry: dict[str, Any]) -> None:
    document = {"mcpServers": {"s": entry}}
    assert outcome(json.dumps(document)) is not None
    VALIDATOR.validate(document)


texts = st.text(alphabet="ab ", min_size=1)


@PATIENT
@given(
    st.booleans()
    | st.sampled_from(["oauth", "none", "token"])
    | st.fixed_dictionaries(
        {},
        optional={
            "client_id": texts | st.none(),
            "clientId": texts,
            "CLIENT_SECRET": texts,
            "scopes": texts | st.lists(texts) | st.integers(),
            "grant": st.sampled_from(["authorization_code", "client_credentials", "password"]),
            "resource": st.booleans() | st.integers(),
            "callbackPort": st.integers(0, 70_000),
            "callback_port": st.integers(0, 70_000),
            "other": texts,
            "_comment": texts,
        },
    )
)
def test_what_the_parser_takes_of_a_sign_in_the_schema_takes(auth: Any) -> None:
    document = {"mcpServers": {"s": {"url": "https://x", "auth": auth}}}
    config = outcome(json.dumps(document))
    assert config is not None
    if config.servers["s"].disabled is None:
        VALIDATOR.validate(document)

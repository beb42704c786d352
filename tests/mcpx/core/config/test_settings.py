"""Settings for all servers and for one, and the JSON Schema that documents them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from mcpx.core.config import CallLimits, Config, HealthCheck, HttpGateway, RestartPolicy, json_schema, parse
from mcpx.core.config.model import Replica
from mcpx.core.config.per_server import AccessRules, Quota, ToolRules
from mcpx.core.system.endpoint import PROJECT_VARIABLES
from mcpx.errors import ConfigError

SERVERS = {"mcpServers": {"s": {"command": "x"}}}


def read(**settings: Any) -> Config:
    return parse(json.dumps(SERVERS | settings), where="c.json", environ={})


def test_defaults_are_those_of_the_contract() -> None:
    config = read()
    plain = msgspec.structs.asdict(config)
    for key in (
        "source",
        "servers",
        "peers",
        "notices",
        "http",
        "http_served",
        "digest",
        "environment",
        "common",
    ):
        del plain[key]
    assert plain == {
        "schema_compression_enabled": True,
        "max_description_len": 300,
        "toon_compression_enabled": True,
        "toon_compression_min_saving": 0.15,
        "toon_compression_min_size": 0,
        "toon_compression_max_size": 2097152,
        "catalog_token_budget": 4000,
        "search_history": False,
        "include_structured_content": "auto",
        "startup_wait": 3.0,
        "shutdown_grace": 5.0,
        "max_starting": 0,
        "idle_exit": 0.0,
        "max_message_bytes": 67108864,
        "cache_bytes": 33554432,
        "watch_config": True,
        "forward_env": PROJECT_VARIABLES,
        "login_shell": True,
        "env_file": (),
        "profiles": {},
        "login_port": 8767,
        "login_timeout": 300.0,
        "token_store": "file",
        "approve_timeout": 120.0,
        "tiers": "auto",
        "exec_arguments": "auto",
        "sanitize": "auto",
        "audit": "on",
        "audit_required": False,
        "cluster": None,
        "ui": True,
    }
    server = config.servers["s"]
    assert msgspec.structs.astuple(server.call_limits) == (60.0, 600.0, 300.0, 15.0, 15.0, 256, 64)
    assert msgspec.structs.astuple(server.health) == (True, 30.0, 5.0, 2)
    assert msgspec.structs.astuple(server.restart) == (0.5, 60.0, 30.0, 8, 300.0)
    assert (server.auto_describe, server.sessions, server.era) == (True, "shared", "auto")
    assert (server.start, server.remembered_for, server.idle_stop) == ("auto", 86400.0, 0.0)
    assert (server.expose, server.pinned) == ("three", ())
    assert server.result_token_budget == 8000
    assert (server.tools, server.resources, server.prompts) == (ToolRules(), AccessRules(), AccessRules())
    assert (server.approve, server.annotations, server.trust_annotations) == ("off", {}, True)
    assert (server.pin, server.quarantine, server.quota) == ("warn", False, Quota())
    assert msgspec.structs.astuple(config.http) == ("127.0.0.1", 8765, (), (), 1024, 0.0, Replica())


def test_top_level_settings_reach_the_config() -> None:
    http = {"host": "0.0.0.0", "port": 0, "allowed_hosts": ["a"], "allowed_origins": ["https://b"]}
    config = read(max_description_len=10, include_structured_content="never", startup_wait=1, http=http)
    assert (config.max_description_len, config.include_structured_content) == (10, "never")
    assert config.startup_wait == 1.0
    assert config.http == HttpGateway(
        host="0.0.0.0", port=0, allowed_hosts=("a",), allowed_origins=("https://b",)
    )
    assert config.notices == ()


def test_one_server_overrides_what_is_set_for_all_and_nothing_else() -> None:
    config = read(
        call_timeout=100,
        queue_size=5,
        health_check_interval=10,
        auto_describe=False,
        native=False,
        era="modern",
        restart={"initial": 2, "cap": 20},
        mcpServers={
            "own": {
                "command": "x",
                "call_timeout": 7.5,
                "health_check_enabled": False,
                "auto_describe": True,
                "native": True,
                "era": "auto",
                "restart": {"cap": 9, "park_after": 2.0},
            },
            "plain": {"command": "x"},
        },
    )
    own, plain = config.servers["own"], config.servers["plain"]
    assert plain.call_limits == CallLimits(call_timeout=100.0, queue_size=5)
    assert plain.health == HealthCheck(interval=10.0)
    assert plain.restart == RestartPolicy(initial=2.0, cap=20.0)
    assert plain.auto_describe is False
    assert plain.native is False
    assert own.call_limits == CallLimits(call_timeout=7.5, queue_size=5)
    assert own.health == HealthCheck(enabled=False, interval=10.0)
    assert own.restart == RestartPolicy(initial=2.0, cap=9.0, park_after=2)
    assert own.auto_describe is True
    assert own.native is True
    assert (plain.era, own.era) == ("modern", "auto")
    assert config.notices == ()


def test_structs_cannot_be_changed() -> None:
    config = read()
    with pytest.raises(AttributeError):
        config.max_starting = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        config.servers["s"].call_limits.queue_size = 3  # type: ignore[misc]


def test_the_pins_of_a_server_are_of_its_own_tools() -> None:
    pins = ["git.*", "*.log", "status", "git_*"]
    servers = {"git": {"command": "x", "pinned": pins}, "g*": {"command": "x", "pinned": ["a"]}}
    config = read(pinned=["search.*"], mcpServers={**servers, "plain": {"command": "x"}})
    assert config.servers["git"].pinned == ("git.*", "*.log", "git.status", "git.git_*")
    assert config.servers["g*"].pinned == ("g[*].a",)
    assert config.servers["plain"].pinned == ("search.*",)


NESTED = ("restart", "http", "tools", "resources", "prompts", "limits")


def leaves(key: str, rules: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings inside a group, those of groups in it too."""
    found: dict[str, dict[str, Any]] = {}
    for inner, rule in rules["properties"].items():
        name = f"{key}.{inner}"
        found |= leaves(name, rule) if "properties" in rule else {name: rule}
    return found


def documented(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The leaf settings of the top level by their dotted key."""
    found: dict[str, dict[str, Any]] = {}
    for key, rules in schema["properties"].items():
        if key in NESTED:
            found |= leaves(key, rules)
        elif key not in {"mcpServers", "servers", "mcp", "mcp_servers"}:
            found[key] = rules
    return found


def effective(config: Config) -> dict[str, Any]:
    """What the program really uses, by the same dotted keys."""
    plain: dict[str, Any] = json.loads(msgspec.json.encode(replace(config, environment=None)))
    server = plain["servers"]["s"]
    nested = {f"{outer}.{key}": value for outer in NESTED for key, value in (plain | server)[outer].items()}
    ours = {"source", "servers", "peers", "notices", "http", "http_served", "digest", "environment", "common"}
    rest = {key: plain[key] for key in plain if key not in ours}
    names = ("auto_describe", "sessions", "era", "start", "remembered_for", "inherit", "idle_stop", "native")
    names += (
        "expose",
        "pinned",
        "result_token_budget",
        "fit_images",
        "approve",
        "annotations",
        "trust_annotations",
    )
    names += (
        "pin",
        "quarantine",
        "place",
        "fit_images",
        "max_uptime",
        "max_calls",
        "watch",
        "timeouts",
        "cache",
    )
    rest |= {key: server[key] for key in names}
    nested |= {f"http.replica.{key}": value for key, value in nested.pop("http.replica").items()}
    return {**rest, **server["call_limits"], **server["health"]} | nested


def test_the_schema_documents_every_setting_with_its_real_default() -> None:
    settings = documented(json_schema())
    assert {key: rule["default"] for key, rule in settings.items()} == effective(read())
    assert all(len(rule["description"]) > 15 for rule in settings.values())


def test_settings_for_one_server_are_documented_there_too() -> None:
    server = json_schema()["$defs"]["server"]["properties"]
    per_server = {"call_timeout", "health_check_enabled", "max_concurrency", "sessions", "restart"}
    assert per_server <= server.keys()
    assert set(server["restart"]["properties"]) == set(RestartPolicy.__struct_fields__)
    assert all(rule["description"] for rule in server.values())
    assert "max_starting" not in server


def test_the_schema_is_a_schema_and_plain_json() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 1.0, 1.5, 8765, 70_000, 2_000_000, 31_536_000, 31_536_001, 1e300, 10**30,
    "", "auto", "shared", "all", "x", "on", "off", "file", [], ["a"], ["a", 1], [""], {}, {"a": 1},
]  # fmt: skip


def nested(key: str, value: Any) -> dict[str, Any]:
    outer, _, inner = key.partition(".")
    return SERVERS | {outer: {inner: value} if inner else value}


ALONE = [key for key in documented(json_schema()) if not key.startswith("http.replica.")]
"""The settings that need no other."""


@pytest.mark.parametrize("key", ALONE)
def test_the_schema_and_the_parser_agree_on_every_setting(key: str) -> None:
    validator = Draft202012Validator(json_schema())
    verdicts = set()
    for value in VALUES:
        document = nested(key, value)
        try:
            parse(json.dumps(document), where="c", environ={})
            accepted = True
        except ConfigError:
            accepted = False
        assert validator.is_valid(document) is accepted, (key, value)
        verdicts.add(accepted)
    assert verdicts == {True, False}


GOOD: list[dict[str, Any]] = [
    {"mcpServers": {"a": {"command": "x", "args": ["y"], "env": {"A": "b", "N": 1, "Z": None}, "cwd": "~"}}},
    {"mcpServers": {"a": {"type": "http", "url": "https://x/mcp", "headers": {"X-Key": "${K}"}}}},
    {
        "mcpServers": {
            "a": {"url": "https://x/mcp", "auth": "oauth"},
            "b": {"url": "https://x", "auth": False},
        }
    },
    {"mcpServers": {"a": {"url": "https://x/mcp", "auth": {"client_id": "i", "scopes": "a b"}}}},
    {"mcpServers": {"a": {"url": "https://x/mcp", "auth": {"CLIENT_ID": "i", "scopes": ["a"]}}}},
    {"mcpServers": {"a": {"url": "https://x/mcp", "oauth": {"clientId": "i", "callbackPort": 3118}}}},
    {"mcpServers": {"a": {"url": "https://x/mcp", "tls": {"ca": "${CA}"}}}},
    {"servers": {"a": {"type": "sse", "url": "${BASE}/sse"}}, "inputs": []},
    {"mcp": {"servers": {"a": {"serverUrl": "http://x"}}}},
    {"mcpServers": {"a": {"command": "x", "url": "http://x"}}},
    {"mcp_servers": [{"name": "a", "command": "x", "disabled": True, "anything": [1]}]},
]

BAD: list[dict[str, Any]] = [
    {},
    {"mcpServers": 3},
    {"mcpServers": {"": {"command": "x"}}},
    {"mcpServers": {"a": {}}},
    {"mcpServers": {"a": {"command": "x", "url": "http://x", "serverUrl": "http://x"}}},
    {"mcpServers": {"a": {"command": ""}}},
    {"mcpServers": {"a": {"command": "x", "args": [1]}}},
    {"mcpServers": {"a": {"command": "x", "env": {"A": True}}}},
    {"mcpServers": {"a": {"command": "x", "env": {"A=": "b"}}}},
    {"mcpServers": {"a": {"url": "ftp://x"}}},
    {"mcpServers": {"a": {"url": "http://x", "headers": {"A b": "c"}}}},
    {"mcpServers": {"a": {"url": "http://x", "type": "carrier-pigeon"}}},
    {"mcpServers": {"a": {"url": "https://x", "auth": "a-token"}}},
    {"mcpServers": {"a": {"url": "https://x", "auth": {"client": "i"}}}},
    {"mcpServers": {"a": {"url": "https://x", "auth": {"grant": "password"}}}},
    {"mcpServers": {"a": {"url": "https://x", "auth": {"scopes": 3}}}},
    {"mcpServers": {"a": {"url": "https://x", "auth": {"callback_port": 0}}}},
    {"mcpServers": {"a": {"url": "https://x", "tls": {"certificate": "c.pem"}}}},
    {"mcpServers": {"a": {"url": "https://x", "tls": "c.pem"}}},
    {"mcpServers": {"a": {"command": "x", "disabled": 1}}},
    {"mcpServers": {"a": {"command": "x", "restart": {"cap": 0}}}},
    {"mcp_servers": [{"command": "x"}]},
    {"mcp_servers": [{"name": "", "command": "x"}]},
]


@pytest.mark.parametrize("document", GOOD, ids=range(len(GOOD)))
def test_good_configs_are_good_to_the_schema_and_to_the_parser(document: dict[str, Any]) -> None:
    Draft202012Validator(json_schema()).validate(document)
    assert parse(json.dumps(document), where="c", environ={}).servers


@pytest.mark.parametrize("document", BAD, ids=range(len(BAD)))
def test_bad_configs_are_bad_to_the_schema_and_to_the_parser(document: dict[str, Any]) -> None:
    assert not Draft202012Validator(json_schema()).is_valid(document)
    try:
        config = parse(json.dumps(document), where="c", environ={})
    except ConfigError:
        return
    assert any(server.disabled for server in config.servers.values())


def test_the_package_is_quick_to_import_it_pulls_in_neither_anyio_nor_the_sdk() -> None:
    code = (
        "import sys, mcpx.core.config; print({'anyio', 'mcp', 'jsonschema', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.strip() == "set()"

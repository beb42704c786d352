"""Imports that leave out what is not needed: what a daemon loads, and that the rest can still be had."""

import json
import os
import subprocess
import sys
import threading
from importlib import import_module

import pydantic
import pytest
from pydantic import TypeAdapter

from mcpx.core.system.light_imports import PACKAGES, Home, _deferred_models, import_alone, names_of

OFFERS = """
def offers(package):
    module = import_module(package)
    return {name: repr(getattr(module, name)).partition(" at 0x")[0] for name in module.__all__}
"""
DAEMON = f"""
import json, sys
import anyio
from importlib import import_module
from mcpx.core.system.light_imports import PACKAGES
{OFFERS}
def run(*arguments, **options):
    loaded = sorted(sys.modules)
    from mcp_types import Tool, jsonrpc_message_adapter
    message = jsonrpc_message_adapter.validate_python({{"jsonrpc": "2.0", "id": 1, "method": "ping"}})
    tool = Tool.model_validate({{"name": "a", "inputSchema": {{"type": "object"}}}})
    names = {{name: offers(name) for name in PACKAGES}}
    found = [type(message).__name__, tool.input_schema]
    print(json.dumps({{"loaded": loaded, "found": found, "names": names}}))

anyio.run = run  # the daemon is about to serve
from mcpx.__main__ import main
main()
"""
PLAIN = f"""
import json
from importlib import import_module
{OFFERS}
print(json.dumps({{name: offers(name) for name in {sorted(PACKAGES)}}}))
"""


def said_by(program, *arguments, **environ):
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0", **environ},  # sets are shown in one order
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return json.loads(run.stdout)


UNWANTED = {
    "PIL",
    "httpx2",
    "jsonschema",
    "mcp.client.auth",
    "mcp.client.client",
    "mcp.server.mcpserver",
    "mcp_types._types",
    "prometheus_client",
    "pydantic",
    "opentelemetry.sdk",
    "rich",
    "uvicorn",
}


def test_a_daemon_of_child_processes_loads_neither_an_http_client_nor_the_sdks_frameworks(tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"mcpServers": {"a": {"command": "cat", "disabled": true}}}')
    said = said_by(DAEMON, "daemon", "run", "--config", str(config), MCPX_STATE_DIR=str(tmp_path / "state"))
    assert not UNWANTED & set(said["loaded"])
    assert said["found"] == ["JSONRPCRequest", {"type": "object"}], "models work when they are used"
    for package, names in said_by(PLAIN).items():
        assert said["names"][package].items() >= names.items(), "a package offers what it always does"


def test_only_the_thread_that_imports_defers_adapters():
    built = []

    class Other(pydantic.BaseModel):
        a: int

    def other():
        built.append(TypeAdapter(list[Other]).pydantic_complete)

    with _deferred_models():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        built.append(TypeAdapter(list[Other]).pydantic_complete)
    assert built == [True, False]


def test_the_homes_of_a_packages_names():
    source = '''
"""About it."""
from __future__ import annotations
from . import types as types
from .client.client import Client
from ..other import thing as it
from elsewhere import a, b as c
__all__ = ["Client"]
'''
    assert names_of(source, "top.package") == {
        "types": Home("top.package.types", None),
        "Client": Home("top.package.client.client", "Client"),
        "it": Home("top.other", "thing"),
        "a": Home("elsewhere", "a"),
        "c": Home("elsewhere", "b"),
    }


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from a import *",
        "VERSION = '1'",
        "def f(): ...",
        "try:\n  from a import b\nexcept E: ...",
    ],
)
def test_a_package_that_does_more_is_loaded_as_usual(source):
    assert names_of(source, "package") is None


def test_a_module_comes_without_the_rest_of_its_package_which_can_be_imported_later(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("snowballstemmer")]:
        monkeypatch.delitem(sys.modules, name)
    alone = import_alone("snowballstemmer.english_stemmer").EnglishStemmer()
    assert not [name for name in sys.modules if name.startswith("snowballstemmer")]
    whole = import_module("snowballstemmer")
    assert alone.stemWord("running") == whole.stemmer("english").stemWord("running") == "run"
    there = sys.modules["snowballstemmer.english_stemmer"]
    assert import_alone("snowballstemmer.english_stemmer") is there

import json
import subprocess
import sys
from importlib import import_module

import pytest

from mcpx.light_imports import PACKAGES, Home, import_alone, names_of

OFFERS = """
def offers(package):
    module = import_module(package)
    return {name: repr(getattr(module, name)).partition(" at 0x")[0] for name in module.__all__}
"""
DAEMON = f"""
import json, sys
from importlib import import_module
from mcpx.light_imports import PACKAGES, light_sdk
import mcpx.daemon.listening, mcpx.observe
with light_sdk():
    import mcpx.app
loaded = sorted(sys.modules)
from mcp_types import Tool, jsonrpc_message_adapter
message = jsonrpc_message_adapter.validate_python({{"jsonrpc": "2.0", "id": 1, "method": "ping"}})
tool = Tool.model_validate({{"name": "a", "inputSchema": {{"type": "object"}}}}).model_dump(exclude_none=True)
{OFFERS}
names = {{name: offers(name) for name in PACKAGES}}
print(json.dumps({{"loaded": loaded, "tool": tool, "message": type(message).__name__, "names": names}}))
"""
PLAIN = f"""
import json
from importlib import import_module
{OFFERS}
print(json.dumps({{name: offers(name) for name in {sorted(PACKAGES)}}}))
"""


def said_by(program):
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    return json.loads(run.stdout)


def test_a_daemon_of_child_processes_loads_neither_an_http_client_nor_the_sdks_frameworks():
    found = said_by(DAEMON)
    unwanted = {
        "httpx2",
        "mcp.client.client",
        "mcp.server.mcpserver",
        "mcp.client.auth",
        "jsonschema",
        "rich",
        "uvicorn",
    }
    assert not unwanted & set(found["loaded"])
    assert found["tool"] == {"name": "a", "input_schema": {"type": "object"}}, (
        "models work when they are used"
    )
    assert found["message"] == "JSONRPCRequest", "and so does what chooses between several"
    plain = said_by(PLAIN)
    for package, names in plain.items():
        assert found["names"][package].items() >= names.items(), "a package offers what it always does"


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

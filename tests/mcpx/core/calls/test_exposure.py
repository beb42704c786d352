"""What is shown by settings, choices and pins, over servers that are no more than their catalogues."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from mcpx.core.calls import exposure
from mcpx.core.calls.exposure import Exposure, unused_pins, unused_tools
from mcpx.core.catalog import naming
from mcpx.core.catalog.model import Catalogue, ToolInfo
from mcpx.core.config import Config, Profile, ServerConfig, Stdio


def config_of(**servers):
    made = {
        name: ServerConfig(name=name, transport=Stdio(command="x"), **settings)
        for name, settings in servers.items()
    }
    return Config(source="test", servers=made)


def upstreams_of(**tools):
    return {
        name: SimpleNamespace(
            name=name,
            catalogue=None if names is None else catalogue(name, names.split()),
            has_listed=names is not None,
        )
        for name, names in tools.items()
    }


def catalogue(server, names):
    tools = {name: ToolInfo(server_name=server, name=name, input_schema={}) for name in names}
    return Catalogue(generation=1, tools=tools)


def shown(config, upstreams, choice=None):
    return Exposure(choice, lambda: config, upstreams).shown


def test_tools_stand_in_the_order_of_names_whatever_the_servers_do():
    config = config_of(
        b={"expose": "all"}, a={"expose": "both"}, c={}, off={"disabled": "x", "expose": "all"}
    )
    found = shown(config, upstreams_of(b="z y", a="n m", c="k", off="j"))
    assert list(found.native) == ["a__m", "a__n", "b__y", "b__z"]
    assert found.three
    assert found.native_servers == {"b"}


@pytest.mark.parametrize("choice", [None, "three", "all", "both"])
def test_the_three_are_shown_unless_all_servers_are_native_alone(choice):
    config = config_of(a={"expose": "all"}, off={"disabled": "x"})
    assert shown(config, upstreams_of(a="m", off=None), choice).three is (choice in ("three", "both"))
    nothing_enabled = config_of(off={"disabled": "x", "expose": "all"})
    assert shown(nothing_enabled, upstreams_of(off=None), choice).three is (choice != "all")


def test_it_is_made_again_only_when_settings_or_catalogues_change():
    settings, upstreams = [config_of(a={"expose": "all"})], upstreams_of(a="m")
    made = Exposure(None, lambda: settings[0], upstreams)
    first = made.shown
    assert made.shown is first
    upstreams["a"].catalogue = catalogue("a", ["m", "n"])
    made.catalogue_changed("a", None)
    assert list(made.shown.native) == ["a__m", "a__n"]
    settings[0] = config_of(a={"pinned": ("a.n",)})
    made.catalogue_changed("a", None)
    assert list(made.shown.native) == ["a__n"]


def test_a_name_that_two_tools_would_have_is_nobodys(monkeypatch):
    monkeypatch.setattr(exposure, "native_name", lambda server, tool: naming.native_name("s", tool))
    config = config_of(a={"expose": "all"}, b={"expose": "all"})
    assert list(shown(config, upstreams_of(a="x y", b="y z")).native) == ["s__x", "s__z"]


def test_a_pattern_that_fits_nothing_is_known_once_all_have_listed():
    pins = ("a.m", "*.n", "x*", "b.?")
    config = config_of(a={"pinned": pins}, b={"pinned": pins}, off={"disabled": "x", "pinned": ("off.z",)})
    assert unused_pins(config, upstreams_of(a="m", b=None, off=None)) == []
    assert unused_pins(config, upstreams_of(a="m", b="q", off=None)) == ["*.n", "x*"]


def test_a_profile_that_names_no_tool_of_its_server_is_known_once_that_has_listed():
    profiles = {"work": Profile(tools={"a": ("m*", "n"), "b": ("x",)})}
    config = replace(config_of(a={}, b={}), profiles=profiles)
    found = unused_tools(config, upstreams_of(a="m1 m2", b=None))
    assert found == ["profiles.work.tools: a has no tool that fits 'n'"]


def test_servers_that_may_have_a_name_are_waited_for():
    config = config_of(**{"a b": {"expose": "all"}, "a": {}, "c": {"expose": "all"}})
    upstreams = upstreams_of(**{"a b": None, "a": None, "c": "m"})
    made = Exposure(None, lambda: config, upstreams)
    assert [each.name for each in made.unlisted("a_b__m_0123456789ab")] == ["a b"]
    assert [each.name for each in made.unlisted("a__m")] == []
    assert made.unlisted("c__x") == []

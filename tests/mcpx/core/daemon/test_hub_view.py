"""A profile is a closed view: what is added to a server tomorrow does not answer through it."""

from __future__ import annotations

import pytest

from mcpx.core.catalog.model import Catalogue
from mcpx.core.daemon.hub_view import HubView
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.servers.server import Server
from mcpx.core.system.endpoint import Endpoint
from tests.mcpx.scripted import config_of, entry, open_watched

pytestmark = pytest.mark.anyio
SECRET = "count"  # a tool that the profile hides
PROFILES = {"profiles": {"p": {"tools": {"deny": [SECRET]}}}}


def names_in(found) -> set[str]:
    """The tools that an answer names, whatever shape it has."""
    if isinstance(found, Catalogue):
        return set(found.tools)
    return set(found) if isinstance(found, list | dict) else set()


async def test_a_new_attribute_of_a_server_cannot_leak_through_a_profile(monkeypatch):
    async with open_watched(config_of({"s": entry()}, **PROFILES)) as watch:
        await watch.hub.settled(50)
        monkeypatch.setattr(
            Server, "all_tools", property(lambda self: list(self.catalogue.tools)), raising=False
        )
        monkeypatch.setattr(Server, "whole", lambda self: self.catalogue, raising=False)
        server = watch.hub.upstreams["s"]
        assert SECRET in server.all_tools
        assert SECRET in server.whole().tools
        shown = HubView(watch.hub, Endpoint(profile="p")).upstreams["s"]
        assert not hasattr(shown, "all_tools")
        assert not hasattr(shown, "whole")
        with pytest.raises(AttributeError):
            shown.all_tools = server.all_tools  # nor can it be put there
        public = [name for name in dir(shown) if not name.startswith("_")]
        assert "catalogue" in public
        assert all(SECRET not in names_in(getattr(shown, name)) for name in public)
        assert not any(getattr(shown, name) is server for name in public)


async def test_a_new_question_to_a_policy_is_not_answered_for_the_unnarrowed_server(monkeypatch):
    def first_rule(self):
        return self._first_rule_of_all

    async with open_watched(config_of({"s": entry()}, **PROFILES)) as watch:
        await watch.hub.settled(50)
        watch.hub.upstreams["s"].policy._first_rule_of_all = "count"
        monkeypatch.setattr(ServerPolicy, "first_rule", first_rule, raising=False)
        shown = HubView(watch.hub, Endpoint(profile="p")).upstreams["s"]
        assert watch.hub.upstreams["s"].policy.first_rule() == "count"
        with pytest.raises(AttributeError):
            shown.policy.first_rule()

"""What an endpoint shows of a configuration and a server, and what is said of one that is not there."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import pytest

from mcpx.core.catalog.model import Catalogue, LeftOut, PromptInfo, ToolInfo
from mcpx.core.catalog.snapshot import ServerInfo, State
from mcpx.core.config import Config, Profile, ServerConfig, Stdio
from mcpx.core.daemon.hub_view import ShownServers
from mcpx.core.policy.policy import NarrowedPolicy, ServerPolicy
from mcpx.core.policy.profiles import EndpointError, check_endpoint, select
from mcpx.core.servers.visible_server import NarrowedServer, VisibleServer
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint, only_of

SERVERS = ("git", "linear", "db-one", "db-two")


def config_of(**profiles):
    servers = {
        name: ServerConfig(name=name, transport=Stdio(command="x"), pinned=("*.y",)) for name in SERVERS
    }
    return Config(source="c.json", servers=servers, profiles=profiles)


def shown(endpoint, config):
    return list(select(endpoint, config).config.servers)


def catalogue(*tools):
    named = (LeftOut(kind="tool", name="git_push", reason="odd"), LeftOut(kind="tools/list", reason="late"))
    return Catalogue(
        generation=1,
        tools={name: ToolInfo(server_name="git", name=name, input_schema={}) for name in tools},
        prompts=(PromptInfo(server_name="git", name="ask"),),
        left_out=named,
    )


@pytest.mark.parametrize(
    ("endpoint", "names"),
    [
        (DEFAULT_ENDPOINT, SERVERS),
        (Endpoint(expose="all"), SERVERS),
        (Endpoint(only=("git", "linear")), ("git", "linear")),
        (Endpoint(only=("db-*",)), ("db-one", "db-two")),
        (Endpoint(profile="work"), ("git", "db-one")),
        (Endpoint(profile="work", only=("git", "linear")), ("git",)),
        (Endpoint(profile="everything"), SERVERS),
        (Endpoint(profile="nothing"), ()),
        (Endpoint(profile="gone"), ()),
    ],
)
def test_the_servers_of_a_endpoint(endpoint, names):
    profiles = {"work": Profile(servers=("git", "*-one")), "everything": Profile()}
    assert shown(endpoint, config_of(**profiles, nothing=Profile(servers=()))) == list(names)


def test_a_profile_says_how_its_servers_are_shown_and_the_others_are_as_configured():
    config = config_of(work=Profile(expose="both", pinned=()), plain=Profile(tools={"git": ("x",)}))
    work = select(Endpoint(profile="work"), config)
    assert {(each.expose, each.pinned) for each in work.config.servers.values()} == {("both", ())}
    plain = select(Endpoint(profile="plain"), config)
    assert plain.config.servers == config.servers
    assert plain.rules("git").tools.against("y") == "tools.allow"
    assert not plain.rules("linear").restrict
    assert select(DEFAULT_ENDPOINT, config).config is config


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        (Endpoint(profile="wrok"), 'there is no profile "wrok"; did you mean "work"?'),
        (Endpoint(profile="zz"), 'there is no profile "zz"; there is "work"'),
        (Endpoint(only=("gti",)), 'there is no server "gti"; did you mean "git"?'),
        (Endpoint(only=("zz-*",)), 'there is no server "zz-*"; there is "git", "linear", "db-one", "db-two"'),
        (Endpoint(only=("git", "linear"), profile="work"), 'there is no server "linear"; there is "git"'),
        (Endpoint(only=()), "no server is named"),
    ],
)
def test_what_is_said_of_a_endpoint_that_there_is_not(endpoint, problem):
    config = config_of(work=Profile(servers=("git",)))
    with pytest.raises(EndpointError) as error:
        check_endpoint(endpoint, config)
    assert str(error.value) == problem


def test_without_profiles_none_is_named():
    with pytest.raises(EndpointError, match="none is configured"):
        check_endpoint(Endpoint(profile="work"), config_of())


def test_what_is_named_in_lists_is_sorted_and_there_once():
    assert only_of(["b, a,,b", "c"]) == ("a", "b", "c")
    assert only_of([" , "]) == ()


def rules_of(*patterns):
    return select(Endpoint(profile="w"), config_of(w=Profile(tools={"git": patterns}))).rules("git")


def test_of_a_narrowed_catalogue_no_hidden_tool_is_named():
    whole = catalogue("git_log", "git_log_all", "git_push")
    part = rules_of("git_log*").filtered(whole)
    assert list(part.tools) == ["git_log", "git_log_all"]
    assert part.prompts == whole.prompts
    assert [each.kind for each in part.left_out] == ["tools/list"]


class Extended(SimpleNamespace):
    """A server with members that no profile was ever asked about."""

    @property
    def tools_of_all(self):
        return ["git_push"]

    def run_any(self, tool):
        raise AssertionError(tool)


def test_what_is_added_to_a_server_is_not_seen_through_a_profile():
    policy = ServerPolicy(config_of().servers["git"])
    real = Extended(name="git", config=None, catalogue=None, policy=policy, added_in_its_init=["git_push"])
    narrow = NarrowedServer(real, NarrowedPolicy(policy, lambda: rules_of("git_log")))
    for name in ("tools_of_all", "run_any", "added_in_its_init", "listed", "counters", "sessions"):
        with pytest.raises(AttributeError):
            getattr(narrow, name)


def test_a_profile_has_of_a_server_what_the_protocol_names_and_no_more():
    def members(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    assert members(NarrowedServer) == members(VisibleServer) | {"is_of"}


def test_a_listing_is_awaited_until_the_tools_that_are_shown_suffice():
    policy = ServerPolicy(config_of().servers["git"])
    asked = []

    async def wait(suffices):
        asked.append(suffices(real.catalogue))

    known = catalogue("git_push")
    real = SimpleNamespace(name="git", config=None, catalogue=known, policy=policy, await_catalogue=wait)
    rules = rules_of("git_log")
    narrow = NarrowedServer(real, NarrowedPolicy(policy, lambda: rules))
    anyio.run(narrow.await_catalogue, lambda shown: bool(shown.tools))
    assert asked == [False]


def test_a_narrowed_upstream_is_the_upstream_but_for_its_tools():
    def info():
        return ServerInfo(name="git", state=State.READY, transport="stdio", catalogue=real.catalogue)

    policy = ServerPolicy(config_of().servers["git"])
    real = SimpleNamespace(
        name="git",
        config=None,
        catalogue=None,
        has_listed=True,
        info=info,
        policy=policy,
    )
    rules = rules_of("git_log")
    narrow = NarrowedServer(real, NarrowedPolicy(policy, lambda: rules))
    assert (narrow.catalogue, narrow.info().catalogue, narrow.has_listed) == (None, None, True)
    real.catalogue = catalogue("git_log", "git_push")
    kept = narrow.catalogue
    assert list(kept.tools) == ["git_log"]
    assert narrow.catalogue is kept
    assert narrow.info().catalogue is kept
    real.catalogue = catalogue("git_push")
    assert narrow.catalogue.tools == {}


def test_servers_are_those_of_the_moment():
    everything = {
        name: SimpleNamespace(name=name, policy=SimpleNamespace(refused=set()), config=None)
        for name in SERVERS
    }
    configs = [config_of(work=Profile(servers=("git", "linear"), tools={"git": ("a",)}))]
    upstreams = ShownServers(everything, lambda: select(Endpoint(profile="work"), configs[0]))
    assert list(upstreams) == ["git", "linear"]
    assert upstreams["linear"].is_of(everything["linear"])
    assert upstreams["git"] is upstreams["git"]
    assert "db-one" not in upstreams
    assert upstreams.get("db-one") is None
    before = upstreams["git"]
    everything["git"] = SimpleNamespace(name="git", policy=SimpleNamespace(refused=set()), config=None)
    assert upstreams["git"] is not before
    del everything["linear"]
    assert list(upstreams) == ["git"]
    configs[0] = config_of(work=Profile(servers=("db-*",)))
    assert list(upstreams) == ["db-one", "db-two"]

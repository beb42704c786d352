"""What a new configuration changes: the decision."""

from __future__ import annotations

from msgspec.structs import replace

from mcpx.core.config import HttpGateway
from mcpx.core.servers.fleet.reload import ReloadPlan, effective_config, plan_reload
from tests.mcpx.scripted import config_of, entry


def test_servers_are_told_apart_by_everything_in_their_entry():
    base = entry()
    old = config_of({"same": base, "gone": base, "other": base})
    new = config_of({"fresh": base, "other": {**base, "call_timeout": 7}, "same": base})
    assert plan_reload(old, new) == ReloadPlan(
        added=("fresh",), removed=("gone",), changed=("other",), untouched=("same",)
    )
    assert plan_reload(new, new) == ReloadPlan(untouched=tuple(new.servers))


def test_a_setting_for_all_servers_changes_those_that_do_not_have_their_own():
    servers = {"follows": entry(), "has its own": entry(settings={"call_timeout": 5})}
    plan = plan_reload(config_of(servers, call_timeout=1), config_of(servers, call_timeout=2))
    assert (plan.changed, plan.untouched) == (("follows",), ("has its own",))


def test_the_largest_message_reaches_every_server_that_runs():
    servers = {"on": entry(), "off": {**entry(), "disabled": True}}
    plan = plan_reload(config_of(servers), config_of(servers, max_message_bytes=2048))
    assert (plan.changed, plan.untouched) == (("on",), ("off",))
    assert plan.settings == ("max_message_bytes",)


def test_another_budget_for_results_restarts_nothing():
    servers = {"follows": entry(), "has its own": entry(settings={"result_token_budget": 5})}
    old, new = config_of(servers, result_token_budget=1), config_of(servers, result_token_budget=2)
    assert plan_reload(old, new) == ReloadPlan(
        untouched=("follows", "has its own"), settings=("result_token_budget",)
    )


def test_showing_tools_in_another_way_restarts_nothing():
    old = config_of({"s": entry(), "own": entry(settings={"pinned": ["a"]})})
    new = config_of({"s": entry(), "own": entry(settings={"pinned": ["b"]})}, expose="all")
    assert plan_reload(old, new) == ReloadPlan(untouched=("s", "own"), settings=("expose", "pinned"))


def test_another_rate_of_calls_restarts_nothing_and_other_limits_of_processes_do():
    servers = {"s": entry(), "own": entry(settings={"limits": {"open_files": 99}})}
    old = config_of(servers, limits={"calls_per_minute": 5, "open_files": 90})
    rate = config_of(servers, limits={"calls_per_minute": 6, "open_files": 90})
    assert plan_reload(old, rate) == ReloadPlan(untouched=("s", "own"), settings=("limits",))
    files = config_of(servers, limits={"calls_per_minute": 5, "open_files": 91})
    assert plan_reload(old, files).changed == ("s",)


def test_settings_are_in_force_at_once_or_named_for_as_long_as_they_are_not():
    old = config_of({"s": entry()})
    http = HttpGateway(port=9, allowed_hosts=("h",))
    new = replace(old, catalog_token_budget=9, http=http, shutdown_grace=1.0)
    plan = plan_reload(old, new)
    assert plan.settings == ("catalog_token_budget",)
    assert plan.needs_restart == ("shutdown_grace", "http.port", "http.allowed_hosts")
    effective = effective_config(old, new)
    assert (effective.catalog_token_budget, effective.http, effective.shutdown_grace) == (
        9,
        old.http,
        old.shutdown_grace,
    )
    again = plan_reload(effective, new)
    assert (again.settings, again.needs_restart) == ((), plan.needs_restart)

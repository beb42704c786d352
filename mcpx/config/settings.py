"""The one table of settings: key, rule, meaning, and the struct field each of them fills.

Owns what can be set and what it means to a reader. `read_*` fill the structs from it, `mcpx.config.schema`
prints it, and misspellings are guessed from it; none of them knows a setting of its own. The defaults are
those of `mcpx.config.model`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from mcpx.config.document import Members, members
from mcpx.config.model import Config, HealthCheck, HttpGateway, Limits, PerServer, RestartPolicy
from mcpx.config.place import Place
from mcpx.config.values import Check, Choice, Flag, Seconds, Text, Texts, Whole

S = TypeVar("S", bound=msgspec.Struct)

_MANY: Final = 1_000_000
_GIB: Final = 1024**3


class Setting(msgspec.Struct, frozen=True):
    """One setting: the key in the file, the field it fills, its rule, and its meaning."""

    key: str
    field: str
    check: Check
    text: str


class Group(msgspec.Struct, frozen=True):
    """Settings that fill one struct; `under` is the key of the object that holds them, if one does."""

    struct: type[msgspec.Struct]
    settings: tuple[Setting, ...]
    under: str | None = None
    text: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that this group adds to its level."""
        return (self.under,) if self.under else tuple(setting.key for setting in self.settings)

    def default(self, setting: Setting) -> Any:
        """The default of a setting: that of the struct's field."""
        return next(f.default for f in msgspec.structs.fields(self.struct) if f.name == setting.field)


def _same(key: str, check: Check, text: str) -> Setting:
    return Setting(key, key, check, text)


_COUNT: Final = Whole(1, _MANY)

LIMITS: Final = Group(
    Limits,
    (
        _same(
            "connect_timeout",
            Seconds(),
            "Seconds for a server to start, shake hands and list what it offers.",
        ),
        _same(
            "call_timeout",
            Seconds(),
            "Seconds without an answer or a sign of progress after which a call fails.",
        ),
        _same("queue_timeout", Seconds(), "Seconds a call waits for a server that is not ready."),
        _same("queue_size", _COUNT, "Calls that may wait for one server; one more fails at once."),
        _same("max_concurrency", _COUNT, "Calls in flight to one server at a time."),
    ),
)

HEALTH: Final = Group(
    HealthCheck,
    (
        Setting("health_check_enabled", "enabled", Flag(), "Whether idle sessions are probed."),
        Setting(
            "health_check_interval", "interval", Seconds(), "Seconds between two probes of an idle session."
        ),
        Setting(
            "health_check_timeout", "timeout", Seconds(), "Seconds after which a probe counts as missed."
        ),
        Setting(
            "health_check_failure_threshold",
            "failure_threshold",
            _COUNT,
            "Probes missed in a row after which the server is started again.",
        ),
    ),
)

RESTART: Final = Group(
    RestartPolicy,
    (
        _same("initial", Seconds(), "Seconds before the second attempt; doubled for each one after it."),
        _same("cap", Seconds(), "The longest pause between two attempts, in seconds."),
        _same("healthy_after", Seconds(), "Seconds of uptime after which earlier failures are forgotten."),
        _same(
            "park_after", _COUNT, "Failures in a row after which the server is parked: calls fail at once."
        ),
        _same("park_probe", Seconds(), "Seconds between two attempts while parked."),
    ),
    under="restart",
    text="How a server that failed is started again. Each key can be given alone.",
)

DESCRIBE: Final = Group(
    PerServer,
    (
        _same(
            "auto_describe",
            Flag(),
            "Whether a text resource without a description gets the beginning of its content as one.",
        ),
        _same(
            "sessions",
            Choice(("shared", "per_client")),
            "shared: all clients use one session with the server. per_client: each client gets its own"
            " process or connection at its first call, and it ends when the client leaves.",
        ),
        _same(
            "native",
            Flag(),
            "Whether resources and prompts are offered as the protocol has them, beside the three tools.",
        ),
    ),
)

GATEWAY: Final = Group(
    HttpGateway,
    (
        _same("host", Text(filled=True), "Address to listen on; loopback unless you know better."),
        _same("port", Whole(0, 65535), "Port to listen on; 0 takes any free one."),
        _same(
            "allowed_hosts",
            Texts(Text(filled=True)),
            "Values of the Host header to accept beside its own address.",
        ),
        _same(
            "allowed_origins",
            Texts(Text(filled=True)),
            "Values of the Origin header to accept, for browsers.",
        ),
    ),
    under="http",
    text="The HTTP side of MCPX. Where this object stands, even empty, the daemon serves HTTP as well.",
)

GENERAL: Final = Group(
    Config,
    (
        _same(
            "schema_compression_enabled",
            Flag(),
            "Show input schemas as TypeScript types; false shows JSON Schema.",
        ),
        _same(
            "max_description_len", _COUNT, "Characters of a parameter's description in the TypeScript form."
        ),
        _same("toon_compression_enabled", Flag(), "Show JSON results as TOON where that is shorter."),
        _same(
            "toon_compression_min_size",
            Whole(0, _GIB),
            "Results of fewer characters than this go through as they came.",
        ),
        _same(
            "toon_compression_max_size",
            Whole(0, _GIB),
            "Results of more bytes than this go through as they came, and have no structuredContent but the"
            " server's own: reading them would hold up the others.",
        ),
        _same(
            "catalog_token_budget",
            _COUNT,
            "Tokens that the list of servers and tools may take in a description.",
        ),
        _same(
            "include_structured_content",
            Choice(("auto", "always", "never")),
            "Whether results carry structuredContent. auto: except for clients that show it to the model in"
            " place of the content, which would undo the saving.",
        ),
        _same(
            "startup_wait",
            Seconds(),
            "Seconds to wait for the servers before the first list of tools is given.",
        ),
        _same("shutdown_grace", Seconds(), "Seconds that calls in flight may take to finish at shutdown."),
        _same("max_starting", _COUNT, "Servers that start at the same time."),
        _same("max_message_bytes", Whole(1024, _GIB), "Bytes of the largest message accepted from a server."),
    ),
)

FOR_EACH_SERVER: Final = (LIMITS, HEALTH, DESCRIBE, RESTART)
TOP_LEVEL: Final = (GENERAL, *FOR_EACH_SERVER, GATEWAY)


def keys(groups: tuple[Group, ...]) -> tuple[str, ...]:
    """The keys that these groups add to their level."""
    return tuple(key for group in groups for key in group.keys)


def read_values(document: Members, group: Group, at: Place) -> dict[str, Any]:
    """The values given for a group, by field name; empty where none is given.

    Raises:
        ConfigError: a value breaks its setting's rule.
    """
    if group.under is not None:
        if group.under not in document:
            return {}
        at = at.key(group.under)
        document = members(document[group.under], at)
    given = [setting for setting in group.settings if setting.key in document]
    return {
        setting.field: setting.check.read(document[setting.key], at.key(setting.key)) for setting in given
    }


def nested_groups(
    document: Members, groups: tuple[Group, ...], at: Place
) -> Iterator[tuple[Members, Place, tuple[str, ...]]]:
    """The objects inside this level that hold settings: each with its place and the keys known in it."""
    for group in groups:
        if group.under is not None and group.under in document:
            inside = at.key(group.under)
            yield members(document[group.under], inside), inside, tuple(each.key for each in group.settings)


def read_group(document: Members, group: Group, base: S, at: Place) -> S:
    """`base` with what the document says of this group; raises like `read_values`."""
    return msgspec.structs.replace(base, **read_values(document, group, at))


def read_per_server(document: Members, base: PerServer, at: Place) -> PerServer:
    """`base` with what this level says for servers; raises like `read_values`."""
    return PerServer(
        limits=read_group(document, LIMITS, base.limits, at),
        health=read_group(document, HEALTH, base.health, at),
        restart=read_group(document, RESTART, base.restart, at),
        **(
            {"auto_describe": base.auto_describe, "sessions": base.sessions, "native": base.native}
            | read_values(document, DESCRIBE, at)
        ),
    )

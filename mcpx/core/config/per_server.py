"""The settings that can be given for all servers and, again, for one; and the types that settings have.

Shapes, bounds, defaults and meanings; `mcpx.core.config.model` has the rest of the configuration, and what
follows from the rules of trust `mcpx.core.policy` says. An unknown key in a rule is an error: a slip must not
allow more than was meant. Durations are seconds.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mcpx.core.running.inherited import Inherit
from mcpx.core.system.endpoint import Expose

NonEmpty = Annotated[str, Meta(min_length=1)]
Patterns = tuple[NonEmpty, ...]
"""Names, or patterns of names with `*`, `?` and `[...]`."""
Approve = Literal["off", "writes"]
Pin = Literal["off", "warn", "block"]
Audit = Literal["off", "on", "full"]
FitImages = Literal["auto", "never"]
MAX_AMOUNT: Final = 1_000_000_000
Amount = Annotated[float, Meta(ge=0, le=MAX_AMOUNT)]
YEAR_S: Final = 31_536_000
"""The longest duration: a longer one is a slip, and timers need a bound."""
MAX_RESULT_TOKENS: Final = 1_000_000
Seconds = Annotated[float, Meta(gt=0, le=YEAR_S)]
SecondsOrNever = Annotated[float, Meta(ge=0, le=YEAR_S)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Sessions = Literal["shared", "per_client", "per_project"]
Era = Literal["handshake", "modern"]
"""Of the protocol: with `initialize` (up to 2025-11-25), or with `server/discover` (from 2026-07-28 on)."""
FLAT: Final = frozenset({"call_limits", "health"})
"""Fields whose settings stand in the file beside the others; other structs are objects of their own there."""


def doc(meaning: str) -> Meta:
    """The meaning of a setting, for the JSON Schema and the documentation."""
    return Meta(description=meaning)


class AccessRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the resources or prompts of a server there are. `deny` wins; `allow` None: all."""

    allow: Annotated[
        Patterns | None, doc("Patterns of what clients may see; without it, everything that is not denied.")
    ] = None
    deny: Annotated[Patterns, doc("Patterns of what clients may not see, even if it is allowed.")] = ()

    def patterns(self) -> Patterns:
        """All of its patterns."""
        return tuple(each for field in self.__struct_fields__ for each in getattr(self, field) or ())


R = TypeVar("R", bound=AccessRules)


class ToolRules(AccessRules, frozen=True, kw_only=True):
    """Which tools of a server there are, and which of them a person is asked about first."""

    ask: Annotated[
        Patterns, doc("Patterns of the tools that run only once you have agreed; they count as allowed.")
    ] = ()


def joined(own: R, common: R) -> R:
    """The rules of one server with those for all: what is denied or asked by either, the own `allow`.

    What is asked counts as allowed, beside an `allow` of the same place: to ask about all tools of all
    servers adds none to what one server allows. `own` is `common` with what differs.
    """
    lists = [field for field in own.__struct_fields__ if field != "allow"]
    both: dict[str, Patterns] = {field: (*getattr(common, field), *getattr(own, field)) for field in lists}
    if own.allow is not None:
        own_ask = () if _ask(own) is _ask(common) else _ask(own)
        counted = (*_ask(common), *own_ask) if own.allow is common.allow else own_ask
        both["allow"] = (*own.allow, *counted)
    return replace(own, **{field: tuple(dict.fromkeys(patterns)) for field, patterns in both.items()})


def _ask(rules: AccessRules) -> Patterns:
    return rules.ask if isinstance(rules, ToolRules) else ()


class Hints(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Annotations of a tool that you know better than its server. None: as the server says."""

    read_only_hint: Annotated[bool | None, doc("Whether the tool changes nothing.")] = None
    destructive_hint: Annotated[bool | None, doc("Whether it may delete or overwrite.")] = None
    idempotent_hint: Annotated[bool | None, doc("Whether calling it twice does what one call does.")] = None
    open_world_hint: Annotated[bool | None, doc("Whether it reaches beyond the server's own data.")] = None


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of each process of one server. None: as much as it wants."""

    nice: Annotated[
        Annotated[int, Meta(ge=0, le=19)] | None, doc("Niceness of its processes: 19 is the lowest priority.")
    ] = None
    address_space: Annotated[
        Annotated[int, Meta(ge=1 << 20, le=1 << 50)] | None,
        doc("Bytes of address space of each of its processes (RLIMIT_AS)."),
    ] = None
    open_files: Annotated[
        Annotated[int, Meta(ge=16, le=1_000_000)] | None,
        doc("Files that each of its processes may have open (RLIMIT_NOFILE)."),
    ] = None


class Quota(ProcessLimits, frozen=True, kw_only=True):
    """Limits of one server. None: as much as it wants."""

    calls_per_minute: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        doc(
            "Client requests to the server per minute. One more is refused as overloaded, without being sent."
        ),
    ] = None
    memory: Annotated[
        Annotated[int, Meta(ge=1 << 20, le=1 << 50)] | None,
        doc(
            "Bytes of memory for the server's process and everything it has started. Above this, the server"
            " is restarted when no call is in flight; above twice as much, at once."
        ),
    ] = None

    @property
    def of_processes(self) -> ProcessLimits:
        """The limits of its processes alone."""
        return ProcessLimits(**{field: getattr(self, field) for field in ProcessLimits.__struct_fields__})


# --- place


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The demands of a server on the node that it runs on. A slip must not send it to any node."""

    resources: Annotated[
        dict[NonEmpty, Amount],
        doc('Amounts of a node\'s resources that it takes, by the names that Ray has for them: {"gpu": 1}.'),
    ] = {}
    node: Annotated[
        NonEmpty | None,
        doc("The node that it must run on: its name, id or host, or a label that it must have (key=value)."),
    ] = None
    spread: Annotated[
        bool, doc("Whether it is kept apart from other servers with this setting, if there are enough nodes.")
    ] = False


# --- the settings


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The restarts of a server that failed."""

    initial: Annotated[Seconds, doc("Seconds before the second attempt; doubled for each one after it.")] = (
        0.5
    )
    cap: Annotated[Seconds, doc("The longest pause between two attempts, in seconds.")] = 60.0
    healthy_after: Annotated[
        Seconds, doc("Seconds of uptime after which earlier failures are forgotten.")
    ] = 30.0
    park_after: Annotated[
        Count, doc("Failures in a row after which the server is parked: calls fail at once.")
    ] = 8
    park_probe: Annotated[Seconds, doc("Seconds between two attempts while parked.")] = 300.0


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True, rename=lambda name: f"health_check_{name}"):
    """The probes of an idle session."""

    enabled: Annotated[bool, doc("Whether idle sessions are probed.")] = True
    interval: Annotated[Seconds, doc("Seconds between two probes of an idle session.")] = 30.0
    timeout: Annotated[Seconds, doc("Seconds after which a probe counts as missed.")] = 5.0
    failure_threshold: Annotated[
        Count, doc("Probes missed in a row after which the server is restarted.")
    ] = 2


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the calls to one server: seconds to wait, calls to hold and to have in flight."""

    connect_timeout: Annotated[
        Seconds, doc("Seconds for a server to start, complete the handshake and list its tools.")
    ] = 60.0
    first_start_timeout: Annotated[
        Seconds,
        doc(
            "Seconds that the first start of a command may take (npx and uvx download first), as long as it"
            " writes to standard error, uses processor time, or grows. After connect_timeout without any of"
            " these, the start has failed."
        ),
    ] = 600.0
    call_timeout: Annotated[
        Seconds, doc("Seconds without an answer or a sign of progress after which a call fails.")
    ] = 300.0
    silence_probe: Annotated[
        SecondsOrNever,
        doc(
            "Seconds of silence from a server over HTTP, while a call is in flight, after which it is"
            " probed on another connection; if it cannot be reached, the call fails. 0: never."
        ),
    ] = 15.0
    queue_timeout: Annotated[Seconds, doc("Seconds a call waits for a server that is not ready.")] = 15.0
    queue_size: Annotated[Count, doc("Calls that may wait for one server; one more fails at once.")] = 256
    max_concurrency: Annotated[Count, doc("Calls in flight to one server at a time.")] = 64


class PerServer(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that can be given for all servers and, again, for one."""

    call_limits: CallLimits = CallLimits()
    health: HealthCheck = HealthCheck()
    auto_describe: Annotated[
        bool, doc("Whether a text resource without a description gets the beginning of its content as one.")
    ] = True
    sessions: Annotated[
        Sessions,
        doc(
            "shared: all clients use one session with the server. per_client: each client gets its own"
            " process or connection at its first call, which ends when the client leaves, or over HTTP"
            " without sessions, when it is idle. per_project: each project gets its own, shared by all"
            " clients in it; this is the default for an entry that names ${project}."
        ),
    ] = "shared"
    era: Annotated[
        Literal["auto", Era],
        doc(
            "The era of the protocol that MCPX uses with the server. handshake: with initialize, up to"
            " 2025-11-25. modern: 2026-07-28. auto: whichever the server speaks; if it speaks both,"
            " handshake over stdio, and each client's own era over HTTP."
        ),
    ] = "auto"
    start: Annotated[
        Literal["auto", "eager", "on_demand"],
        doc(
            "When the server is started. eager: with MCPX. on_demand: when it is needed; MCPX remembers its"
            " tools, and if it does not know them yet, starts the server once to list them. auto: on demand"
            " if its tools were listed within the last remembered_for seconds, otherwise with MCPX."
        ),
    ] = "auto"
    remembered_for: Annotated[
        Seconds,
        doc("Seconds for which start: auto relies on the remembered tools, without listing them again."),
    ] = 86_400.0
    inherit: Annotated[
        Inherit,
        doc(
            "Variables of the environment that a server gets in addition to the usual ones: names, or"
            ' patterns of names, such as GITHUB_HOST or MY_*. "all": every one. "none": only HOME, LOGNAME,'
            " PATH, SHELL, TERM and USER. A variable whose name suggests a key must be named in full."
        ),
    ] = ()
    idle_stop: Annotated[
        SecondsOrNever,
        doc(
            "Seconds without use after which the server is stopped until it is needed again; 0 is never."
            " Use it for servers that keep nothing between calls. With sessions: per_project the default is"
            " 900."
        ),
    ] = 0.0
    max_uptime: Annotated[
        SecondsOrNever,
        doc("Seconds after which the server is restarted, when no call is in flight; 0 is never."),
    ] = 0.0
    max_calls: Annotated[
        int,
        Meta(ge=0, le=1_000_000_000),
        doc("Calls after which the server is restarted, when none is in flight; 0 is never."),
    ] = 0
    watch: Annotated[
        Patterns,
        doc(
            "Patterns of files, such as src/** or *.py, below the server's cwd, or without one below the"
            " folder of the configuration. When one of them changes, the server is restarted; calls wait."
        ),
    ] = ()
    timeouts: Annotated[
        dict[NonEmpty, Seconds],
        doc(
            'By patterns of tools, seconds instead of call_timeout: {"deploy_*": 1800}. The first matching'
            " pattern counts."
        ),
    ] = {}
    cache: Annotated[
        dict[NonEmpty, SecondsOrNever],
        doc(
            "By patterns of read-only tools, the seconds for which a result is kept and answers the same"
            ' call again: {"get_*": 300}. The first matching pattern counts; 0 is never. Without patterns'
            " nothing is kept."
        ),
    ] = {}
    native: Annotated[
        bool, doc("Whether resources and prompts are also offered through the protocol's own methods.")
    ] = True
    expose: Annotated[
        Expose,
        doc(
            "How tools are shown. three: through the three tools of MCPX. all: each under its own name,"
            " server__tool. both: in both ways. A client may choose (mcpx attach --expose)."
        ),
    ] = "three"
    pinned: Annotated[
        tuple[NonEmpty, ...],
        doc(
            "Tools shown under their own names in addition: patterns of server.tool, such as git.git_status"
            " or search.*; in a server's own entry its name may be left out."
        ),
    ] = ()
    result_token_budget: Annotated[
        int,
        Meta(ge=0, le=MAX_RESULT_TOKENS),
        doc(
            "Tokens (estimated) that a result may take for a model. A larger result is cut at whole rows or"
            " lines, and the rest is kept for an hour under the address at the end of the result. 0 turns it"
            " off."
        ),
    ] = 8000
    fit_images: Annotated[
        FitImages,
        doc(
            "Whether images in results that are over 2,000 pixels on a side, or over the client's limit,"
            " are scaled (auto), or passed unchanged (never). The original is kept for an hour, and the"
            " result says where."
        ),
    ] = "auto"
    restart: Annotated[RestartPolicy, doc("How a server that failed is restarted. Each key is optional.")] = (
        RestartPolicy()
    )
    tools: Annotated[
        ToolRules,
        doc(
            "Which tools exist for clients, by patterns of their names or of server.tool. A server's own"
            " allow replaces this one; deny and ask of both apply."
        ),
    ] = ToolRules()
    resources: Annotated[
        AccessRules, doc("Which resources exist for clients, by patterns of their URIs; as for tools.")
    ] = AccessRules()
    prompts: Annotated[
        AccessRules, doc("Which prompts exist for clients, by patterns of their names; as for tools.")
    ] = AccessRules()
    approve: Annotated[
        Approve,
        doc(
            "writes: MCPX asks you before any tool that is not read-only. off: only before the tools in ask."
        ),
    ] = "off"
    annotations: Annotated[
        dict[NonEmpty, Hints], doc("By patterns of tools, annotations that replace the server's.")
    ] = {}
    trust_annotations: Annotated[
        bool, doc("false: the server's annotations are not trusted, and every tool counts as writing.")
    ] = True
    pin: Annotated[
        Pin,
        doc(
            "What happens when a tool or the instructions differ from when they were first seen. warn: the"
            " change is named in the log, by status and by inspect. block: the old form stays listed, and a"
            " changed or new tool cannot run until mcpx approve. off: nothing."
        ),
    ] = "warn"
    quarantine: Annotated[
        bool, doc("Whether a new server and all its tools are held until mcpx approve.")
    ] = False
    place: Annotated[
        Place | bool,
        doc(
            "In a cluster (mcpx cluster), where a server that is a command runs. false: at the gateway,"
            " like servers with a url."
        ),
    ] = Place()
    quota: Annotated[Quota, doc("What a server may use.")] = msgspec.field(default=Quota(), name="limits")

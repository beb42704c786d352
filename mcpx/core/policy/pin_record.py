"""The record of one server: the forms of its tools that are approved, and those that wait. Pure.

Skills are pinned beside the tools, by the URI of their `SKILL.md`; a tool of such a name goes before it.
A `PinRecord` is what stands in a file (`mcpx.core.policy.pin_files`) and is replaced whole. The functions
make the next one out of the last; they are applied to what a process knows, and again to what is on the disk,
because several processes may share the record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from mcpx.core.catalog.model import JSON, Catalogue, SkillInfo, ToolInfo, present
from mcpx.core.config import Http, Placed, Redactor, ServerConfig, Sse, redactor_of
from mcpx.core.text import encodable
from mcpx.paths import configuration_key

State = Literal["unseen", "held", "succeeding", "pinned"]
"""`held`: seen for the first time while new servers were held, and not approved since. `succeeding`: not seen
yet, and begun with the record of the server that its entry started before."""
MAX_DEFINITION_BYTES: Final = 256 << 10  # that are kept of one form; of a larger one the digest alone
_CLAIMS: Final = ("readOnlyHint", "destructiveHint")


Pinned = ToolInfo | SkillInfo


class Pin(msgspec.Struct, frozen=True):
    """One form of a tool or skill. `digest` is the SHA-256 of its members as deterministic JSON.

    That is the `definition`. Of a form that is too large to be kept, it is the name alone.
    """

    digest: str
    definition: msgspec.Raw

    def to_dict(self) -> JSON:
        """The members: `{name, title?, description?, inputSchema, outputSchema?, annotations?}`.

        Of a skill `{name, frontmatter, resources}`, where the name is its URI.
        """
        members: JSON = msgspec.json.decode(self.definition)
        return members

    def to_tool(self, server: str) -> ToolInfo | None:
        """The tool as it was then; None where that was not kept."""
        its = self.to_dict()
        if "inputSchema" not in its:
            return None
        return ToolInfo(
            server_name=server,
            name=its["name"],
            input_schema=its["inputSchema"],
            title=its.get("title"),
            description=its.get("description"),
            output_schema=its.get("outputSchema"),
            annotations=its.get("annotations"),
        )

    def to_skill(self, server: str) -> SkillInfo | None:
        """The skill as it was then; None where that was not kept."""
        its = self.to_dict()
        if "frontmatter" not in its:
            return None
        return SkillInfo(
            server_name=server, uri=its["name"], frontmatter=its["frontmatter"], resources=its["resources"]
        )


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A server's own words about itself."""

    name: str | None = None
    title: str | None = None
    instructions: str | None = None

    def to_dict(self) -> JSON:
        """The members that there are."""
        return present(name=self.name, title=self.title, instructions=self.instructions)

    @property
    def digest(self) -> str:
        """The SHA-256 of what it says."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class PinRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The pins of one server. `always` has the digests of the forms that run without asking, by tool."""

    server: str
    started_by: str
    """The command line or the URL, without secrets."""
    formerly: str = ""
    """The same of the server whose record this one began with."""
    state: State = "unseen"
    about: About = About()
    tools: dict[str, Pin] = {}
    always: dict[str, str] = {}
    waiting: dict[str, Pin] = {}
    """Tools that have changed since, or are new, as they are now."""
    skills_seen: bool = False
    """Whether it is known which skills there were: versions that did not look for any have left no pins."""
    waiting_about: About | None = None


Edit = Callable[[PinRecord], PinRecord]
"""Makes the next record; must be pure. Of a server of which there is none it gets an empty one."""


def started_by(server: ServerConfig) -> list[str]:
    """List what the entry starts or reaches: its command and arguments, or its URL, without secrets."""
    transport, redact = server.transport, redactor_of(server)
    # where it runs does not change what it is
    program = transport.stdio if isinstance(transport, Placed) else transport.program
    words = [] if program is None else [program.command, *program.args]
    if isinstance(transport, Http | Sse):
        words.append(transport.url)
    return [redact(word) for word in words]


def pin_identity(server: ServerConfig) -> str:
    """A digest of the server's name and of what its entry starts; the file of its pins has that name.

    Neither the environment counts nor the version of a program nor where the configuration is.
    """
    kind = "stdio" if isinstance(server.transport, Placed) else server.transport.kind
    known = [server.name, kind, *started_by(server)]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()  # ASCII: words may be no UTF-8


def empty_record(server: ServerConfig) -> PinRecord:
    """The record of a server that was never seen."""
    return PinRecord(server=server.name, started_by=" ".join(started_by(server)))


def successor(former: PinRecord, empty: PinRecord) -> PinRecord:
    """The record of a server that the same entry starts now; what was agreed to for good ends."""
    return replace(
        empty,
        state="succeeding",
        formerly=former.started_by,
        about=former.about,
        tools=former.tools,
        skills_seen=former.skills_seen,
    )


def entry_key(server: ServerConfig) -> str:
    """The server's entry: its name, in its configuration file; empty where that is no file."""
    return f"{configuration_key(server.source)} {server.name}" if os.path.isfile(server.source) else ""


def entries_of(catalogue: Catalogue) -> dict[str, Pinned]:
    """Return what is pinned of a catalogue, by the names of the pins."""
    return {**{skill.uri: skill for skill in catalogue.skills}, **catalogue.tools}


def pin_of(entry: Pinned, redact: Redactor) -> Pin:
    """The pin of a tool or skill as the server gave it. A secret that it quotes is in there by its name."""
    members = _members(entry)
    written = _canonical(members, redact)
    kept = written
    if len(written) > MAX_DEFINITION_BYTES:
        kept = _canonical({"name": members["name"]}, redact)
    return Pin(hashlib.sha256(written).hexdigest(), msgspec.Raw(kept))


def _members(entry: Pinned) -> JSON:
    if isinstance(entry, SkillInfo):
        return {"name": entry.uri, "frontmatter": entry.frontmatter, "resources": entry.resources}
    return present(
        name=entry.name,
        title=entry.title,
        description=entry.description,
        inputSchema=entry.input_schema,
        outputSchema=entry.output_schema,
        annotations=entry.annotations,
    )


def about_of(catalogue: Catalogue, redact: Redactor) -> About:
    """Read a server's words about itself from its catalogue."""
    said = (catalogue.implementation, catalogue.server_title, catalogue.instructions)
    name, title, instructions = (None if text is None else redact(encodable(text)) for text in said)
    return About(name=name, title=title, instructions=instructions)


def _canonical(value: JSON, redact: Redactor) -> bytes:
    """The value as JSON whose bytes depend on nothing else, without secrets."""
    try:
        written = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:  # half a character, as some servers cut their texts
        value = _mapped(value, encodable)
        written = msgspec.json.encode(value, order="deterministic")
    text = written.decode()
    if redact(text) == text:
        return written
    return msgspec.json.encode(_mapped(value, redact), order="deterministic")


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): _mapped(item, change) for name, item in value.items()}
    return value


def claims_read_only(annotations: JSON | None) -> bool:
    """Return True if a tool says of itself that it changes nothing."""
    reads, destroys = ((annotations or {}).get(name) for name in _CLAIMS)
    return reads is True and destroys is not True


# --- what makes the next record


def noted(
    record: PinRecord,
    tools: Mapping[str, Pinned],
    about: About,
    *,
    pin: Callable[[Any], Pin],
    hold: bool,
    whole: bool = True,
    skills: bool = False,
) -> PinRecord:
    """The record when the server has listed these tools, and with `skills` its skills among them.

    What is seen for the first time is pinned, or waits if new servers are on `hold`. Afterwards what differs
    waits. A listing that is not `whole` (of another session) does not say which tools there are no more.
    """
    if skills and not record.skills_seen:
        record = replace(record, skills_seen=True)
        if record.state == "pinned":
            seen = {name: pin(each) for name, each in tools.items() if isinstance(each, SkillInfo)}
            record = replace(record, tools=seen | record.tools)
    if record.state == "unseen":
        seen = {name: pin(tool) for name, tool in tools.items()}
        if hold:
            return replace(record, state="held", waiting=seen, waiting_about=about)
        return replace(record, state="pinned", tools=seen, about=about, waiting={}, waiting_about=None)
    if record.state == "succeeding":
        record = replace(record, state="pinned")
    waiting = {} if whole else dict(record.waiting)
    for name, tool in tools.items():
        now, approved = pin(tool), record.tools.get(name)
        if approved is not None and approved.digest == now.digest:
            waiting.pop(name, None)
        else:
            waiting[name] = now
    is_known = record.state == "pinned" and about == record.about
    return replace(record, waiting=waiting, waiting_about=None if is_known else about)


def approved(
    record: PinRecord, forms: Mapping[str, str], *, about: str | None = None, always: Collection[str] = ()
) -> PinRecord:
    """The record when forms that wait are approved, by tool and digest; what has changed since still waits.

    `about` is the digest of what the server says of itself, if that is approved: then it is held no more.
    The tools of `always` run without asking from now on, in those forms.
    """
    agreed = {name: pin for name, pin in record.waiting.items() if forms.get(name) == pin.digest}
    record = replace(
        record,
        tools=record.tools | agreed,
        waiting={name: pin for name, pin in record.waiting.items() if name not in agreed},
        always=record.always | {name: forms[name] for name in always},
    )
    now = record.waiting_about
    if now is None or now.digest != about:
        return record
    return replace(record, state="pinned", about=now, waiting_about=None)

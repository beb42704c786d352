"""The pins of one server: what its tools were when they were approved, and what follows from a change.

`ServerPins` belongs to the server's `ServerPolicy`, which asks it for the form of each tool that is listed
and whether a tool may run. The server's sessions tell it of each listing (`note`). It decides in memory, at
once; what is to be kept it gives to `keep`, which writes it down later (`mcpx.core.policy.pin_store`). With
`pin: "off"` and without `quarantine` it compares nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar, cast

import structlog
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, SkillInfo, ToolInfo
from mcpx.core.catalog.uris import readings
from mcpx.core.config import ServerConfig, redactor_of
from mcpx.core.policy.pin_changes import Change, ChangeLog, changes_of
from mcpx.core.policy.pin_record import (
    About,
    Edit,
    Pin,
    Pinned,
    PinRecord,
    about_of,
    approved,
    claims_read_only,
    empty_record,
    entries_of,
    noted,
    pin_of,
)
from mcpx.errors import CallError, Code
from mcpx.paths import config_hint


def approve_command(config: ServerConfig, *tool: str) -> str:
    """The command that approves what waits of the server, or of one tool."""
    words = map(shlex.quote, ("mcpx", "approve", config.name, *tool))
    return " ".join(words) + (config_hint(config.source) if config.source else "")


def refused(config: ServerConfig, name: str, why: str, *, whole: bool) -> CallError:
    """Nothing was sent because of a tool, or of the `whole` server."""
    server, command = config.name, approve_command(config, *([] if whole else [name]))
    text = f"{server}.{name} is not run: {why}; nothing was sent. Tell the user: {command} shows the change"
    details = {"rule": f"pin: {config.pin}", "approve": command}
    return CallError(Code.NOT_APPROVED, text, server=server, tool=name, details=details)


P = TypeVar("P", ToolInfo, SkillInfo)
log = structlog.get_logger()
REMOVED: Final = "all pins, and the key to them, were removed"
_NOT_SEEN: Final = ("unseen", "succeeding")


class ServerPins:
    """The pins of one server. `revision` grows whenever the answers of the methods may have changed.

    `record` is what was kept of it, None if it was never seen; `problem` is why that cannot be believed.
    """

    def __init__(
        self,
        config: ServerConfig,
        record: PinRecord | None = None,
        problem: str | None = None,
        *,
        keep: Callable[[Edit], None] = lambda _edit: None,
    ) -> None:
        self.revision = 0
        self.record = record or empty_record(config)
        self.problem = problem
        self._keep = keep
        self._listed: dict[str, Pinned] = {}
        self._about: About | None = None
        self._old: dict[str, Pinned | None] = {}  # in their approved forms, where those were kept
        self._change_log = ChangeLog(config.name, self.command)
        self._changes: list[Change] | None = None
        self._awaited = False
        self._config = config
        self._redact = redactor_of(config)
        self._set_mode()

    def configure(self, config: ServerConfig) -> None:
        """Put these settings in force."""
        before, self._config = self._config, config
        if config.transport != before.transport or config.variables.values != before.variables.values:
            self._redact = redactor_of(config)
        if (config.pin, config.quarantine) != (before.pin, before.quarantine):
            self._set_mode()
            self._renew()
            self._compare(whole=True)

    def _set_mode(self) -> None:
        self.blocks = self._config.pin == "block"
        """Whether what has changed is not in force."""
        self._holds = self._config.quarantine
        self.guards = self.blocks or self._holds
        """Whether anything of the server may be held back."""
        self.is_active = self._holds or self._config.pin != "off"
        """Whether anything is compared."""

    def take(self, record: PinRecord | None, problem: str | None) -> bool:
        """Take in what is on the disk now; True if that is something else.

        What is there no more was removed: what is known of it stays known, and is not believed.
        """
        if record is None:
            if problem is None and self.record.state in _NOT_SEEN:
                return False
            record, problem = self.record, problem or REMOVED
        if record == self.record and problem == self.problem:
            return False
        self.record, self.problem = record, problem
        self._renew()
        self._compare(whole=True)
        return True

    def await_others(self, *, awaited: bool) -> bool:
        """Have what is seen first wait, or not, for what other gateways know of it; True if that is new."""
        before, self._awaited = self.awaits_others, awaited
        if self.awaits_others == before:
            return False
        self._renew()
        self._compare(whole=True)
        return True

    @property
    def awaits_others(self) -> bool:
        """True if the server was never seen here, and may have been at another gateway."""
        return self._awaited and self.record.state == "unseen"

    def _renew(self) -> None:
        self.revision += 1
        self._changes = None
        self._old.clear()

    @property
    def holds_all(self) -> bool:
        """True if nothing of the server is in force: it is new and not approved, or its pins are lost."""
        if self.problem is not None or self.awaits_others:
            return self.blocks or self._holds
        return self._holds and self.record.state != "pinned"

    # --- what the server lists

    def note(self, catalogue: Catalogue, *, whole: bool = True) -> None:
        """Take in what the server has listed; `whole`: on its main session, which says what there is."""
        listed = entries_of(catalogue)
        self._listed = listed if whole else self._listed | listed
        self._about = about_of(catalogue, self._redact)
        self._compare(whole=whole, skills=whole or catalogue.serves_skills)

    def recall(self, catalogue: Catalogue) -> None:
        """Take in what is known of the server from last time, until it has listed."""
        if not self._listed:
            self._listed = entries_of(catalogue)

    def note_part(self, tools: Mapping[str, Pinned], said: Catalogue | None, *, skills: bool = False) -> None:
        """Take in tools that the server has listed to one client, or all of its `skills`.

        `said` has what it says of itself there; None where that is not known, and so counts as the same.
        """
        if said is not None:
            self._about = about_of(said, self._redact)
        elif self._about is None and self.record.state != "pinned":
            return  # for a server that was never seen that belongs to the pins
        elif self._about is None:
            self._about = self.record.waiting_about or self.record.about
        if skills and self.record.state == "unseen":
            return  # what it is for a server to be seen are its tools
        self._listed = {**self._listed, **tools}
        self._compare(whole=False, skills=skills)

    def _compare(self, *, whole: bool, skills: bool = False) -> None:
        """Hold what is listed against what is kept. Where that cannot be believed, everything waits."""
        if not self.is_active or self._about is None or self.awaits_others:
            return
        hold, is_first = self._holds or self.problem is not None, self.record.state in _NOT_SEEN
        edit = partial(
            noted, tools=self._listed, about=self._about, pin=self._pin, hold=hold, whole=whole, skills=skills
        )
        record = edit(self.record)
        if record != self.record:
            self.record = record
            self._renew()
            if self.problem is None:
                self._keep(edit)
                if is_first:
                    log.info("pin.first_seen", server=self.name, tools=len(record.tools or record.waiting))
        self._change_log.record(self.changes())

    def _apply(self, edit: Edit) -> None:
        self.record = edit(self.record)
        self._renew()
        self._keep(edit)

    def _pin(self, entry: Pinned) -> Pin:
        pin = pin_of(entry, self._redact)
        entry.__dict__["pin_digest"] = self._redact, pin.digest
        return pin

    def _digest(self, entry: Pinned) -> str:
        """The digest of a tool or skill as the server gave it; kept with it."""
        known = entry.__dict__.get("pin_digest")
        if known is None or known[0] is not self._redact:
            return self._pin(entry).digest
        digest: str = known[1]
        return digest

    # --- what is in force

    def form(self, entry: P) -> P | None:
        """The tool or skill as it is listed: as the server has it, in its approved form, or not at all."""
        if not self.guards:
            return entry
        name = entry.uri if isinstance(entry, SkillInfo) else entry.name
        pin = self.record.tools.get(name)
        if self.problem is not None:
            return None
        if self.record.state == "unseen":
            return None if self.holds_all else entry
        if pin is not None and pin.digest == self._digest(entry):
            return entry
        if self.blocks and pin is not None:
            if name not in self._old:
                make = pin.to_tool if isinstance(entry, ToolInfo) else pin.to_skill
                self._old[name] = make(entry.server_name)
            return cast("P | None", self._old[name])
        return None if self.blocks or self.holds_all else entry

    def is_skill(self, name: str) -> bool:
        """Return True if that is the name of a skill's pin."""
        if name in self._listed:
            return isinstance(self._listed[name], SkillInfo)
        pin = self.record.waiting.get(name) or self.record.tools.get(name)
        return pin is not None and "frontmatter" in pin.to_dict()

    def holds_file(self, uri: str) -> bool:
        """Return True if a URI may be read as that of a file of a skill that has changed, or is new."""
        if not (self.guards and self.record.waiting):
            return False
        folders = [
            name.casefold().removesuffix("/skill.md") for name in self.record.waiting if self.is_skill(name)
        ]
        if not folders:
            return False
        spelled = readings(uri)
        return any(each == folder or each.startswith(f"{folder}/") for folder in folders for each in spelled)

    def shown(self, catalogue: Catalogue) -> Catalogue:
        """The catalogue with what the server says of itself, and its skills, as they were approved.

        Its tools are untouched.
        """
        if self.guards and catalogue.skills and not self.holds_all:
            skills = tuple(form for skill in catalogue.skills if (form := self.form(skill)) is not None)
            listed = catalogue.resources
            resources = {uri: each for uri, each in listed.items() if not self.holds_file(uri)}
            catalogue = replace(
                catalogue,
                skills=catalogue.skills if skills == catalogue.skills else skills,
                resources=listed if len(resources) == len(listed) else resources,
            )
        if self.holds_all:
            nothing = replace(catalogue, resources={}, templates=(), prompts=(), skills=(), left_out=())
            return replace(nothing, server_title=None, instructions=None)
        if not self.blocks or self.record.waiting_about is None:
            return catalogue
        about = self.record.about
        return replace(catalogue, server_title=about.title, instructions=about.instructions)

    def refusal(self, name: str) -> CallError | None:
        """Return the error for a tool that has changed or is new, where that is blocked."""
        if not self.guards:
            return None
        if self.problem is not None:
            return self._refused(name, "the record of what its tools were approved as cannot be believed")
        if self.awaits_others:
            return self._refused(name, "whether it was approved at another gateway is not known yet")
        if name in self.record.waiting:
            if self.blocks and name in self.record.tools:
                return self._refused(name, "it has changed since it was approved")
            if self.blocks or self.holds_all:
                return self._refused(name, "it is new, and was not approved yet")
        if self.blocks and self._is_renamed:
            return self._refused(name, "the server has another name than the one that was approved")
        return None

    @property
    def _is_renamed(self) -> bool:
        now, record = self.record.waiting_about, self.record
        return now is not None and record.state == "pinned" and now.name != record.about.name

    def _refused(self, name: str, why: str) -> CallError:
        whole = self.problem is not None or self.awaits_others or self._is_renamed
        return refused(self._config, name, why, whole=whole)

    def command(self, *tool: str) -> str:
        """The command that approves what waits of the server, or of one tool."""
        return approve_command(self._config, *tool)

    def widened(self, tool: ToolInfo) -> bool:
        """Return True if the tool has changed, and claims to be read-only as its approved form did not."""
        pin = self.record.tools.get(tool.name) if self.is_active else None
        if pin is None or not claims_read_only(tool.annotations):
            return False
        return not claims_read_only(pin.to_dict().get("annotations"))

    # --- what a person has agreed to

    def always(self, tool_name: str) -> bool:
        """Return True if the tool, as it is now, runs without asking."""
        digest = self.record.always.get(tool_name)
        return digest is not None and digest == self.current_digest(tool_name)

    def approve_always(self, tool_name: str) -> None:
        """Have the tool, as it is now, run without asking from now on."""
        digest = self.current_digest(tool_name)
        if digest is not None:
            self._apply(partial(approved, forms={tool_name: digest}, always=(tool_name,)))

    @property
    def name(self) -> str:
        """The server's."""
        return self._config.name

    def names(self) -> list[str]:
        """The tools that are known."""
        return list({**self.record.tools, **self.record.waiting, **self._listed})

    def current_digest(self, tool_name: str) -> str | None:
        """The digest of the tool as the server has it now, or had it last."""
        if tool_name in self._listed:
            return self._digest(self._listed[tool_name])
        pin = self.record.waiting.get(tool_name) or self.record.tools.get(tool_name)
        return None if pin is None else pin.digest

    # --- what waits

    def changes(self) -> list[Change]:
        """List what waits for approval, the worst first: also what is only named."""
        if not self.is_active:
            return []
        if self._changes is None:
            self._changes = changes_of(
                self.record, self.problem, blocks=self.blocks, holds_all=self.holds_all
            )
        return self._changes

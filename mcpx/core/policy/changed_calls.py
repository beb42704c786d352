"""Calls of tools that the configuration has changed, between the form of the client and that of the server.

A call keeps the client's form on its way, so that a person who is asked, the audit log and errors show what
the client gave. `arguments_sent` makes the server's form when it is written. What comes back is given to the
client without what it repeats of fixed arguments (`cleaned`, `without_secrets`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, ToolChange
from mcpx.core.config.projects import in_need_of_project, with_project
from mcpx.core.config.redaction import Redactor
from mcpx.core.config.server_config import Filled
from mcpx.core.config.strings import secrets_filled
from mcpx.core.policy.overrides import filled_in
from mcpx.errors import CallError
from supervisors import Abandoned, Reply

Members = dict[str, msgspec.Raw]
_UNFIT: Final = re.compile(r"[^\w.-]")


def hidden_in(change: ToolChange, given: bytes | msgspec.Raw) -> list[str]:
    """The arguments of a call that its tool does not have for clients."""
    names = msgspec.json.decode(given, type=Members) if change.hidden else ()
    return [name for name in names if name in change.hidden]


def lacks_project(change: ToolChange, project: str) -> bool:
    """Return True if a fixed argument is of the project of a client that is in none."""
    return not project and any(in_need_of_project(each.text) for each in filled_in(change.fixed))


def arguments_sent(change: ToolChange, given: bytes | msgspec.Raw, project: str) -> bytes:
    """The arguments of a call as its server gets them; `project` is that of the client, "" for none."""
    members = msgspec.json.decode(given, type=Members)
    return msgspec.json.encode({**change.defaults, **members, **_in_project(change.fixed, project)})


def _in_project(value: Any, project: str) -> Any:
    match value:
        case Filled(text=text):
            return with_project(text, project)
        case dict():
            return {name: _in_project(each, project) for name, each in value.items()}
        case list():
            return [_in_project(each, project) for each in value]
        case _:
            return value


# --- what comes back


Progress = Callable[[bytes], None] | None


def cleaned(
    change: ToolChange, reply: Reply[msgspec.Raw], project: str, on_progress: Progress = None
) -> tuple[Reply[msgspec.Raw], Progress]:
    """The reply and the progress for the session of a call, without what repeats fixed arguments.

    They are the client's own where nothing is to be kept back.
    """
    clean = _without_fixed(change, project)
    if clean is None:
        return reply, on_progress

    def clean_bytes(given: bytes | msgspec.Raw) -> bytes:
        text = bytes(given).decode(errors="surrogateescape")
        return clean(text).encode(errors="surrogateescape")

    def settled(inner: Reply[msgspec.Raw]) -> None:
        if (error := inner.error) is not None:
            reply.reject(_cleaned_error(error, clean))
        elif inner.value is not None:
            reply.resolve(msgspec.Raw(clean_bytes(inner.value)))

    inner = Reply(settled)

    def abandon() -> bool:
        inner.abandon()
        return isinstance(inner.error, Abandoned) and inner.error.begun

    reply.on_abandon = abandon
    return inner, on_progress and (lambda members: on_progress(clean_bytes(members)))


def _cleaned_error(error: BaseException, clean: Callable[[str], str]) -> BaseException:
    if isinstance(error, CallError):
        error.args = (clean(str(error)),)
        error.details = msgspec.json.decode(clean(msgspec.json.encode(error.details).decode()))
    return error


def without_secrets(said: JSON, fixed: Iterable[JSON]) -> JSON:
    """A message of the server's own accord, without the secrets among arguments that are fixed."""
    secrets = [each for values in fixed for each in secrets_filled(values)]
    shown = Redactor(secrets).data(said) if secrets else said
    return shown if isinstance(shown, dict) else {}


def _without_fixed(change: ToolChange, project: str) -> Callable[[str], str] | None:
    """Takes what a text repeats of fixed arguments out of it; None if nothing is to be kept back.

    Secrets are taken out wherever they are; what is too short to be told from other words, and the project,
    which the client knows and in which results name files, where it is the value of its argument.
    """
    redact = Redactor(secrets_filled(change.fixed))
    echoes = [
        (_echo(name, with_project(value.text, project)), f"***{_UNFIT.sub('_', name)}***")
        for name, value in _named(change.fixed)
    ]
    if not echoes:
        return None

    def clean(text: str) -> str:
        text = redact(text)
        for pattern, shown in echoes:
            text = pattern.sub(rf"\g<1>{shown}", text)
        return text

    return clean


def _named(fixed: JSON) -> Iterator[tuple[str, Filled]]:
    """The strings with references, each with the name of the argument or member that it is the value of."""
    for name, value in fixed.items():
        if isinstance(value, dict):
            yield from _named(value)
        else:
            yield from ((name, each) for each in filled_in(value))


def _echo(name: str, value: str) -> re.Pattern[str]:
    """Finds the value behind the name of its argument: in JSON, in JSON inside a string, and in Python."""
    written = msgspec.json.encode(value).decode()[1:-1]
    forms = sorted({value, written, written.replace("\\", "\\\\")}, key=len, reverse=True)
    quotes = r"\\*[\"']"
    before = rf"{re.escape(name)}(?:{quotes})?\s*[:=]\s*{quotes}"
    return re.compile(rf"({before})(?:{'|'.join(map(re.escape, forms))})(?={quotes})")

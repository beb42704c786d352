"""The questions of servers as they reach a person: named, in clean text, with links that are safe. Pure.

A client shows a question as one of MCPX, because that is whom it is connected to. So the first line says
which server asks, what cannot be seen or moves text is taken out, and what looks like MCPX's own question is
not passed on. What the person answers goes back as it is: so names and choices, which are a part of the
answer, are refused where they would have to be changed.

Presenting a question again changes nothing, since it may pass through here twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final
from unicodedata import normalize

import msgspec

from mcpx.core.catalog.model import JSON
from mcpx.core.config.urls import is_loopback
from mcpx.core.policy.approval_form import ASKED, BECAUSE, CHOICES, DECISION, TITLE
from mcpx.core.text import cut, is_clean, one_line, paragraphs, shown_server
from mcpx.core.wire.envelope import INVALID_PARAMS, MCPError

ELICITATION: Final = "elicitation/create"
URL_REQUIRED: Final = -32042
"""The code of an error by which a client shows links."""
OWN_PREFIX: Final = "mcpx/"
"""The prefix of the names of MCPX's own input requests."""
MAX_NAME_CHARS: Final = 100
MAX_CHARS: Final = 1 << 16  # of a message, and of all texts in a schema
MAX_DEPTH: Final = 32  # of a schema; the protocol's have four levels
_KNOWN: Final = frozenset({"message", "requestedSchema", "mode", "url", "elicitationId", "_meta", "task"})
_ANSWERED: Final = frozenset({"enum", "const", "required", "pattern", "$schema", "format", "type"})
"""What a person answers with, and what is for programs: not to be changed."""
_LINES: Final = frozenset({"description"})
_LINK: Final = re.compile(
    r"(https?)://([A-Z0-9.-]+|\[[0-9A-F:.]+\])(:\d{1,5})?(?:[/?#][!-\[\]-~]*)?", re.ASCII | re.IGNORECASE
)
_ASKS: Final = re.compile(
    r"(?m)^(?!> )(?=[^\n]{0,200}\sasks[^\S\n]*[:\uff1a][^\S\n]*$"
    r"|[^\w\n]*(?:MCPX\b|(?:Server|Tool|Arguments)[^\S\n]*[:\uff1a]))",
    re.IGNORECASE,
)
"""Before a line that says who asks, or looks like one of MCPX's own question."""
_BLANK_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n){2,}")
_LETTERS: Final = re.compile(r"[\W_]+")
_LOOKS_LATIN: Final = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d"
    "\u03b1\u03b2\u03b5\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u0131",
    "abekmhopctyxsijhdqwabeikmvoptyxi",
)
"""Letters of Cyrillic and Greek, in lower case, that are drawn as Latin ones."""


def _letters(text: str) -> str:
    """The letters of a text, as they look."""
    return _LETTERS.sub("", normalize("NFKC", text).casefold().translate(_LOOKS_LATIN))


_RESERVED: Final = tuple(map(_letters, (ASKED, BECAUSE, TITLE)))
_DECISIONS: Final = {
    choice: _letters(name) for name, title in CHOICES.items() for choice in map(_letters, (name, title))
}


def presented(params: JSON, server: str | None, *, from_mcpx: bool = False) -> JSON:
    """The parameters of an elicitation, for a person.

    `server` is who asks, None where another MCPX will say that. `from_mcpx` says that the server is at
    another MCPX, whose own questions come the same way.

    Raises:
        MCPError: It is not passed on; for the server.
    """
    given = params.get("message")
    if not isinstance(given, str):
        raise _refusal("its message is no text")
    schema = params.get("requestedSchema")
    more = {name: value for name, value in params.items() if name not in _KNOWN}
    texts = [*_texts(schema), *_texts(more)]
    if max(len(given), sum(map(len, texts)) + len(texts)) > MAX_CHARS:
        raise _refusal(f"it holds over {MAX_CHARS:,} characters")
    if not from_mcpx:
        _check_reserved((given, *texts), schema)
    message = _BLANK_LINES.sub("\n\n", paragraphs(given))
    changed: JSON = _clean(more)
    if schema is not None:
        changed["requestedSchema"] = _clean(schema)
    link = None
    if "url" in params or params.get("mode") == "url":
        link = f"The link opens {_host(params.get('url'))}."
        if message.rpartition("\n")[2] != link:
            message = f"{message}\n\n{link}".lstrip()
    if server is not None:
        message = _named(message, f"{cut(shown_server(server), MAX_NAME_CHARS)} asks:")
    return params | changed | {"message": message}


def presented_requests(requests: Any, server: str | None, *, from_mcpx: bool) -> Any:
    """The input requests of a result, or of a task, each as `presented`; they may be JSON.

    Raises:
        MCPError: They are no object, or one of them is not passed on.
    """
    if isinstance(requests, msgspec.Raw):
        try:
            requests = msgspec.json.decode(requests)
        except (msgspec.DecodeError, RecursionError):
            raise _refusal("it cannot be read") from None
    if requests is None:
        return None
    if not isinstance(requests, dict):
        raise _refusal("its questions are no object")
    return {key: _presented_request(key, each, server, from_mcpx=from_mcpx) for key, each in requests.items()}


def with_safe_links(data: Any, server: str | None) -> Any:
    """The data of an error by which a client shows links, with those that a person may be given."""
    asked = data.get("elicitations") if isinstance(data, dict) else None
    if asked is None:
        return data
    kept = []
    for each in asked if isinstance(asked, list) else ():
        with suppress(MCPError):
            kept.append(presented(each if isinstance(each, dict) else {}, server))
    return data | {"elicitations": kept}


def _presented_request(key: str, request: Any, server: str | None, *, from_mcpx: bool) -> Any:
    if key.startswith(OWN_PREFIX) and not from_mcpx:
        raise _refusal(f"names of questions that begin with {OWN_PREFIX} are MCPX's own")
    if not isinstance(request, dict) or request.get("method") != ELICITATION:
        return request
    params = request.get("params")
    return request | {
        "params": presented(params if isinstance(params, dict) else {}, server, from_mcpx=from_mcpx)
    }


def _named(message: str, label: str) -> str:
    """The message with its first line; no other line says who asks."""
    first, _, rest = message.partition("\n")
    words = rest if first == label else message
    return f"{label}\n\n{_ASKS.sub('> ', words.lstrip())}"


def _host(url: Any) -> str:
    """The host of a link that a person may be given, with its port."""
    found = _LINK.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        shown = one_line(str(url), MAX_NAME_CHARS)
        raise _refusal(f"its link ({shown}) is no plain https URL: in ASCII, without a user")
    if found[1].lower() == "http" and not is_loopback(found[2]):
        raise _refusal(f"its link to {found[2]} is http, which is for this machine alone; use https")
    return found[2].lower() + (found[3] or "")


def _check_reserved(texts: Iterable[str], schema: Any) -> None:
    """Refuse what a person could take for MCPX's own question."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    for name, field in fields.items() if isinstance(fields, dict) else ():
        chosen = {_DECISIONS.get(_letters(text)) for text in _texts(field)} - {None}
        if len(chosen) > (1 if _letters(name) == DECISION else 2):
            raise _refusal(f"the field {name} with such choices is of MCPX's own question for approval")
    for text in texts:
        plain = _letters(text)
        if any(phrase in plain for phrase in _RESERVED):
            raise _refusal(f"its words are those of MCPX's own question for approval ({ASKED})")


def _texts(value: Any, depth: int = 0) -> list[str]:
    """All texts in a schema, names too."""
    if depth > MAX_DEPTH:
        raise _refusal("its schema is nested too deeply")
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in _texts(each, depth + 1))]
    return [text for each in value for text in _texts(each, depth + 1)] if isinstance(value, list) else []


def _clean(value: Any, key: str = "", depth: int = 0) -> Any:
    """A part of a schema, with clean text."""
    if depth > MAX_DEPTH:
        raise _refusal("its schema is nested too deeply")
    if isinstance(value, dict):
        for name in value:
            _check_clean(name)
        return {name: _clean(each, name, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each, key, depth + 1) for each in value]
    if not isinstance(value, str):
        return value
    if key in _ANSWERED:
        return _check_clean(value)
    return paragraphs(value) if key in _LINES else one_line(value)


def _check_clean(text: str) -> str:
    if not is_clean(text) or "\n" in text:
        raise _refusal(
            f"the name or choice {one_line(text, MAX_NAME_CHARS)} holds characters that cannot be seen"
        )
    return text


def _refusal(why: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"MCPX does not pass this question on: {why}")

"""Catalogue entries and upstream results as the protocol's own lists and reads present them. Pure.

Everything that the upstream gave is there under the protocol's names; only what names a resource or prompt is
put into MCPX's namespace. Titles and descriptions are for people, and lose what would mislead a reader
(`mcpx.core.text`); names and values do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from mcpx.core.catalog.model import JSON, PromptInfo, ResourceInfo, TemplateInfo
from mcpx.core.catalog.naming import offered_prompt, offered_uri
from mcpx.core.rendering.result_members import read_array, read_block, read_object
from mcpx.core.text import is_clean, paragraphs

ListEntry = ResourceInfo | TemplateInfo | PromptInfo
Rename = Callable[[str], str]
"""Gives the name under which the client knows a URI of the server."""


def offered_as(info: ListEntry) -> tuple[str, str]:
    """The member that names the entry in the protocol, and the name under which MCPX offers it."""
    match info:
        case ResourceInfo():
            return "uri", offered_uri(info.server_name, info.uri)
        case TemplateInfo():
            return "uriTemplate", offered_uri(info.server_name, info.uri_template)
        case PromptInfo():
            return "name", offered_prompt(info.server_name, info.name)


def list_entry(info: ListEntry) -> JSON:
    """An entry of `resources/list`, `resources/templates/list` or `prompts/list`."""
    member, name = offered_as(info)
    entry = clean_texts(info.to_protocol()) | {member: name}
    if entry.get("arguments"):
        entry["arguments"] = [clean_texts(argument) for argument in entry["arguments"]]
    return entry


def clean_texts(entry: JSON) -> JSON:
    """The entry with its title and description as they can be shown."""
    return entry | {key: _clean(entry[key]) for key in ("title", "description") if entry.get(key)}


def _clean(text: str) -> str:
    """A title or a description: as it came, unless it would mislead a reader."""
    return text if is_clean(text.replace("\r\n", "\n")) else paragraphs(text)


def contents(read: JSON, rename: Rename) -> JSON:
    """The result of a `resources/read`, each item under the URI that the client knows."""
    return {**read, "contents": [_renamed(item, rename) for item in read["contents"]]}


def messages(got: JSON, rename: Rename) -> JSON:
    """The result of a `prompts/get`; the resources in it can be read under the URIs given."""
    given = got.get("messages")
    if not isinstance(given, list):
        return got
    return {**got, "messages": [_message(message, rename) for message in given]}


def _read_message(raw: msgspec.Raw) -> Any:
    return read_object(raw, {"content": read_block})


PROMPT: Final = {"messages": partial(read_array, read=_read_message)}
"""Reads the result of a `prompts/get` as far as the names of the resources in it."""


def embedded(got: JSON) -> list[Any]:
    """The resources inside the messages of a prompt."""
    given = got.get("messages")
    contents = [message.get("content") for message in _list(given) if isinstance(message, dict)]
    return [
        content.get("resource")
        for content in contents
        if isinstance(content, dict) and content.get("type") == "resource"
    ]


def _message(message: Any, rename: Rename) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, dict):
        return message
    match content.get("type"):
        case "resource_link":
            return {**message, "content": _renamed(content, rename)}
        case "resource":
            return {**message, "content": {**content, "resource": _renamed(content.get("resource"), rename)}}
        case _:
            return message


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _renamed(item: Any, rename: Rename) -> Any:
    if isinstance(item, dict) and isinstance(item.get("uri"), str):
        return {**item, "uri": rename(item["uri"])}
    return item

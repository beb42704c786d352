"""Catalogue entries and upstream answers as the native lists and reads show them: pure.

Everything that the upstream gave is there under the protocol's own names; only what names a resource or
prompt is put into MCPX's namespace. Titles and descriptions, which are there to be read, lose what would harm
a reader (`mcpx.text`); names and values do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcpx.catalog.model import JSON, PromptInfo, ResourceInfo, TemplateInfo, present
from mcpx.catalog.naming import offered_prompt, offered_uri
from mcpx.text import is_clean, paragraphs

Shown = Callable[[str], str]
"""How the client knows a URI of the server."""


def resource(info: ResourceInfo) -> JSON:
    """An entry of `resources/list`."""
    return present(
        uri=offered_uri(info.server_name, info.uri),
        name=info.name,
        title=_clean(info.title),
        description=_clean(info.description),
        mimeType=info.mime_type,
        size=info.size,
        annotations=info.annotations,
        icons=info.icons,
        _meta=info.meta,
    )


def template(info: TemplateInfo) -> JSON:
    """An entry of `resources/templates/list`."""
    return present(
        uriTemplate=offered_uri(info.server_name, info.uri_template),
        name=info.name,
        title=_clean(info.title),
        description=_clean(info.description),
        mimeType=info.mime_type,
        annotations=info.annotations,
        icons=info.icons,
        _meta=info.meta,
    )


def prompt(info: PromptInfo) -> JSON:
    """An entry of `prompts/list`."""
    return present(
        name=offered_prompt(info.server_name, info.name),
        title=_clean(info.title),
        description=_clean(info.description),
        arguments=None if info.arguments is None else [_clean_argument(one) for one in info.arguments],
        icons=info.icons,
        _meta=info.meta,
    )


def _clean(text: str | None) -> str | None:
    """A title or a description: as it came, unless something in it harms a reader."""
    return text if text is None or is_clean(text.replace("\r\n", "\n")) else paragraphs(text)


def _clean_argument(argument: JSON) -> JSON:
    said = {name: _clean(argument[name]) for name in ("title", "description") if argument.get(name)}
    return argument | said if said else argument


def contents(read: JSON, shown: Shown) -> JSON:
    """The result of a `resources/read`, each item under the name that the client knows."""
    return {**read, "contents": [_renamed(item, shown) for item in read["contents"]]}


def messages(got: JSON, shown: Shown) -> JSON:
    """The result of a `prompts/get`; the resources in it can be read under the names given."""
    given = got.get("messages")
    if not isinstance(given, list):
        return got
    return {**got, "messages": [_message(message, shown) for message in given]}


def embedded(got: JSON) -> list[Any]:
    """The resources inside the messages of a prompt."""
    given = got.get("messages")
    contents = [message.get("content") for message in _list(given) if isinstance(message, dict)]
    return [
        content.get("resource")
        for content in contents
        if isinstance(content, dict) and content.get("type") == "resource"
    ]


def _message(message: Any, shown: Shown) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, dict):
        return message
    match content.get("type"):
        case "resource_link":
            return {**message, "content": _renamed(content, shown)}
        case "resource":
            return {**message, "content": {**content, "resource": _renamed(content.get("resource"), shown)}}
        case _:
            return message


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _renamed(item: Any, shown: Shown) -> Any:
    if isinstance(item, dict) and isinstance(item.get("uri"), str):
        return {**item, "uri": shown(item["uri"])}
    return item

"""The entry of a scripted server that offers what it is told to, and notes what it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mcpx import scripted

if TYPE_CHECKING:
    from pathlib import Path


SKILLS = "io.modelcontextprotocol/skills"


def skill(uri: str, files: list[str]) -> dict[str, Any]:
    manifest = [{"uri": file, "digest": "sha256:0", "size": len(file)} for file in files]
    about = {"name": uri.split("/")[-2], "description": "what it is for"}
    return {"uri": uri, "frontmatter": about, "resources": manifest}


def entry(name: str, notes: Path, offer: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """An offer has the names of `tools` and `prompts`, the URIs of `resources`, and `templates`.

    It may have the `annotations` of tools by name, and the `mime_type` of the resources; the `pages` of apps
    by the names of their tools; `app_tools`, which are for an app alone; and `skills`, the files of each by
    the URI of its `SKILL.md`, all of which are in one folder. Each request that
    runs, reads, gets, completes or subscribes to something is a line in the file `notes`. One for something
    that it does not offer is refused as by any server. A tool whose argument `touch` is a URI says that this
    resource was updated.
    """
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    kind = {"mimeType": offer["mime_type"]} if "mime_type" in offer else {}
    hints = {key: {"annotations": its} for key, its in offer.get("annotations", {}).items()}
    marks: dict[str, Any] = {
        key: {"_meta": {"ui": {"resourceUri": page}}} for key, page in offer.get("pages", {}).items()
    }
    for_app = {key: {"_meta": {"ui": {"visibility": ["app"]}}} for key in offer.get("app_tools", ())}
    skilled = {"extensions": {SKILLS: {"directoryRead": True}}} if "skills" in offer else {}
    offers = {
        "tools": [
            {
                "name": each,
                "description": f"The {each} of {name}",
                "inputSchema": schema,
                **hints.get(each, {}),
                **marks.get(each, {}),
                **for_app.get(each, {}),
            }
            for each in (*offer["tools"], *for_app)
        ],
        "prompts": [{"name": each, "arguments": [{"name": "about"}]} for each in offer["prompts"]],
        "resources": [{"uri": each, "name": each[-1], **kind} for each in offer["resources"]],
        "resourceTemplates": [{"uriTemplate": each, "name": each} for each in offer["templates"]],
    }
    return scripted.entry(
        settings=settings,
        greeting={
            "capabilities": {
                "tools": {},
                "resources": {"subscribe": True},
                "prompts": {},
                "completions": {},
                **skilled,
            },
            "serverInfo": {"name": name, "version": "1"},
        },
        offers=offers,
        answers=_answers(name, str(notes), offer),
    )


def _answers(name: str, notes: str, offer: dict[str, Any]) -> dict[str, Any]:
    def noted(what: str, *steps: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"append": notes, "line": f"@{{method}} {what}"}, *steps]

    named, at = "@{params.name}", "@{params.uri}"
    updated = {"notify": "notifications/resources/updated", "params": {"uri": "@{given.touch}"}}
    touched = {"if": "@{given.touch}", "then": [updated]}
    ran = noted(named, {"say": f"ran {named} of {name}"}, touched)
    said = {"role": "user", "content": {"type": "text", "text": f"{named} of {name}"}}
    got = noted(named, {"result": {"messages": [said]}})
    read = noted(at, {"result": {"contents": [{"uri": at, "text": f"a text of {name}"}]}})
    values = {"completion": {"values": [f"value of {name}"]}}
    unknown = {"error": {"code": -32602, "message": "Unknown: @{method}"}}
    lost = {"error": {"code": -32602, "message": f"Resource not found: {at}"}}
    known = [*offer["resources"], *(f"{each.partition('{')[0]}*" for each in offer["templates"])]
    skills = offer.get("skills", {})
    known += [*offer.get("pages", {}).values(), *(file for files in skills.values() for file in files)]
    got_skill = {
        f"skills/get {uri}": noted(at, {"result": {"skill": skill(uri, files)}})
        for uri, files in skills.items()
    }
    children = [{"uri": file, "name": file.rpartition("/")[2]} for files in skills.values() for file in files]
    folders = {
        f"resources/directory/read {uri.removesuffix('/SKILL.md')}": noted(
            at, {"result": {"resources": [each for each in children if each["uri"] in files]}}
        )
        for uri, files in skills.items()
    }
    return {
        "skills/list": {"skills": [skill(uri, files) for uri, files in skills.items()]},
        **got_skill,
        **folders,
        **{f"tools/call {each}": ran for each in (*offer["tools"], *offer.get("app_tools", ()))},
        "tools/call": noted(named, unknown, touched),
        **{f"prompts/get {each}": got for each in offer["prompts"]},
        "prompts/get": noted(named, unknown),
        **{f"resources/read {each}": read for each in known},
        "resources/read*": noted(at, lost),
        **{f"resources/subscribe {each}": noted(at, {"result": {}}) for each in known},
        "resources/subscribe*": noted(at, lost),
        "resources/unsubscribe": noted(at, {"result": {}}),
        "completion/complete": noted("@{params.ref.name|}@{params.ref.uri|}", {"result": values}),
        "logging/setLevel": {},
        "*": noted("@{params.name|}@{params.uri|}", unknown),
    }

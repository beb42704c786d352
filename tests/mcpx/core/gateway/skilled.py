"""A scripted server of skills (SEP-2640), and a host that verifies what it reads."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from mcpx.core.catalog.model import Catalogue, SkillInfo, ToolInfo
from mcpx.core.servers.offers.entries import read_entry
from tests.mcpx import scripted

SKILLS = "io.modelcontextprotocol/skills"
REFUNDS, RELEASE, LATER, TODAY = (
    f"skill://{path}" for path in ("acme/billing/refunds", "release", "later", "today")
)


def files_of(server: str) -> dict[str, bytes]:
    """The files of all skills, by URI."""

    def front(name: str) -> bytes:
        return f"---\nname: {name}\ndescription: How {server} does {name}\n---\n\n# {name}\r\n".encode()

    return {
        f"{REFUNDS}/SKILL.md": front("refunds"),
        f"{REFUNDS}/examples/email one.json": b'{"b": 1.10,   "a": [null]}\n',
        f"{REFUNDS}/scripts/run.bin": bytes(range(256)),
        f"{RELEASE}/SKILL.md": front("release"),
        f"{LATER}/SKILL.md": front("later"),
        f"{TODAY}/SKILL.md": front("today"),
    }


def skill(server: str, root: str, *, resources: Any = None, **more: Any) -> dict[str, Any]:
    """The entry of a skill."""
    name = root.rpartition("/")[2]
    manifest = [
        {
            "uri": uri,
            "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "size": len(content),
            "vendor": {"n": 1.5, "null": None},
        }
        for uri, content in files_of(server).items()
        if uri.startswith(f"{root}/")
    ]
    front = {
        "name": name,
        "description": f"How {server} does {name}",
        "metadata": {"version": "1.10", "tags": [None, True]},
        "title": "not\u202eclean",
    }
    return {
        "frontmatter": front,
        "uri": f"{root}/SKILL.md",
        "resources": manifest if resources is None else resources,
        **more,
    }


def contents(uri: str, content: bytes) -> dict[str, Any]:
    try:
        held: dict[str, Any] = {"text": content.decode()}
    except UnicodeDecodeError:
        held = {"blob": base64.b64encode(content).decode()}
    return {"contents": [{"uri": uri, **held}]}


def listed_skills(server: str) -> list[dict[str, Any]]:
    """The skills that a server lists: one is not among them."""
    return [
        skill(server, REFUNDS, _meta={"vendor": 1}),
        skill(server, RELEASE, other=[1]),
        skill(server, TODAY, resources="dynamic"),
    ]


def entry(
    name: str,
    *,
    reads_folders: bool = True,
    answers: Any = None,
    modern: bool = False,
    offers: Any = None,
    **settings: Any,
) -> dict[str, Any]:
    """A server with skills, of which it lists some, a page at a time."""
    first, *others = listed_skills(name)
    unknown = [{"error": {"code": -32602, "message": "There is no such skill"}}]
    whole = {"resultType": "complete", "ttlMs": 5, "cacheScope": "public"} if modern else {}
    more = [{"result": {"skills": others, **whole}}]
    begin = [{"result": {"skills": [first], "nextCursor": "2", **whole}}]
    children = [
        {"uri": f"{REFUNDS}/examples", "name": "examples", "mimeType": "inode/directory"},
        {"uri": f"{REFUNDS}/SKILL.md", "name": "refunds", "vendor": 1.5},
    ]
    greeting = {
        "capabilities": {
            "tools": {},
            "resources": {"listChanged": True},
            "extensions": {SKILLS: {"directoryRead": True} if reads_folders else {}},
        },
        "instructions": f"See {LATER}/SKILL.md",
    }
    read = {f"resources/read {uri}": contents(uri, content) for uri, content in files_of(name).items()}
    return scripted.entry(
        settings=settings | ({"era": "modern"} if modern else {}),
        modern=modern,
        greeting=greeting if modern else greeting | {"serverInfo": {"name": name, "version": "1"}},
        offers={"tools": ["echo"], "resources": [], "resourceTemplates": [], **(offers or {})},
        answers={
            "skills/list": [{"if": "@{params.cursor|}", "then": more, "else": begin}],
            **{
                f"skills/get {root}/SKILL.md": {"skill": skill(name, root), **whole}
                for root in (REFUNDS, RELEASE, LATER)
            },
            "skills/get*": unknown,
            **{key: {**result, **whole} for key, result in read.items()},
            f"resources/directory/read {REFUNDS}": [
                {
                    "if": "@{params.cursor|}",
                    "then": [{"result": {"resources": children[1:], **whole}}],
                    "else": [{"result": {"resources": children[:1], "nextCursor": "x", **whole}}],
                }
            ],
            "resources/directory/read*": unknown,
            "resources/read*": unknown,
            **(answers or {}),
        },
    )


def unnamed(found: Any, prefix: str = "skill://") -> Any:
    """What was shown, with the server's own URIs in place of those that begin with `prefix`."""
    return json.loads(json.dumps(found).replace(prefix, "skill://"))


def catalogue(name: str) -> Catalogue:
    """What MCPX makes of the lists of such a server."""
    tool = ToolInfo(server_name=name, name="echo", input_schema={"type": "object"})
    skills = tuple(read_entry(SkillInfo, name, each)[0] for each in listed_skills(name))
    return Catalogue(generation=1, tools={"echo": tool}, skills=skills)

"""What the matrix asks of each server, how that is spelt at each exposure, and when two answers are the same.

A *step* is JSON that the client programs of this folder perform (`{"do": "call", "name": ..., ...}`). `STEPS`
names the features of each server with their steps; `spelt` turns a step as for the server itself into one for
MCPX's three tools or for native tools; `essence` is what of the results must be equal through MCPX.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

JSON = dict[str, Any]

TEXT: Final = "demo://resource/static/document/features.md"
TEMPLATE: Final = "demo://resource/dynamic/text/{resourceId}"
UPDATED: Final = "notifications/resources/updated"
LOGGED: Final = "notifications/message"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_LISTS: Final = {
    "resources": ("resources", "uri"),
    "templates": ("resourceTemplates", "uriTemplate"),
    "prompts": ("prompts", "name"),
}
"""The member of the result that holds each list, and what names its entries."""
_TIME: Final = re.compile(r"\d+:\d\d:\d\d [AP]M")
LIST: Final[JSON] = {"do": "tools"}


def call(name: str, arguments: JSON | None = None, **more: Any) -> JSON:
    """A step that calls a tool."""
    return {"do": "call", "name": name, "arguments": arguments or {}, **more}


_COMPLETION: Final[JSON] = {
    "do": "complete",
    "ref": {"type": "ref/prompt", "name": "completable-prompt"},
    "argument": {"name": "department", "value": "S"},
}
FEATURES: Final[dict[str, list[JSON]]] = {
    "list of tools": [LIST],
    "call: text": [call("echo", {"message": "hello"})],
    "call: image": [call("get-tiny-image")],
    "call: structured": [call("get-structured-content", {"location": "New York"})],
    "call: embedded resource": [call("get-resource-reference", {"resourceType": "Text", "resourceId": 1})],
    "call: isError": [call("get-resource-reference", {"resourceType": "Text", "resourceId": -5})],
    "progress": [call("trigger-long-running-operation", {"duration": 0.6, "steps": 3}, progress=True)],
    "cancellation": [call("trigger-long-running-operation", {"duration": 30, "steps": 3}, cancel_after_s=1)],
    "sampling": [call("trigger-sampling-request", {"prompt": "how many?"})],
    "elicitation": [call("trigger-elicitation-request")],
    "roots": [call("get-roots-list")],
    "resources": [{"do": "resources"}, {"do": "read", "uri": TEXT}],
    "templates": [{"do": "templates"}, {"do": "read", "uri": TEMPLATE.replace("{resourceId}", "1")}],
    "prompts": [
        {"do": "prompts"},
        {"do": "prompt", "name": "args-prompt", "arguments": {"city": "Oslo"}},
    ],
    "completion": [_COMPLETION],
    "subscription": [
        {"do": "subscribe", "uri": TEXT},
        call("toggle-subscriber-updates"),
        {"do": "noticed", "method": UPDATED, "within_s": 8},
        call("toggle-subscriber-updates"),
    ],
    "log messages": [
        {"do": "level", "level": "debug"},
        call("toggle-simulated-logging"),
        {"do": "noticed", "method": LOGGED, "within_s": 8},
        call("toggle-simulated-logging"),
    ],
}
"""The features that server-everything shows, by name."""
SERVERS: Final[dict[str, list[JSON]]] = {
    "filesystem": [
        LIST,
        call("read_text_file", {"path": "hello.txt"}),
        call("read_text_file", {"path": "/"}),
    ],
    "memory": [LIST, call("read_graph"), call("search_nodes", {"query": "nothing"})],
    "git": [LIST, call("git_log", {"repo_path": "REPOSITORY", "max_count": 1})],
    "time": [
        LIST,
        call(
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        ),
        call("get_current_time", {"timezone": "Mars/Olympus"}),
    ],
    "fast": [
        LIST,
        call("greet", {"name": "Ada"}),
        call("weather", {"city": "Oslo"}),
        call("picture"),
        call("fail"),
        {"do": "resources"},
        {"do": "read", "uri": "data://fixed"},
        {"do": "templates"},
        {"do": "read", "uri": "data://one/text"},
        {"do": "prompts"},
        {"do": "prompt", "name": "review", "arguments": {"code": "x"}},
    ],
    "kubernetes": [LIST, call("configuration_view", {"minified": True}), {"do": "prompts"}],
    "cnb": [LIST, call("cnb_get_issue", {"repo": "none/none", "number": 1})],
}
"""What is asked of the other servers."""


def spelt(step: JSON, server: str, exposure: str) -> JSON:
    """A step for the server itself as one for MCPX: `exposure` is "three", "native" or "transparent"."""
    if exposure == "transparent":
        return step
    step = json.loads(json.dumps(step))
    match step["do"]:
        case "tools" if exposure == "three":
            return call("inspect", {"server_name": server})
        case "call" if exposure == "three":
            given = {"server_name": server, "tool_name": step["name"], "arguments": step["arguments"]}
            return step | {"name": "exec", "arguments": given}
        case "call":
            return step | {"name": f"{server}__{step['name']}"}
        case "prompt":
            return step | {"name": f"{server}.{step['name']}"}
        case "read" | "subscribe":
            return step | {"uri": f"mcpx://{server}/{step['uri']}"}
        case "complete":
            return step | {"ref": step["ref"] | {"name": f"{server}.{step['ref']['name']}"}}
    return step


def essence(step: JSON, result: JSON, server: str, exposure: str) -> Any:
    """What of a result is the same directly and at MCPX; `step` is as for the server itself."""
    if "error" in result:
        return "error"
    if step["do"] == "tools":
        return sorted(_tool_names(result, server, exposure))
    if step["do"] in _LISTS:
        member, key = _LISTS[step["do"]]
        return sorted(_own([each[key] for each in result[member]], server, exposure))
    plain = json.loads(_TIME.sub("TIME", json.dumps(result).replace(f"mcpx://{server}/", "")))
    match step["do"]:
        case "call":
            return _called(plain)
        case "read":
            return [(each["uri"], each.get("text"), each.get("blob")) for each in plain["contents"]]
        case "prompt":
            return [(each["role"], each["content"]) for each in plain["messages"]]
        case "complete":
            return plain["completion"]["values"]
        case "noticed":
            return plain["noticed"]
    return "done"


def _tool_names(result: JSON, server: str, exposure: str) -> list[str]:
    if exposure == "three":
        return [tool["name"] for tool in result["structuredContent"]["tools"]]
    start = f"{server}__" if exposure == "native" else ""
    names = [tool["name"] for tool in result["tools"]]
    return [name.removeprefix(start) for name in names if name.startswith(start)]


def _own(names: list[str], server: str, exposure: str) -> list[str]:
    """Of the names or URIs of all servers, this server's, as it spells them."""
    if exposure == "transparent":
        return names
    starts = (f"mcpx://{server}/", f"{server}.")
    return [name.removeprefix(start) for name in names for start in starts if name.startswith(start)]


def _called(result: JSON) -> Any:
    failed = bool(result.get("isError"))
    blocks = [] if failed else [_block(block) for block in result.get("content", [])]
    asked = [each for each in result.get("asked", []) if each != "roots/list"]  # asked when it likes
    return (failed, blocks, asked, result.get("progress"))


def _block(block: JSON) -> Any:
    """A content block; JSON in a text counts as what it holds, for exec writes it in its smallest form."""
    if block["type"] != "text":
        return {key: value for key, value in block.items() if value is not None}
    try:
        return json.loads(block["text"])
    except ValueError:
        return block["text"].strip()

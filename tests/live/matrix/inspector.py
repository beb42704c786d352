"""The Inspector's command line as a client of the matrix: python inspector.py NODE JOB.

Each step is a call of the program; steps that it has no method for are skipped.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js"
METHODS = {
    "tools": "tools/list",
    "call": "tools/call",
    "resources": "resources/list",
    "templates": "resources/templates/list",
    "read": "resources/read",
    "prompts": "prompts/list",
    "prompt": "prompts/get",
}


def perform(node: str, transport: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    if step["do"] not in METHODS or {"progress", "cancel_after_s"} & step.keys():
        return {"skipped": True}
    command = [node, str(PROGRAM)]
    if "url" in transport:
        command += [transport["url"], "--transport", "http"]
    else:
        for name, value in transport.get("env", {}).items():
            command += ["-e", f"{name}={value}"]
        # one word behind a shell: the Inspector takes --config and --server of another program for its own
        command += ["sh", "-c", "exec " + shlex.join([transport["command"], *transport["args"]])]
    command += ["--method", METHODS[step["do"]]]
    if step["do"] == "call":
        command += ["--tool-name", step["name"]]
        command += _pairs("--tool-arg", step.get("arguments") or {})
    elif step["do"] == "read":
        command += ["--uri", step["uri"]]
    elif step["do"] == "prompt":
        command += ["--prompt-name", step["name"], *_pairs("--prompt-args", step.get("arguments") or {})]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ},
    )
    try:
        result = json.loads(ran.stdout)
    except ValueError:
        return {"error": (ran.stderr or ran.stdout)[-300:]}
    result = result.get("result", result)
    return result | ({"asked": [], "progress": False} if step["do"] == "call" else {})


def _pairs(flag: str, values: dict[str, Any]) -> list[str]:
    texts = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()
    ]
    return [flag, *texts] if texts else []


if __name__ == "__main__":
    job = json.loads(sys.argv[2])
    print(json.dumps([perform(sys.argv[1], job["transport"], step) for step in job["steps"]]))

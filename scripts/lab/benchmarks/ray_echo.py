"""An MCP server whose tool `echo` is an actor of Ray: `python ray_echo.py ADDRESS sync|async`.

What Ray's own call of an actor takes: the least that a gateway would cost whose calls go through Ray. The
actor runs in a process of its own, on the node. Calls that come together are all under way at once.
"""

import json
import logging
import os
import sys

os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"

import ray

TOOLS = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}


class Echo:
    """Gives the text back."""

    def echo(self, text: str) -> str:
        """One call."""
        return text


class AsyncEcho:
    """The same, in the actor's event loop."""

    async def echo(self, text: str) -> str:
        """One call."""
        return text


def main() -> None:
    """Serve standard input until it ends."""
    address, kind = sys.argv[1:]
    out = os.dup(1)
    os.dup2(2, 1)  # what Ray prints is no answer
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    actor = ray.remote(num_cpus=0)(Echo if kind == "sync" else AsyncEcho).remote()
    rest = b""
    while chunk := os.read(0, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        asked = [json.loads(line) for line in lines if line]
        begun = [
            (each["id"], actor.echo.remote(each["params"]["arguments"]["text"]))
            for each in asked
            if each["method"] == "tools/call"
        ]
        others = [each for each in asked if "id" in each and each["method"] != "tools/call"]
        answers = [(each["id"], _other(each)) for each in others]
        answers += [(number, {"content": [{"type": "text", "text": ray.get(ref)}]}) for number, ref in begun]
        written = "".join(
            json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\n"
            for number, result in answers
        )
        os.write(out, written.encode())


def _other(message: dict) -> dict:
    if message["method"] == "tools/list":
        return TOOLS
    offer = {"capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
    return {"protocolVersion": message["params"]["protocolVersion"], **offer}


main()

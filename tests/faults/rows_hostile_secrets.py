"""Rows of the hostile table: servers that tell the secrets they were given, wherever they can."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

from mcpx.core.telemetry.log_files import server_log_path
from tests.faults.hostile import Hostile, HostileFaults

faults = HostileFaults()
SECRET = "s3cret/t0ken+of-a-server=="
FORMS = [SECRET, quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode()]


async def told(on: Hostile, began: int) -> dict[str, str]:
    """What MCPX tells of server `s`, by where it does."""
    async with on.client() as client:
        texts = {"error": json.dumps((await client.exec("s", "echo")).message)}
        texts["inspect"] = json.dumps((await client.tool("inspect", server_name="s")).message)
        texts["the listing"] = json.dumps((await client.request("tools/list")).message)
    texts["status"] = json.dumps(await on.control("status"))
    texts["the log"] = on.mcpx.log.read_bytes()[began:].decode()
    file = server_log_path("s", on.mcpx.place.folder)
    texts["the server's log"] = file.read_text("utf-8") if file.exists() else ""
    return texts


async def hidden(on: Hostile, name: str, *where: str, **servers: object) -> None:
    """With these servers the secret is nowhere, and its name is in these places."""
    began = on.mcpx.log.stat().st_size
    await on.add(**servers)  # type: ignore[arg-type]  # entries
    texts = await told(on, began)
    for place, text in texts.items():
        for form in FORMS:
            on.check(form not in text, f"the secret is in {place}")
    for place in where:
        on.check(f"***{name}***" in texts[place], f"{place} does not name it: {texts[place][-300:]}")
    on.saw(f"***{name}***")


def knowing(on: Hostile, code: str, **entry: object) -> dict[str, object]:
    server = on.stdio(code=code, entry={"restart": {"park_after": 1}, **entry})
    return {**server, "env": {**server["env"], "API_KEY": SECRET}}


@faults.row("a secret in the last words, plain and written in other ways")
async def last_words(on: Hostile) -> None:
    code = f"""
        os.write(2, b"no --key=" + {FORMS!r}[0][:9].encode())
        os.write(2, {FORMS!r}[0][9:].encode() + b" here\\n" + "\\n".join({FORMS[1:]!r}).encode() + b"\\n")
        os._exit(3)
    """
    places = ["error", "inspect", "status", "the log", "the server's log"]
    await hidden(on, "API_KEY", *places, s=knowing(on, code))


@faults.row("a secret at the end of a line of 400 letters in the last words")
async def long_last_words(on: Hostile) -> None:
    code = f"""
        os.write(2, b"x" * 280 + {SECRET!r}.encode() + b"x" * 100 + b"\\n")
        os._exit(3)
    """
    await on.add(s=knowing(on, code))
    status = json.dumps(await on.control("status"))
    on.check(SECRET[:9] not in status, "a part of the secret is in status")
    on.saw("nothing of it")


@faults.row("a secret in lines that are no messages")
async def rubbish(on: Hostile) -> None:
    await hidden(on, "API_KEY", "the log", s=knowing(on, f"write({SECRET!r}.encode() + b'\\n')"))


@faults.row("a secret in the refusal of the handshake")
async def refusal(on: Hostile) -> None:
    code = f"""
        def on_initialize(request_id, params):
            fail(request_id, -32600, "wrong key " + {SECRET!r})
        on_server_discover = on_initialize
    """
    await hidden(on, "API_KEY", "error", "inspect", "status", "the log", s=knowing(on, code))


@faults.row("a secret in the data of an error")
async def error_data(on: Hostile) -> None:
    code = f"""
        def on_tools_call(request_id, params):
            error = {{"code": -32000, "message": "no", "data": {{"deep": ["key", {SECRET!r}]}}}}
            send(id=request_id, error=error)
    """
    await hidden(on, "API_KEY", "error", s=knowing(on, code))


@faults.row("a variable's value in the arguments of a server that repeats them")
async def arguments(on: Hostile) -> None:
    """The state folder of the daemon, for want of another variable that it has."""
    entry = on.stdio(code="os.write(2, sys.argv[-1].encode() + b'\\n'); os._exit(1)")
    entry |= {"args": [*entry["args"], "${MCPX_STATE_DIR}"], "restart": {"park_after": 1}}
    await on.add(s=entry)
    texts = await told(on, 0)
    texts["status"] = json.dumps(json.loads(texts["status"])["servers"])  # the daemon's own has the folder
    for place in ("error", "inspect", "status"):
        on.check("***MCPX_STATE_DIR***" in texts[place], f"{place} does not name it: {texts[place][-300:]}")
        on.check(str(on.mcpx.state) not in texts[place], f"the value is in {place}")
    on.saw("***MCPX_STATE_DIR***")


async def refusing(on: Hostile, status: int, body: str, **headers: str) -> None:
    code = f"""
    async def take(server, request, writer):
        await server.respond(writer, {status}, {body!r}.encode(), **{headers!r})
        return True
    """
    entry = {"headers": {"Authorization": f"Bearer {SECRET}"}, "restart": {"park_after": 1}}
    await hidden(on, "Authorization", "error", "status", s=await on.http(code, entry=entry))


@faults.row("HTTP 403 with the header in its body")
async def forbidden(on: Hostile) -> None:
    await refusing(on, 403, f"you sent Bearer {SECRET}", content_type="text/plain")


@faults.row("HTTP 401 with the token in the JSON-RPC error of its body")
async def unauthorized(on: Hostile) -> None:
    error = {"code": -32000, "message": f"unknown token {SECRET}"}
    await refusing(on, 401, json.dumps({"error": error}), content_type="application/json")


@faults.row("a redirect to another host with the token in its path")
async def redirected(on: Hostile) -> None:
    await refusing(on, 307, "", location=f"http://127.0.0.2:1/{SECRET}/x")

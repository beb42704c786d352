"""What a desk does to servers: pictures too large for models, first starts that last, files that change, and
programs behind a URL.
"""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, Final

import anyio
from PIL import Image

from tests.faults import traces
from tests.faults.hostile import QUICK, Hostile, HostileFaults
from tests.faults.hostile_client import Answer

faults = HostileFaults()
CLAUDE: Final = {"name": "claude-code", "version": "1"}  # known to need pictures that fit
SIDE: Final = 2000
WORKER_MB: Final = 700  # of a worker at most: 340 of pixels twice, and the modules
WAIT_S: Final = 60.0
EDITS: Final = 5
PROGRAM: Final = Path(__file__).parents[1] / "mcpx/core/servers/program_server.py"
CAMERA: Final = """
import base64
def shot(name):
    with open(os.path.join(os.environ["SHOTS"], name), "rb") as file:
        return base64.b64encode(file.read()).decode()
def on_tools_call(request_id, params):
    block = {"type": "image", "data": shot(params["name"]), "mimeType": "image/png"}
    reply(request_id, {"content": [block, {"type": "text", "text": "taken"}]})
def on_resources_read(request_id, params):
    name = params["uri"].rpartition("/")[2]
    item = {"uri": params["uri"], "mimeType": "image/png", "blob": shot(name)}
    reply(request_id, {"contents": [item]})
"""
DOWNLOADS: Final = """
import time
def start():
    for number in range(%d):
        print("downloading", number, file=sys.stderr, flush=True)
        time.sleep(0.2)
"""
EDITED: Final = """
server.tools = [{"name": name, "inputSchema": {"type": "object"}} for name in json.load(open("tools.json"))]
"""


def png(side: int, *, whole: bool = True) -> bytes:
    """A square PNG of one colour; without most of its data where it is not to be whole."""
    packer = zlib.compressobj(1)
    rows, row = (side if whole else 4), bytes(1 + 3 * side)
    data = b"".join([*(packer.compress(row) for _ in range(rows)), packer.flush()])
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def animated() -> bytes:
    """An animated PNG that is too wide."""
    out = io.BytesIO()
    frames = [Image.new("RGB", (3000, 40), (40 * number, 0, 0)) for number in range(3)]
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:], duration=50)
    return out.getvalue()


def blocks_of(answer: Answer) -> tuple[list[bytes], str]:
    """The pictures in an answer, and all its text."""
    blocks = answer.result.get("content") or answer.result.get("contents") or []
    data = [block.get("data") or block.get("blob") for block in blocks]
    texts = [block.get("text", "") for block in blocks]
    return [base64.b64decode(each) for each in data if each], "\n".join(texts) or answer.text


async def watch_workers(on: Hostile, most: dict[int, float]) -> None:
    """Note the largest size of each process of MCPX that is no server."""
    servers = set(traces.marked(on.mark))
    while True:
        for pid in set(traces.children(on.mcpx.pid)) - servers:
            try:
                most[pid] = max(most.get(pid, 0), traces.memory(pid, "VmHWM") / (1 << 20))
            except (OSError, LookupError):
                continue
        await anyio.sleep(0.05)


@faults.row(
    "pictures of 9,000 px, animated, broken, and of 100 megapixels",
    memory_mb=64,
)
async def pictures(on: Hostile) -> None:
    """By exec, under their own names and at an endpoint of one server, for a client that needs them small."""
    shots = on.mcpx.folder / "shots"
    shots.mkdir(exist_ok=True)
    large = png(3000 if on.brief else 9000)
    given = {
        "large": large,
        "animated": animated(),
        "broken": large[: len(large) // 2],
        "bomb": png(10_000, whole=not on.brief),
    }
    for name, data in given.items():
        (shots / name).write_bytes(data)
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in given]
    listed = [{"uri": f"shot://{name}", "name": name, "mimeType": "image/png"} for name in given]
    server = on.stdio(code=CAMERA, tools=tools, answers={"resources/list": {"resources": listed}})
    server["env"]["SHOTS"] = str(shots)
    await on.add(s=server | {"expose": "both"})
    most: dict[int, float] = {}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_workers, on, most)
        every = await on.http_client(clientInfo=CLAUDE)
        alone = await on.http_client(path="/mcp/servers/s", clientInfo=CLAUDE)
        for name, data in given.items():
            wait: dict[str, Any] = {"within_s": WAIT_S}
            uri = {"uri": f"shot://{name}"}
            native = {"name": f"s__{name}", "arguments": {}}
            ways = {
                "exec": await every.exec("s", name, **wait),
                "native": await every.request("tools/call", native, **wait),
                "one server": await alone.request("tools/call", {"name": name, "arguments": {}}, **wait),
                "one server's resource": await alone.request("resources/read", uri, **wait),
            }
            for way, answer in ways.items():
                _judge(on, f"{name} by {way}", answer, shown=name in {"large", "animated"})
            original = ways["one server"]
            address = blocks_of(original)[1].partition("mcpx://result/")[2].partition("]")[0]
            read = await alone.request("resources/read", {"uri": f"mcpx://result/{address}"}, **wait)
            on.check(
                blocks_of(read)[0] == [data],
                f"the original of {name} at {address} is not it: {str(read.message)[:300]}",
            )
        tasks.cancel_scope.cancel()
    on.check(max(most.values(), default=0) < WORKER_MB, f"workers took {most} MB")


def _judge(on: Hostile, what: str, answer: Answer, *, shown: bool) -> None:
    pictures, text = blocks_of(answer)
    on.saw("the answer" if answer.error is None else answer.in_words)
    on.check("mcpx://result/" in text, f"{what}: the original is not named: {text[:300]}")
    if not shown:
        on.check(not pictures and "not shown" in text, f"{what}: it is shown, or not said why: {text[:300]}")
        return
    on.check(len(pictures) == 1, f"{what}: {len(pictures)} pictures: {text[:300]}")
    sizes = [Image.open(io.BytesIO(each)).size for each in pictures]
    on.check(all(max(size) <= SIDE for size in sizes), f"{what}: it has {sizes}")


@faults.row("a first start of 90 s that says what it does, with a connect_timeout of 5", within_s=180)
async def long_first_start(on: Hostile) -> None:
    takes, timeout = (6, 1) if on.brief else (90, 5)
    entry = {"connect_timeout": timeout, "queue_timeout": timeout + 2}
    await on.add(s=on.stdio(code=DOWNLOADS % (takes * 5), entry=entry), settled=False)
    async with on.client() as client:
        told = await client.exec("s", "echo")
        on.failed(told, "server_unavailable", "not_sent", "starting", "its last line: downloading")
        shown = await client.tool("inspect", server_name="s")
        on.check("its last line: downloading" in shown.text, f"inspect shows {shown.text[:300]}")
        await on.becomes("ready", within_s=takes + WAIT_S)
        on.answered(await client.exec("s", "echo"), "echo by")
    on.check(on.starts() == 1, f"it was started {on.starts()} times")


@faults.row("its source is edited five times under calls, with watch", within_s=90)
async def edited(on: Hostile) -> None:
    folder = on.mcpx.folder / "src"
    folder.mkdir(exist_ok=True)
    tools = folder / "tools.json"
    tools.write_text(json.dumps(["echo", "tool_0"]))
    entry = {"watch": ["*.json"], "cwd": str(folder), "queue_timeout": WAIT_S}
    await on.add(s=on.stdio(code=EDITED, entry=entry))
    done = False

    async def call() -> None:
        async with on.client() as client:
            while not done:
                on.answered(await client.exec("s", "echo", within_s=WAIT_S), "echo by")

    async with on.client() as client, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(call)
        for number in range(1, 2 if on.brief else EDITS + 1):
            starts = on.starts()
            while on.starts() == starts:  # its folder is watched soon, not at once
                tools.write_text(json.dumps(["echo", f"tool_{number}"]))
                await anyio.sleep(1)
            on.answered(await client.exec("s", f"tool_{number}", within_s=WAIT_S), f"tool_{number} by")
            gone = await client.exec("s", f"tool_{number - 1}")
            on.check(gone.code == "unknown_tool", f"what it has no more is {gone.in_words}")
        done = True


def program(on: Hostile, **settings: Any) -> dict[str, Any]:
    """The entry of a server over HTTP that MCPX starts."""
    ears = on.mcpx.server_folder("program")
    args = ["-S", "-E", str(PROGRAM), "${port}", json.dumps({"ears": str(ears)})]
    started = {"command": sys.executable, "args": args, "env": {traces.MARK: on.mark}}
    return {**started, "url": "http://127.0.0.1:${port}/mcp", **QUICK, **settings}


def programs(on: Hostile) -> list[str]:
    """The process ids of all that were started."""
    return on.mcpx.server_folder("program").read_text().split()


@faults.row("the program behind a URL dies in a call, and between calls")
async def program_dies(on: Hostile) -> None:
    await on.add(s=program(on))
    async with on.client() as client:
        told = await client.exec("s", "die")
        on.failed(told, "server_died", "unknown", "exited with code 3", "dying on request")
        on.answered(await client.exec("s", "pid"))
        os.kill(int(programs(on)[-1]), signal.SIGKILL)
        while len(programs(on)) < 3:  # noqa: ASYNC110 - it is another process
            await anyio.sleep(0.02)
        on.answered(await client.exec("s", "pid"), programs(on)[2])


@faults.row("the connection to a program behind a URL is lost, and the program lives")
async def program_forgets(on: Hostile) -> None:
    await on.add(s=program(on))
    async with on.client() as client:
        for _ in range(2 if on.brief else 10):
            await client.exec("s", "forget")
            on.answered(await client.exec("s", "pid"), programs(on)[0])
            await client.exec("s", "deaf", {"seconds": 0.3})
            on.answered(await client.exec("s", "pid"), programs(on)[0])
    on.check(len(programs(on)) == 1, f"it was started {len(programs(on))} times")


@faults.row("the program behind a URL is reached no more, and hangs")
async def program_is_lost(on: Hostile) -> None:
    health = {"health_check_interval": 0.3, "health_check_timeout": 1.0}
    await on.add(s=program(on, connect_timeout=1.0, queue_timeout=WAIT_S, **health))
    async with on.client() as client:
        on.answered(await client.exec("s", "deaf", {"seconds": 600}))
        on.answered(await client.exec("s", "pid", within_s=WAIT_S), programs(on)[-1])
        on.check(len(programs(on)) == 2, f"it was started {len(programs(on))} times")
        told = await client.exec("s", "hang", within_s=WAIT_S)
        if told.code is None:  # it may answer before it hangs
            told = await client.exec("s", "pid", within_s=WAIT_S)
        on.failed(told, "server_died", "unknown", "hangs")
        on.answered(await client.exec("s", "pid", within_s=WAIT_S))
        on.check(len(programs(on)) == 3, f"it was started {len(programs(on))} times")

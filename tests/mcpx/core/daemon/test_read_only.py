"""MCPX as a container runs it: a plain user, a root that cannot be written to, and one folder that can."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.mcpx.cluster.replicas.site import ACCEPT, MODERN_ENVELOPE, counting, last_message
from tests.mcpx.serving import MODERN, PATIENCE_S
from tests.ports import free_port

pytestmark = pytest.mark.anyio
NOBODY = 65534
SCRIPT = r"""
set -e
mount --make-rprivate /
if [ -n "$HIDDEN" ]; then  # where the interpreter is in a home that others cannot enter
    mount --bind "$PREFIX" /mnt
    mount -t tmpfs -o mode=755 tmpfs "$HIDDEN"
    mkdir -p "$PREFIX"
    mount --bind /mnt "$PREFIX"
    umount /mnt
fi
mount --bind "$STATE" "$STATE"
awk '{print $5}' /proc/self/mountinfo | sort -r | while read -r each; do
    case $each in
        "$STATE" | /proc* | /sys* | /dev*) ;;
        *) mount -o remount,ro,bind "$each" ;;
    esac
done
! touch /tmp/mcpx-is-not-read-only 2>/dev/null
cd /
exec setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups --no-new-privs \
    env -i KUBERNETES_SERVICE_HOST=192.0.2.1 \
        PATH=/usr/bin:/bin HOME=/nonexistent MCPX_STATE_DIR="$STATE/mcpx" MCPX_LOG_FORMAT=json \
    PYTHONPATH="$CODE" PYTHONDONTWRITEBYTECODE=1 "$@"
"""


def needs():
    """Why it cannot be tried here; None where it can."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "only root can change what is mounted"
    missing = [name for name in ("unshare", "setpriv", "mount") if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not installed"
    tried = subprocess.run(
        ["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else "nothing can be mounted here"


def hidden(path: Path) -> str:
    """The topmost folder above a path that others cannot enter; empty where there is none."""
    return next((str(each) for each in reversed(path.parents) if not each.stat().st_mode & 0o001), "")


def volume(folder: Path) -> Path:
    """A folder that belongs to a group, as a volume with fsGroup does."""
    folder.chmod(0o755)
    state = folder / "state"
    state.mkdir()
    os.chown(state, 0, NOBODY)
    state.chmod(0o2770)
    return state


def written_by_nobody(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_uid == NOBODY]


@pytest.mark.skipif(needs() is not None, reason=str(needs()))
@pytest.mark.parametrize("command", [["daemon", "run", "--config"], ["serve", "--transport", "http"]])
async def test_a_plain_user_with_a_read_only_root_and_one_folder_serves_and_leaves(command):
    code = Path(__file__).parents[4]
    if hidden(code):
        pytest.skip("the code is where others cannot read it")
    with tempfile.TemporaryDirectory(prefix="mcpx-read-only-") as name:
        folder = Path(name)
        state = volume(folder)
        port = free_port()
        settings = {"http": {"port": port}, "shutdown_grace": 1}
        config = folder / "config.json"
        config.write_text(json.dumps(settings | {"mcpServers": {"s": counting(state / "counted")}}))
        prefix = Path(sys.base_prefix)
        environ = {
            "PATH": os.environ["PATH"],
            "STATE": str(state),
            "PREFIX": str(prefix),
            "HIDDEN": hidden(prefix),
            "NOBODY": str(NOBODY),
            "CODE": str(code),
        }
        run = [
            "unshare",
            "-m",
            "bash",
            "-c",
            SCRIPT,
            "bash",
            sys.executable,
            "-m",
            "mcpx",
            *command,
            str(config),
        ]
        with subprocess.Popen(  # noqa: ASYNC220 - started in no time
            run, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            try:
                await works(port, state)
                process.send_signal(signal.SIGTERM)
                with anyio.fail_after(PATIENCE_S):
                    while process.poll() is None:  # noqa: ASYNC110 - of another process
                        await anyio.sleep(0.02)
                assert process.returncode == 0
            except BaseException:
                process.kill()
                print(process.stderr.read().decode() if process.stderr else "")
                raise
        written = written_by_nobody(folder)
        assert written
        assert all(path.is_relative_to(state) for path in written)
        assert (state / "mcpx" / "audit").is_dir()


async def works(port, state):
    """It is ready, and a call is run."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
        with anyio.fail_after(PATIENCE_S):
            while True:
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        break
                except httpx2.HTTPError:
                    pass
                await anyio.sleep(0.05)
        token = (state / "mcpx" / "token").read_text().strip()
        given = {"server_name": "s", "tool_name": "work", "arguments": {"id": "once"}}
        params = {"name": "exec", "arguments": given, "_meta": MODERN_ENVELOPE}
        headers = ACCEPT | {
            "Authorization": f"Bearer {token}",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "exec",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = last_message(await client.post("/mcp", json=body, headers=headers))
        assert "did once" in str(answer)

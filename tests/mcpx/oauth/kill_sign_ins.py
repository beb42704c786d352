"""Kill `mcpx login`, and a call that refreshes its token, at each of their steps: whatever they do to files.

`python kill_sign_ins.py [STRIDE]` plays each step, or one of STRIDE. After each kill the person is asked once
more at most, the server can be used, and no secret is in a file but the record, which is its owner's alone.
`python kill_sign_ins.py --at STEP ARGUMENTS` is `mcpx ARGUMENTS`, killed at a step.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3])]

from tests.forking import client  # noqa: E402
from tests.mcpx.oauth.sign_in_house import SignInHouse, houses  # noqa: E402
from tests.mcpx.serving import PATIENCE_S, environment  # noqa: E402

LOGIN = ("login", "r")
CALL = ("exec", "r", "count", json.dumps({"key": "during"}))


def main(stride: int) -> None:
    with houses() as house:
        for command in (LOGIN, CALL):
            print(f"{command[0]}: killed at each of {play(house, command, stride)} steps", flush=True)


def play(house: SignInHouse, command: tuple[str, ...], stride: int) -> int:
    """Kill a command everywhere; how many steps it has."""
    step = 0
    while True:
        shutil.rmtree(house.folder / "state", ignore_errors=True)
        if command == CALL:
            house.login()
            house.issuer.expire()
        asked = house.issuer.asked
        ended = killed_at(house, step, command)
        house.check_files()
        more = (command == LOGIN) + (not ended)
        house.check(asked=asked + more, key=f"{command[0]} {step}")
        if ended:
            return step
        step += stride


def killed_at(house: SignInHouse, step: int, command: tuple[str, ...]) -> bool:
    """Run a command that kills itself at a step; whether it came to its end before."""
    done = client.run(
        [sys.executable, __file__, "--at", str(step), *command, "--config", house.config],
        env=environment(house.folder, BROWSER=house.issuer.browser_command()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S * 2,
    )
    assert done.returncode in (0, -9), (step, done)
    return done.returncode == 0


def run(step: int, arguments: list[str]) -> None:
    from mcpx.__main__ import main as mcpx  # noqa: PLC0415 - in the process that is killed
    from tests.mcpx.setup.changes.killing import kill_self_at  # noqa: PLC0415 - it replaces functions of `os`

    sys.argv = ["mcpx", *arguments]
    kill_self_at(step)
    mcpx()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--at"]:
        run(int(sys.argv[2]), sys.argv[3:])
    else:
        main(int([*sys.argv, "1"][1]))

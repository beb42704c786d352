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

from tests.mcpx.changes.killing import kill_self_at  # noqa: E402
from tests.mcpx.oauth.sign_in_house import SignInHouse, houses  # noqa: E402
from tests.mcpx.serving import PATIENCE_S, environment  # noqa: E402

CALL = ("exec", "r", "count", json.dumps({"key": "during"}))


def main(stride: int) -> None:
    with houses() as house:
        for name, command in {"login": ("login", "r"), "refresh": CALL}.items():
            steps = play(house, command, stride)
            print(f"{name}: killed at each of {steps} steps", flush=True)


def play(house: SignInHouse, command: tuple[str, ...], stride: int) -> int:
    """Kill a command everywhere; how many steps it has."""
    step = 0
    while True:
        shutil.rmtree(house.folder / "state", ignore_errors=True)
        if command[0] == "exec":
            house.login()
            house.issuer.expire()
        asked = house.issuer.asked
        ended = killed_at(house, step, command)
        house.check_files()
        allowed = 1 if ended and command[0] == "login" else 2 if command[0] == "login" else 1 - ended
        house.check(asked=asked + allowed, key=f"{command[0]} {step}")
        if ended:
            return step
        step += stride


def killed_at(house: SignInHouse, step: int, command: tuple[str, ...]) -> bool:
    """Run a command that kills itself at a step; whether it came to its end before."""
    done = subprocess.run(
        [sys.executable, __file__, "--at", str(step), *command, "--config", house.config],
        env=environment(house.folder, BROWSER=house.issuer.browser_command()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode in (0, -9), (step, done)
    return done.returncode == 0


def run(step: int, arguments: list[str]) -> None:
    from mcpx.__main__ import main as mcpx  # noqa: PLC0415 - in the process that is killed

    sys.argv = ["mcpx", *arguments]
    kill_self_at(step)
    mcpx()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--at"]:
        run(int(sys.argv[2]), sys.argv[3:])
    else:
        main(int([*sys.argv, "1"][1]))

"""Kill the commands that change people's files at each of their steps, in a home with files of many clients.

`python kill_commands.py FOLDER [STRIDE]` plays every step, or one of STRIDE. After each kill every file is
old or new, whole; every server is in a client's file or in the configuration; the next command puts all files
back, or leaves all as they should be; and to undo what is left gives back the first byte.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from mcpx.setup import changes  # noqa: E402
from mcpx.setup.clients import CLIENTS, find_all, read_client_file  # noqa: E402
from tests.mcpx.cli.setup.ten_clients import SERVERS, environment, look, make_home, mcpx  # noqa: E402
from tests.mcpx.setup.changes.killing import kill_at  # noqa: E402

FOLDER, STRIDE = Path(sys.argv[1]).resolve(), int([*sys.argv, "1"][2])
HOME = FOLDER / "home"
CHAIN = ("import", "install", "install --adopt", "undo", "install --adopt", "uninstall", "undo", "undo")
Look = dict[str, tuple[int, object]]


def main() -> None:
    for name, value in environment(HOME).items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    HOME.mkdir(parents=True)
    make_home(HOME)
    looks, saved = [look(HOME)], [save(0)]
    for number, command in enumerate(CHAIN, 1):
        run(command)
        looks.append(look(HOME))
        saved.append(save(number))
        assert looks[-1] != looks[-2], command
    for number, command in enumerate(CHAIN):
        steps = play(command, saved[number], looks[number], looks[number + 1], looks[0])
        print(f"{number + 1}. {command}: killed at each of {steps} steps", flush=True)


def run(command: str) -> None:
    result = mcpx(HOME, *command.split(), "--yes")
    assert result.exit_code in (0, 1), result.output
    assert "Traceback" not in result.output


def save(number: int) -> Path:
    shutil.copytree(HOME, FOLDER / str(number), symlinks=True)
    return FOLDER / str(number)


def restore(saved: Path) -> None:
    shutil.rmtree(HOME)
    shutil.copytree(saved, HOME, symlinks=True)


def play(command: str, saved: Path, old: Look, new: Look, first: Look) -> int:
    """Kill a command everywhere; how many steps it has."""
    step = 0
    while True:
        restore(saved)
        ended = kill_at(step, lambda: run(command))
        check(f"{command}, step {step}", old, new, first, ended=ended)
        if ended:
            return step
        step += STRIDE


def check(where: str, old: Look, new: Look, first: Look, *, ended: bool) -> None:
    found = look(HOME)
    for name in {*old, *new}:
        assert found.get(name) in (old.get(name), new.get(name)), (where, name, found.get(name))
    assert servers() >= SERVERS - {"broken"}, (where, SERVERS - servers())
    changes.recover()
    found = look(HOME)
    assert found == new if ended else found in (old, new), (
        where,
        differing(found, old),
        differing(found, new),
    )
    assert not changes.unfinished(), where
    while changes.undo_last():
        pass
    assert look(HOME) == first, (where, differing(look(HOME), first))


def servers() -> set[str]:
    """The names of all servers, those of the clients and those of the configuration."""
    files = [read_client_file(file) for client in CLIENTS for file in find_all(client)]
    names = {name for file in files for name in [each.name for each in (*file.servers, *file.left_out)]}
    config = HOME / ".config/mcpx/config.json"
    return names | (set(json.loads(config.read_bytes())["mcpServers"]) if config.exists() else set())


def differing(one: Look, other: Look) -> list[str]:
    return [name for name in {*one, *other} if one.get(name) != other.get(name)]


if __name__ == "__main__":
    main()

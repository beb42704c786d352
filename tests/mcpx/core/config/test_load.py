"""Where the file is looked up, and what is said when it cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest

from mcpx.core.config import Stdio, load
from mcpx.errors import ConfigError
from mcpx.paths import config_file

NOBODY = 65534


def write(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"mcpServers": {{"{name}": {{"command": "x", "cwd": "w"}}}}}}')
    return path


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's config folder for mcpx, inside a folder of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return platformdirs.user_config_path("mcpx")


def problem(path: str | Path | None, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, environ=environ)
    return str(caught.value)


def test_the_argument_comes_first_then_the_variable_then_the_users_folder(
    tmp_path: Path, user_folder: Path
) -> None:
    argument = write(tmp_path / "arg.json", "argument")
    variable = write(tmp_path / "var.json", "variable")
    user = write(user_folder / "config.json", "user")
    environ = {"MCPX_CONFIG": str(variable)}
    assert load(argument, environ=environ).servers.keys() == {"argument"}
    assert load(str(argument), environ=environ).source == str(argument)
    assert load(environ=environ).servers.keys() == {"variable"}
    assert load(environ={}).servers.keys() == {"user"}
    assert load(environ={"MCPX_CONFIG": ""}).source == str(user)


def test_a_tilde_in_the_path_is_the_home_folder(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MCPX_CONFIG": "~/c.json"}
    assert config_file(environ=environ) == tmp_path / "c.json"
    assert config_file("~/d.json", environ=environ) == tmp_path / "d.json"


def test_a_relative_working_folder_starts_at_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "sub" / "c.json", "s")
    monkeypatch.chdir(tmp_path)
    config = load("sub/c.json", environ={})
    assert config.source == "sub/c.json"
    assert config.servers["s"].transport == Stdio(command="x", cwd=str(tmp_path / "sub" / "w"))


def test_a_missing_file_says_which_of_the_three_places_it_was(tmp_path: Path, user_folder: Path) -> None:
    gone = tmp_path / "gone.json"
    assert problem(gone) == f"{gone}: no such file; to begin: mcpx setup --config {gone}"
    assert problem(None, MCPX_CONFIG=str(gone)) == (
        f"{gone}: no such file; the environment variable MCPX_CONFIG names it; to begin: mcpx setup"
    )
    assert problem(None) == (
        f"{user_folder / 'config.json'}: no such file, and neither --config nor MCPX_CONFIG names another;"
        " to begin: mcpx setup"
    )


def test_a_folder_and_an_unreadable_path_say_so(tmp_path: Path) -> None:
    file = write(tmp_path / "c.json", "s")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert problem(tmp_path) == f"{tmp_path}: this is a folder; name the file in it"
    assert problem(file / "x") == f"{file}/x: cannot be read: Not a directory"
    assert problem(loop).startswith(f"{loop}: cannot be read: ")
    assert problem("a\0b").endswith("cannot be read: embedded null byte")


def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    file = write(tmp_path / "c.json", "s")
    file.chmod(0)
    with as_somebody():
        assert problem(file) == f"{file}: cannot be read: Permission denied"


@contextmanager
def as_somebody() -> Iterator[None]:
    """Not as root, who may read every file."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def test_errors_inside_the_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b'{"mcpServers": {"a": {"command": "x"}}, "queue_size": "3"}')
    told = f"{file}: $.queue_size: expected a whole number from 1 to 1000000, got a string"
    assert problem(file) == told
    file.write_bytes(b'{"mcpServers": }')
    assert problem(file) == f"{file}:1:16: not JSON: the value is missing after the colon"

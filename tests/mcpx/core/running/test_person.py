"""Whose PATH counts: the login shell's, unless this process has a better one of the same person."""

from __future__ import annotations

import pytest

from mcpx.core.running import person


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ("/usr/bin:/bin", "/login/bin:/usr/bin:/bin"),  # a program that was started from a desktop
        ("/other:/usr/bin", "/login/bin:/usr/bin:/bin:/other"),  # what others have comes last
        ("/venv/bin:/bin:/login/bin:/usr/bin", "/venv/bin:/bin:/login/bin:/usr/bin"),  # a terminal
        ("", "/login/bin:/usr/bin:/bin"),
    ],
)
def test_the_path_is_the_login_shells_or_that_of_a_terminal_which_has_it_all(own, found, tmp_path):
    (tmp_path / ".profile").write_text("PATH=/login/bin:/usr/bin:/bin\n")
    environ = {"HOME": str(tmp_path), "SHELL": "/bin/sh", "PATH": own}
    assert person(environ, anew=True).path == found

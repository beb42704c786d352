"""`scripts/release`: a version by one command, and the notes of it, in a small checkout of its own."""

from __future__ import annotations

import subprocess
from datetime import date

import pytest

from scripts.lab.releasing.__main__ import main
from scripts.lab.releasing.changelog import ReleaseError, notes, released, sections, version_of
from tests.docs import pages

CHANGELOG = """\
# Changelog

Words.

## [Unreleased]

### Added

- A thing, see [the page](docs/page.md) and [the format](https://example.com/).

## [0.2.0] - 2026-01-31

### Fixed

- Another.
"""


@pytest.fixture
def checkout(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
        done = subprocess.run(
            ["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout

    (tmp_path / "mcpx").mkdir()
    (tmp_path / "mcpx" / "version.py").write_text('"""V."""\n\n__version__ = "0.2.0"\nOTHER = 1\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    return tmp_path, git


def test_one_command_sets_the_version_dates_the_changelog_and_prints_the_notes(checkout, capsys):
    root, git = checkout
    assert main(["0.3.0"], root) == 0
    shown = capsys.readouterr()
    assert shown.out == "### Added\n\n- A thing, see the page and [the format](https://example.com/).\n"
    assert "git tag --annotate v0.3.0" in shown.err
    assert (root / "mcpx" / "version.py").read_text() == '"""V."""\n\n__version__ = "0.3.0"\nOTHER = 1\n'
    known = sections((root / "CHANGELOG.md").read_text())
    assert [*known] == ["Unreleased", "0.3.0", "0.2.0"]
    assert known["Unreleased"].text == ""
    assert known["0.2.0"] == sections(CHANGELOG)["0.2.0"]._replace(
        start=known["0.2.0"].start, end=known["0.2.0"].end
    )
    assert git("status", "--porcelain").split() == ["M", "CHANGELOG.md", "M", "mcpx/version.py"]
    assert main(["--notes", "0.2.0"], root) == 0
    assert capsys.readouterr().out == "### Fixed\n\n- Another.\n"


def test_a_dry_run_shows_the_same_and_changes_nothing(checkout, capsys):
    root, git = checkout
    (root / "untracked").touch()  # what is not committed is no hindrance to a look
    assert main(["0.3.0", "--dry-run"], root) == 0
    shown = capsys.readouterr()
    assert '+__version__ = "0.3.0"' in shown.err
    assert "+## [0.3.0] - " in shown.err
    assert "A thing" in shown.out
    assert git("status", "--porcelain").split() == ["??", "untracked"]


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.2.0", "CHANGELOG.md has a section [0.2.0] already"),
        ("0.1.9", "0.1.9 is before 0.2.0"),
        ("0.3", None),
        ("v0.3.0", "write 'v0.3.0' as 0.3.0"),
        ("0.3.0+local", "write '0.3.0+local' as 0.3.0"),
        ("next", "'next' is no version (PEP 440)"),
        ("0.4.0", "the tag v0.4.0 is there already"),
    ],
)
def test_a_version_that_cannot_be_is_refused_before_anything_is_written(checkout, capsys, version, why):
    root, git = checkout
    git("tag", "v0.4.0")
    assert main([version], root) == (1 if why else 0)
    if why:
        assert why in capsys.readouterr().err
        assert git("status", "--porcelain") == ""


def test_changes_that_are_not_committed_are_named(checkout, capsys):
    root, _ = checkout
    (root / "CHANGELOG.md").write_text(CHANGELOG + "more\n")
    assert main(["0.3.0"], root) == 1
    assert "M CHANGELOG.md" in capsys.readouterr().err
    assert "0.2.0" in (root / "mcpx" / "version.py").read_text()


def test_there_must_be_something_to_release():
    once = released(CHANGELOG, "0.3.0", date(2026, 2, 3))
    with pytest.raises(ReleaseError, match="nothing to release"):
        released(once, "0.4.0", date(2026, 2, 4))
    with pytest.raises(ReleaseError, match=r"no section \[9\]; it has Unreleased, 0.2.0"):
        notes(CHANGELOG, "9")
    with pytest.raises(ReleaseError, match=r"two sections of 0\.2\.0"):
        sections(CHANGELOG + "\n## [0.2.0] - 2026-01-31\n")


def test_the_changelog_of_this_checkout_can_be_released():
    text = pages.read(pages.ROOT / "CHANGELOG.md")
    assert "](docs/" not in notes(text)
    once = released(text, "999.0.0", date(2026, 2, 3))
    assert sections(once)["999.0.0"].text == sections(text)["Unreleased"].text
    assert version_of("1.2.3rc1") == "1.2.3rc1"


def test_the_lines_that_try_it_name_the_version(checkout, capsys):
    root, _ = checkout
    assert main(["--try"], root) == 0
    assert capsys.readouterr().out.splitlines()[0] == "uvx --from mcpx-gateway==0.2.0 mcpx demo"
    assert main(["--try", "https://example.com/v/"], root) == 0
    url = "https://example.com/v/mcpx_gateway-0.2.0-py3-none-any.whl"
    assert capsys.readouterr().out.splitlines()[0] == f"uvx --from {url} mcpx demo"

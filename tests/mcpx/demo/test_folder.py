"""The one rule of the knowledge base: only visible files inside the folder exist."""

from __future__ import annotations

import os

import pytest

from mcpx.demo import folder


@pytest.fixture
def root(tmp_path):
    """docs/ with open.txt, sub/deep.txt and hidden things, beside a file that must not be reached."""
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / ".git").mkdir()
    (docs / "open.txt").write_text("open")
    (docs / "a b%.txt").write_text("odd")
    (docs / "sub" / "deep.txt").write_text("deep")
    (docs / ".hidden.txt").write_text("no")
    (docs / ".git" / "config.txt").write_text("no")
    (tmp_path / "outside.txt").write_text("no")
    (tmp_path / "docs-too").mkdir()
    (tmp_path / "docs-too" / "near.txt").write_text("no")
    (docs / "out.txt").symlink_to(tmp_path / "outside.txt")
    (docs / "outdir").symlink_to(tmp_path / "docs-too")
    (docs / "loop.txt").symlink_to(docs / "loop.txt")
    (docs / "alias.txt").symlink_to(docs / "open.txt")
    return docs.resolve()


def test_hidden_files_and_links_outside_are_not_listed(root):
    assert [d.name for d in folder.documents(root)] == ["a b%.txt", "alias.txt", "open.txt", "sub/deep.txt"]


def test_every_listed_document_is_found_by_its_own_uri(root):
    listed = folder.documents(root)
    assert len(listed) == 4
    assert [folder.find(root, document.uri) for document in listed] == listed


@pytest.mark.parametrize(
    "spelt",
    [
        "{root}/../outside.txt",
        "{root}/%2e%2e/outside.txt",
        "{root}/%2e%2e%2foutside.txt",
        "{root}/%252e%252e/outside.txt",
        "{root}/sub/../open.txt",
        "{root}/..%5coutside.txt",
        "{root}/out.txt",
        "{root}/outdir/near.txt",
        "{root}/loop.txt",
        "{root}-too/near.txt",
        "{root}/.hidden.txt",
        "{root}/.git/config.txt",
        "{root}/sub",
        "{root}/",
        "{root}",
        "{root}//open.txt",
        "{root}//etc/hosts",
        "{root}/open.txt%00",
        "{root}/open.txt?query",
        "{root}/open.txt#part",
        "/etc/hosts",
    ],
)
def test_a_uri_that_is_not_plainly_inside_is_not_there(root, spelt):
    assert folder.find(root, "file://" + spelt.format(root=root.as_posix())) is None


@pytest.mark.parametrize("start", ["", "http://", "file://elsewhere", "FILE+x://", "file://["])
def test_another_scheme_or_host_is_not_there(root, start):
    assert folder.find(root, f"{start}{root.as_posix()}/open.txt") is None


def test_a_name_that_is_not_text_is_left_out(root):
    before = folder.documents(root)
    try:
        (root / os.fsdecode(b"caf\xe9.txt")).write_text("no")
    except OSError:
        pytest.skip("this file system takes only names that are text")
    assert folder.documents(root) == before


def test_localhost_is_this_host(root):
    assert folder.find(root, f"file://localhost{root.as_posix()}/open.txt").name == "open.txt"


def test_a_folder_reached_through_a_link_works(root, tmp_path):
    (tmp_path / "linked").symlink_to(root)
    assert folder.documents(tmp_path / "linked") == folder.documents(root)


def test_text_is_read_as_text_and_anything_else_as_bytes(root):
    (root / "raw.txt").write_bytes(b"\xff\xfe\x00")
    assert folder.read(folder.find(root, (root / "open.txt").as_uri())) == "open"
    assert folder.read(folder.find(root, (root / "raw.txt").as_uri())) == b"\xff\xfe\x00"


def test_search_ignores_case_counts_lines_from_one_and_skips_binary(root):
    (root / "open.txt").write_text("One\nTWO two\n")
    (root / "raw.txt").write_bytes(b"two\xff")
    found = folder.search(root, "Two")
    assert [(m.name, m.line, m.text) for m in found] == [
        ("alias.txt", 2, "TWO two"),
        ("open.txt", 2, "TWO two"),
    ]

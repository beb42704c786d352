"""Which known name a wrong one was meant to be."""

from __future__ import annotations

import pytest

from mcpx.core.text.nearest import nearest

FILES = ["write_file", "list_directory", "read_file", "read_multiple_files", "move_file"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("readFile", "read_file"),
        ("READ-FILE", "read_file"),
        ("read file", "read_file"),
        ("file_read", "read_file"),
        ("read_fiel", "read_file"),
        ("readmultiple", "read_multiple_files"),
        ("directory", "list_directory"),
        ("fs_list_directory", "list_directory"),
    ],
)
def test_the_name_that_was_meant_comes_first(name, found):
    assert nearest(name, FILES)[0] == found


@pytest.mark.parametrize("name", ["", "__", "zzzz", "query_database", "\n"])
def test_a_name_like_none_finds_none(name):
    assert nearest(name, FILES) == []


def test_no_more_are_found_than_asked_for():
    assert len(nearest("file", FILES, most=2)) == 2
    assert len(nearest("file", FILES)) == 3
    assert nearest("file", FILES, most=0) == []


def test_no_name_is_found_twice():
    found = nearest("read_fil", FILES, most=10)
    assert len(found) == len(set(found)) > 1


def test_names_in_other_scripts_are_compared_as_well():
    assert nearest("读取 文件", ["写入_文件", "读取_文件"])[0] == "读取_文件"


def test_a_typo_is_nearly_the_same_name_and_not_a_part_of_it():
    keys = ["call_timeout", "command", "port"]
    assert nearest("callTimeot", keys, typos_only=True) == ["call_timeout"]
    assert nearest("comand", keys, typos_only=True) == ["command"]
    assert nearest("timeout", keys, typos_only=True) == []
    assert nearest("prot", keys, typos_only=True) == []

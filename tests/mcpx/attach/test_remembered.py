"""What is kept of a daemon's answers, for whom, and what becomes of files that are not in order."""

from __future__ import annotations

import json
import os
import time

import msgspec
import pytest

from mcpx.attach import remembered
from mcpx.attach.pending import PendingRequest
from mcpx.attach.remembered import RememberedAnswers, identify
from mcpx.core.store.paths import daemon_paths
from mcpx.core.system.endpoint import DEFAULT_ENDPOINT, Endpoint, greeting
from mcpx.version import __version__

ME = "me"


def raw(value) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def request(method: str, **params) -> PendingRequest:
    return PendingRequest(method, raw(params))


INITIALIZE = request("initialize", capabilities={})
TOOLS = request("tools/list", _meta={"progressToken": 1})
PAGE_2 = request("tools/list", cursor="2")


class House:
    """A configuration, and shims of one client program that come one after the other."""

    def __init__(self, folder) -> None:
        self.config = folder / "config.json"
        self.config.write_text("{}")
        self.paths = daemon_paths(str(self.config))
        self.folder = self.paths.folder / "attach"

    def shim(self, endpoint: Endpoint = DEFAULT_ENDPOINT) -> RememberedAnswers:
        return RememberedAnswers(self.paths, greeting(endpoint))

    def write(self, *answers, client=ME, version=__version__) -> None:
        shim = self.shim()
        shim.daemon_answers(self.paths, version)
        for asked, result in answers:
            shim.note(client, asked, raw(result))
        shim.write()

    def found(self, asked: PendingRequest = TOOLS, *, client=ME):
        found = self.shim().find(client, asked)
        return None if found is None else json.loads(bytes(found))

    @property
    def file(self):
        (file,) = self.folder.iterdir()
        return file


@pytest.fixture
def house(tmp_path, monkeypatch) -> House:
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    return House(tmp_path)


def test_an_answer_is_found_by_the_next_shim_whatever_accompanies_the_request(house):
    house.write((TOOLS, {"tools": [1]}), (INITIALIZE, {"capabilities": {}}))
    assert house.found(request("tools/list")) == {"tools": [1]}
    assert house.found(request("initialize", capabilities={}, _meta={"a": 1})) == {"capabilities": {}}
    assert house.found(PAGE_2) is None
    assert house.found(request("prompts/list")) is None
    assert (house.file.stat().st_mode & 0o777, house.folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_nothing_is_found_for_another_client_endpoint_configuration_or_version(house, monkeypatch):
    house.write((TOOLS, {"tools": [1]}))
    assert house.found(client="other") is None
    assert house.shim(Endpoint(expose="all")).find(ME, TOOLS) is None
    monkeypatch.setattr(remembered, "__version__", "9")
    assert house.found() is None
    monkeypatch.setattr(remembered, "__version__", __version__)
    assert house.found() == {"tools": [1]}
    os.utime(house.config, ns=(1, 1))
    assert house.found() is None
    house.config.unlink()
    assert house.found() is None


def test_other_requests_and_answers_of_a_daemon_of_another_version_are_not_kept(house):
    house.write((request("resources/read", uri="a:1"), {}), (request("ping"), {}))
    house.write((TOOLS, {"tools": [1]}), version="0")
    assert not house.folder.exists()


def test_of_two_shims_the_last_wins_and_what_only_one_noted_is_kept(house):
    one, two = house.shim(), house.shim()
    for number, shim in enumerate((one, two)):
        shim.daemon_answers(house.paths, __version__)
        shim.note(ME, TOOLS, raw({"tools": [number]}))
    one.note(ME, INITIALIZE, raw({"one": 1}))
    one.write()
    two.write()
    assert house.found() == {"tools": [1]}
    assert house.found(INITIALIZE) == {"one": 1}


def test_pages_go_with_the_first_page_that_they_followed(house):
    house.write((TOOLS, {"tools": [1], "nextCursor": "2"}), (PAGE_2, {"tools": [2]}))
    house.write((TOOLS, {"tools": [1], "nextCursor": "2"}))
    assert house.found(PAGE_2) == {"tools": [2]}
    house.write((TOOLS, {"tools": [0], "nextCursor": "2"}))
    assert house.found(PAGE_2) is None


def test_what_is_known_already_is_not_written_again(house):
    house.write((TOOLS, {"tools": [1]}))
    before = house.file.stat()
    os.utime(house.file, ns=(1, 1))
    shim = house.shim()
    shim.daemon_answers(house.paths, __version__)
    shim.note(ME, TOOLS, raw({"tools": [1]}))
    shim.write()
    after = house.file.stat()
    assert (after.st_ino, after.st_mtime_ns > 1) == (before.st_ino, True)  # it was used
    os.utime(house.file, ns=(1, 1))
    shim.note(ME, TOOLS, raw({"tools": [1]}))
    shim.write()
    assert house.file.stat().st_mtime_ns == 1


def test_answers_to_a_configuration_that_has_changed_meanwhile_are_not_kept(house):
    shim = house.shim()
    shim.daemon_answers(house.paths, __version__)
    shim.note(ME, TOOLS, raw({"tools": [1]}))
    os.utime(house.config, ns=(1, 1))
    shim.write()
    assert not house.folder.exists()
    shim.daemon_answers(house.paths, __version__)  # the next daemon has read the new one
    shim.note(ME, TOOLS, raw({"tools": [2]}))
    shim.write()
    assert house.found() == {"tools": [2]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-20]),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff" * 100),
        lambda file: file.write_bytes(b"[" * 100_000),
        lambda file: file.write_bytes(file.read_bytes().replace(b":", b":\n", 1)),
        lambda file: file.write_bytes(file.read_bytes().replace(b"[1]", b"[" + b"1," * (2 << 20) + b"1]")),
        lambda file: file.write_bytes(file.read_bytes().replace(b'"key":"[1', b'"key":"[2')),
        lambda file: file.write_bytes(file.read_bytes().replace(b'"tools":', b'"t\xffols":')),
        lambda file: file.chmod(0o666),
        lambda file: (file.rename(file.with_suffix(".x")), file.symlink_to(file.with_suffix(".x"))),
        lambda file: (file.unlink(), os.mkfifo(file)),
    ],
)
def test_a_file_that_is_not_in_order_is_not_used_and_replaced(house, spoil):
    house.write((TOOLS, {"tools": [1]}))
    file = house.file
    spoil(file)
    assert house.found() is None
    house.write((TOOLS, {"tools": [2]}))
    assert house.found() == {"tools": [2]}
    assert file.is_file()
    assert not file.is_symlink()


def test_a_folder_that_others_may_change_is_not_used(house):
    house.write((TOOLS, {"tools": [1]}))
    house.folder.chmod(0o777)
    assert house.found() is None


def test_a_file_and_the_folder_are_bounded(house, monkeypatch):
    monkeypatch.setattr(remembered, "MAX_FILE_BYTES", 70_000)
    house.write((TOOLS, {"tools": ["x" * 10_000]}), (INITIALIZE, {"a": 1}))
    assert house.found() is None
    assert house.found(INITIALIZE) == {"a": 1}
    house.write((INITIALIZE, "x" * 70_000))
    assert house.found(INITIALIZE) is None  # what is kept is no longer so
    monkeypatch.setattr(remembered, "MAX_ANSWERS", 3)
    house.write(*((request("tools/list", cursor=str(number)), {}) for number in range(10)))
    assert len(json.loads(house.file.read_text())["answers"]) == 3
    old = house.folder / "old.json"
    old.write_text("")
    os.utime(old, (time.time() - remembered.MAX_UNUSED_S - 9,) * 2)
    partial = house.folder / "a.b.new"
    partial.write_text("")
    os.utime(partial, (time.time() - remembered.MAX_PARTIAL_AGE_S - 9,) * 2)
    monkeypatch.setattr(remembered, "MAX_FILES", 5)
    for number in range(10):
        house.write((TOOLS, {"tools": [number]}), client=f"client {number}")
    assert len(list(house.folder.iterdir())) == 5
    assert not old.exists()
    assert not partial.exists()
    assert house.found(client="client 9") == {"tools": [9]}


def test_a_folder_that_cannot_be_written_costs_one_line(house, capsys):
    house.folder.parent.mkdir(parents=True)
    house.folder.write_text("")  # in the way
    shim = house.shim()
    shim.daemon_answers(house.paths, __version__)
    for number in range(3):
        shim.note(ME, TOOLS, raw({"tools": [number]}))
        shim.write()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(house.folder) in said


def test_a_refusal_removes_the_file(house):
    house.write((TOOLS, {"tools": [1]}))
    shim = house.shim()
    assert shim.find(ME, TOOLS)
    shim.drop()
    assert house.found() is None
    assert list(house.folder.iterdir()) == []


def test_a_client_is_known_by_what_it_says_of_itself():
    def opening(**more):
        return request("initialize", protocolVersion="2025-06-18", clientInfo={"name": "a"}, **more)

    first = identify(TOOLS, opening(capabilities={"roots": {}}))
    assert first == identify(TOOLS, opening(capabilities={"roots": {}}, _meta={"trace": 5}))
    assert first != identify(TOOLS, opening(capabilities={}))
    assert identify(TOOLS, opening(capabilities={"long": "x" * 10_000})) is None
    meta = {f"io.modelcontextprotocol/{key}": key for key in ("protocolVersion", "clientInfo")}
    modern = identify(request("tools/list", _meta=meta), None)
    assert modern == identify(request("prompts/list", _meta=meta | {"progressToken": 5}), None)
    other = meta | {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    assert modern != identify(request("tools/list", _meta=other), None)
    for nobody in ({}, {"_meta": {}}, {"_meta": 5}):
        assert identify(request("tools/list", **nobody), None) is None

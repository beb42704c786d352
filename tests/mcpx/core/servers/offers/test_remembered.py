"""The files of remembered catalogues: given back to the same server only, and never a reason to fail."""

from __future__ import annotations

import multiprocessing
import os
import stat
import time

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from mcpx.core.catalog.model import Catalogue, LeftOut, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo, diff
from mcpx.core.config import Http, ServerConfig, Stdio
from mcpx.core.config.per_server import ProcessLimits
from mcpx.core.servers.offers import remembered
from mcpx.core.servers.offers.entries import read_entry
from mcpx.core.servers.offers.remembered import CatalogueFiles
from mcpx.core.servers.offers.server_identity import server_identity

KEY = 's3cret-"quoted"-key'
DESCRIPTIONS = {("doc:///a", "text/plain", None, None): 'begins: "a"', ("doc:///b", None, 3, "2026"): None}


@pytest.fixture
def state(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def files(state):
    return CatalogueFiles(state)


@pytest.fixture
def server(state):
    (state / "server.py").write_text("1")
    stdio = Stdio(command="python3", args=("server.py",), env={"KEY": KEY}, cwd=str(state))
    return ServerConfig(name="s", transport=stdio)


def entry(kind, **members):
    return read_entry(kind, "s", members)[0]


def offered(*names, **more):
    tools = [
        entry(
            ToolInfo,
            title=None,
            name=name,
            own={"of the server's": [1e300, 2**70, None]},
            inputSchema={"type": "object"},
            description=f"é takes {KEY}, or half a \ud800 character",
            annotations={"readOnlyHint": True},
        )
        for name in names
    ]
    return Catalogue(generation=7, tools={tool.name: tool for tool in tools}, **more)


def whole():
    page = entry(ResourceInfo, uri="doc:///a", name="a", mimeType="text/plain", size=3)
    return offered(
        "one",
        "two",
        resources={page.uri: page},
        templates=(entry(TemplateInfo, uriTemplate="doc:///{a}", name="t"),),
        prompts=(entry(PromptInfo, name="p", arguments=[{"name": "a", "required": True}]),),
        server_title="S",
        server_version="1",
        instructions=f"Use {KEY}.",
        protocol_version="2025-11-25",
        capabilities={"tools": {"listChanged": True}},
        left_out=(LeftOut(kind="tool", name="three", reason="too deep"),),
    )


def keep(files, server, catalogue=None, descriptions=None):
    files.write(server, server_identity(server), catalogue or whole(), descriptions or {})


def load(files, server):
    return files.load(server, server_identity(server))


def only_file(files):
    (path,) = files.folder.iterdir()
    return path


def test_what_was_kept_comes_back_as_it_was(files, server):
    keep(files, server, whole(), DESCRIPTIONS)
    found = load(files, server)
    assert not diff(whole(), found.catalogue)
    assert found.descriptions == DESCRIPTIONS
    assert abs(found.listed_at - time.time()) < 60
    expected, back = whole(), found.catalogue
    for name in ("protocol_version", "capabilities", "left_out", "server_version"):
        assert getattr(back, name) == getattr(expected, name)
    order = [list(tool.to_protocol()) for tool in back.tools.values()]
    assert order == [list(tool.to_protocol()) for tool in expected.tools.values()]
    assert (back.generation, back.listed_at) == (0, found.listed_at)


def test_only_the_owner_can_read_it_and_no_secret_is_in_it(files, server):
    keep(files, server)
    path = only_file(files)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert b"s3cret" not in path.read_bytes()
    assert "s3cret" not in path.name


def test_nothing_is_known_of_a_new_server(files, server):
    with capture_logs() as logs:
        assert load(files, server) is None
    assert logs == []


def changed(server, **transport):
    return replace(server, transport=replace(server.transport, **transport))


@pytest.mark.parametrize(
    "other",
    [
        lambda s: replace(s, name="other"),
        lambda s: replace(s, era="modern"),
        lambda s: replace(s, sessions="per_client"),
        lambda s: replace(s, auto_describe=False),
        lambda s: replace(s, transport=Http(url="http://localhost/mcp")),
        lambda s: changed(s, args=("server.py", "-v")),
        lambda s: changed(s, env={"KEY": KEY, "MORE": "1"}),
        lambda s: changed(s, env={"KEY": "\udcff"}),
        lambda s: changed(s, cwd="/"),
        lambda s: changed(s, command="sh"),
        lambda s: changed(s, command="no such command"),
    ],
)
def test_another_entry_is_another_server(files, server, other):
    keep(files, server)
    assert load(files, other(server)) is None
    assert load(files, server) is not None


def test_other_limits_of_its_processes_are_no_other_server(files, server):
    keep(files, server)
    assert load(files, changed(server, limits=ProcessLimits(nice=5))) is not None


def test_the_value_of_a_header_counts(files):
    one = ServerConfig(name="s", transport=Http(url="http://localhost/mcp", headers={"K": "one"}))
    keep(files, one)
    assert load(files, changed(one, headers={"K": "two"})) is None
    assert load(files, one) is not None


def test_settings_that_change_nothing_of_what_is_offered_do_not_count(files, server):
    keep(files, server)
    same = replace(server, pinned=("x",), call_limits=replace(server.call_limits, call_timeout=1.0))
    assert load(files, same) is not None


def test_a_program_that_was_replaced_is_another_server(files, server, state):
    program = state / "program"
    program.write_text("1")
    program.chmod(0o700)
    by_path = changed(server, command=str(program), args=())
    keep(files, server)
    keep(files, by_path)
    os.utime(program, ns=(1, 1))
    assert load(files, by_path) is None
    (state / "server.py").write_text("22")
    assert load(files, server) is None


def test_data_among_the_arguments_may_change(files, server, state):
    (state / "memory.db").write_text("1")
    with_data = changed(server, args=("server.py", "memory.db"))
    keep(files, with_data)
    (state / "memory.db").write_text("22")
    assert load(files, with_data) is not None


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-40])


def cut_to_its_first_line(path):
    path.write_bytes(path.read_bytes().split(b"\n")[0])


def of_another_format(path):
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))


def with_other_words(path):
    path.write_bytes(path.read_bytes().replace(b"takes", b"Takes"))


def a_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def open_to_others(path):
    path.chmod(0o666)


def of_another_user(path):
    os.chown(path, os.getuid() + 1, -1)


def a_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def rubbish(contents):
    return lambda path: path.write_bytes(contents)


@pytest.mark.parametrize(
    "spoil",
    [
        cut_short,
        cut_to_its_first_line,
        of_another_format,
        with_other_words,
        a_link,
        open_to_others,
        pytest.param(of_another_user, marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root")),
        a_pipe,
        *map(
            rubbish, (b"", b"{", b"[" * 100_000, b"\xff\x00", b'{"format":1,"server":"s","digest":"d"}\n{}')
        ),
    ],
)
def test_a_file_that_mcpx_has_not_written_so_is_removed_with_one_line_in_the_log(files, server, spoil):
    keep(files, server)
    path = only_file(files)
    spoil(path)
    with capture_logs() as logs:
        assert load(files, server) is None
        assert load(files, server) is None
    assert [line["event"] for line in logs] == ["catalogue.unreadable"]
    assert not os.path.lexists(path)
    keep(files, server)
    assert load(files, server) is not None


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"name": "t"}]},
        {"tools": [{"name": "t" * 200, "inputSchema": {}}]},
        {"tools": [{"name": "t", "inputSchema": {}, "description": "x" * 70_000}]},
        {"tools": {"t": 1}},
        {"about": {"instructions": 3}},
        {"descriptions": [["doc:///a", "text"]]},
        {"tools": None},
    ],
)
def test_what_no_listing_can_have_is_removed(files, server, body, monkeypatch):
    monkeypatch.setattr(remembered, "encode_catalogue", lambda *_: written(body))
    keep(files, server)
    with capture_logs() as logs:
        assert load(files, server) is None
    assert [line["event"] for line in logs] == ["catalogue.unreadable"]
    assert list(files.folder.iterdir()) == []


def written(body):
    empty = {"about": {}, "tools": [], "resources": [], "templates": [], "prompts": []}
    return msgspec.json.encode(empty | body)


def test_the_file_of_another_server_is_not_given_under_a_new_name(files, server):
    keep(files, server)
    other = replace(server, name="other")
    only_file(files).rename(files.folder / f"{server_identity(other)}.json")
    with capture_logs() as logs:
        assert load(files, other) is None
    assert logs[0]["reason"] == "it belongs to another server"


def test_a_folder_that_others_may_change_is_not_believed(files, server):
    keep(files, server)
    files.folder.chmod(0o777)
    with capture_logs() as logs:
        assert load(files, server) is None
        keep(files, server, offered("new"))
    assert [line["event"] for line in logs] == ["catalogue.not_believed"]
    files.folder.chmod(0o700)
    assert set(load(files, server).catalogue.tools) == {"one", "two"}


def test_a_catalogue_that_is_too_large_is_not_kept_and_said_so_once(files, server, monkeypatch):
    keep(files, server)
    monkeypatch.setattr(remembered, "MAX_FILE_BYTES", 100)
    with capture_logs() as logs:
        keep(files, server)
        keep(files, server)
    assert [line["event"] for line in logs] == ["catalogue.too_large"]
    assert list(files.folder.iterdir()) == []  # what was kept before is not right any more


def test_an_equal_catalogue_is_not_written_again_but_is_young_again(files, server):
    keep(files, server)
    before = only_file(files).stat()
    os.utime(only_file(files), (1, 1))
    keep(files, server)
    after = only_file(files).stat()
    assert after.st_ino == before.st_ino
    assert load(files, server).listed_at > before.st_mtime - 1
    keep(files, server, offered("new"))
    assert only_file(files).stat().st_ino != before.st_ino
    assert set(load(files, server).catalogue.tools) == {"new"}


def test_its_age_is_that_of_the_last_time_that_it_was_right(files, server):
    identity = server_identity(server)
    keep(files, server)
    os.utime(only_file(files), (1_000, 1_000))
    assert load(files, server).listed_at == 1_000
    files.touch(identity, right=False)
    assert load(files, server).listed_at == 1_000
    files.touch(identity, right=True)
    assert load(files, server).listed_at > time.time() - 60
    files.touch("no such server", right=True)


def test_a_file_from_the_future_is_of_now(files, server):
    keep(files, server)
    os.utime(only_file(files), (2**33, 2**33))
    assert load(files, server).listed_at <= time.time()


def test_what_nobody_has_wanted_for_a_month_goes_and_the_rest_stays(files, server, state):
    old, used = replace(server, name="old"), replace(server, name="used")
    for each in (server, old, used):
        keep(files, each)
    month = time.time() - 31 * 86400
    for each in (old, used):
        os.utime(files.folder / f"{server_identity(each)}.json", (month, month))
    assert load(files, used).listed_at == pytest.approx(month)
    (files.folder / "not ours.txt").write_text("x")
    os.utime(files.folder / "not ours.txt", (1, 1))
    files.prune()
    assert load(files, old) is None
    assert load(files, used) is not None
    assert (files.folder / "not ours.txt").exists()


def test_the_folder_is_bounded_and_the_oldest_go(files, server, monkeypatch):
    monkeypatch.setattr(remembered, "MAX_FILES", 3)
    servers = [replace(server, name=str(number)) for number in range(5)]
    for number, each in enumerate(servers):
        keep(files, each)
        at = time.time() - 1000 + number
        os.utime(files.folder / f"{server_identity(each)}.json", (at, at))
    files.prune()
    assert [load(files, each) is not None for each in servers] == [False, False, True, True, True]
    monkeypatch.setattr(remembered, "MAX_FOLDER_BYTES", 0)
    files.prune()
    assert list(files.folder.iterdir()) == []


def test_what_a_killed_process_has_begun_goes_after_an_hour(files, server):
    keep(files, server)
    for name, age_s in (("a.1-1.new", 30), ("a.1-2.new", 7200)):
        (files.folder / name).write_text("half")
        at = time.time() - age_s
        os.utime(files.folder / name, (at, at))
    files.prune()
    assert sorted(path.name for path in files.folder.glob("*.new")) == ["a.1-1.new"]


def _write_often(state, server, names):
    for _ in range(20):
        keep(CatalogueFiles(state), server, offered(*names))
        keep(CatalogueFiles(state), server, offered(names[0]))


def test_of_processes_that_write_at_once_one_is_right(files, server, state):
    forked = multiprocessing.get_context("fork")
    lists = (["a", "b"], ["c", "d"], ["e", "f"])
    processes = [forked.Process(target=_write_often, args=(state, server, names)) for names in lists]
    for process in processes:
        process.start()
    seen = [load(files, server) for _ in range(40)]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    allowed = [{"a"}, {"c"}, {"e"}, *map(set, lists)]
    assert all(set(each.catalogue.tools) in allowed for each in seen if each is not None)
    assert set(load(files, server).catalogue.tools) in allowed
    assert [path.suffix for path in files.folder.iterdir()] == [".json"]

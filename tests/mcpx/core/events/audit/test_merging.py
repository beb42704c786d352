"""The audit logs of several gateways: by time, each with its gateway, and each verified on its own."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from click.testing import CliRunner

from mcpx.cli.trust.audit import audit as command
from mcpx.core.events.audit.chain_files import GENESIS, note_chains, segment_path
from mcpx.core.events.audit.merging import NoSuchLogError, last_of_all, logs_of, verify_all
from mcpx.core.events.audit.reading import Selection

pytestmark = pytest.mark.anyio


def written(folder, *times, name="echo", size=0):
    """A log in the state folder, with a line for each time; its head is not there."""
    (chains := folder / "audit").mkdir(parents=True, mode=0o700)
    last = GENESIS
    with segment_path(chains, 1, 1).open("wb") as file:
        for seq, time in enumerate(times, 1):
            said = {"time": time, "kind": "tool", "name": name, "client": "ide/1", "server": "s"}
            ended = {"outcome": "ok", "ms": 1.0, "what": "x" * size, "seq": seq, "prev": last.decode()}
            line = json.dumps(said | ended, separators=(",", ":")).encode()[:-1]
            last = sha256(line).hexdigest().encode()
            file.write(b'%b,"hash":"%b"}\n' % (line, last))
    note_chains(chains, 1)
    return folder


def at(second: int) -> str:
    return f"2026-11-22T10:00:{second:02d}.000000Z"


def run(*arguments, state):
    return CliRunner(env={"MCPX_STATE_DIR": str(state), "MCPX_CONFIG": str(state / "none.json")}).invoke(
        command, [*map(str, arguments)]
    )


@pytest.fixture
def two(tmp_path):
    """Two logs whose lines take turns."""
    return written(tmp_path / "eu", at(1), at(3), at(5)), written(tmp_path / "us", at(2), at(4), name="log")


def test_lines_of_all_are_in_the_order_of_their_time_with_their_gateway(two, tmp_path):
    eu, us = two
    done = run("--merge", eu, "--merge", us, "--json", state=tmp_path / "own")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["gateway"] for line in lines] == ["eu", "us", "eu", "us", "eu"]
    assert [line["time"] for line in lines] == [at(second) for second in range(1, 6)]
    shown = run("--merge", f"Frankfurt={eu}", "--merge", us, state=tmp_path / "own").stdout.splitlines()
    assert ["Frankfurt" in line for line in shown] == [True, False, True, False, True]


def test_a_line_without_its_last_member_is_the_one_in_the_log(two, tmp_path):
    done = run("--merge", two[1], "-n", 1, "--json", state=tmp_path / "own").stdout.strip()
    stands = (two[1] / "audit" / "1-000000000001.jsonl").read_text().splitlines()[-1]
    assert done.removesuffix(',"gateway":"us"}') + "}" == stands


def test_the_last_lines_and_the_filters_are_of_all_together(two, tmp_path):
    logs = logs_of([*map(str, two)], tmp_path / "own" / "audit")
    assert [line.time for line in last_of_all(logs, Selection(), 2)] == [at(4), at(5)]
    assert {line.gateway for line in last_of_all(logs, Selection(tool="log"), 9)} == {"us"}
    assert [line.time for line in last_of_all(logs, Selection(since=at(4)), 9)] == [at(4), at(5)]


def test_the_own_log_is_one_of_them(two, tmp_path):
    own = written(tmp_path / "own", at(9))
    logs = logs_of([str(two[0])], own / "audit")
    assert [log.gateway for log in logs] == ["here", "eu"]
    assert [log.gateway for log in logs_of([str(own), str(two[0])], own / "audit")] == ["own", "eu"]


def test_a_folder_that_is_given_twice_and_a_copy_of_it_count_once(two, tmp_path):
    eu, us = two
    (tmp_path / "link").symlink_to(eu)
    shutil.copytree(eu, tmp_path / "copy")
    given = [eu, eu / "audit", tmp_path / "link", us, tmp_path / "copy"]
    logs = logs_of([*map(str, given)], tmp_path / "own" / "audit")
    assert [log.gateway for log in logs] == ["eu", "us", "copy"]
    assert [line.gateway for line in last_of_all(logs, Selection(), 9)] == ["eu", "us", "eu", "us", "eu"]


def test_folders_of_one_name_are_told_apart_by_more_of_their_path(tmp_path):
    for place in ("a", "b"):
        written(tmp_path / place / "state", at(1), name=place)
    given = [str(tmp_path / place / "state") for place in ("a", "b")]
    assert [log.gateway for log in logs_of(given, tmp_path / "own")] == ["a/state", "b/state"]


@pytest.mark.parametrize("given", [["nowhere"], ["x=nowhere"], ["x={eu}", "x={us}"], ["x={eu}", "y={eu}"]])
def test_what_cannot_be_merged_is_refused(two, tmp_path, given):
    texts = [text.format(eu=two[0], us=two[1]) for text in given]
    with pytest.raises(NoSuchLogError):
        logs_of(texts, tmp_path)
    refused = run("--merge", *" --merge ".join(texts).split(), state=tmp_path / "own")
    assert (refused.exit_code, "Traceback" in refused.output) == (2, False)


async def test_a_folder_without_a_log_is_named_and_does_not_pass_as_whole(log, tmp_path):
    log.write("one")
    (empty := tmp_path / "new gateway").mkdir()
    shown = run("--merge", empty, "--json", state=tmp_path)
    assert (shown.exit_code, len(shown.stdout.splitlines())) == (0, 1)
    assert f"new gateway: there is no audit log in {empty}" in shown.stderr
    checked = run("verify", "--merge", empty, state=tmp_path)
    assert checked.exit_code == 1
    assert "here: 1 lines in 1 chain: nothing is changed or missing" in checked.stdout
    assert "new gateway: 0 lines in 0 chains: 1 problem" in checked.stdout


async def test_a_broken_chain_is_that_of_its_gateway(log, tmp_path):
    log.write("one", "two")
    other = shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name} other") / "audit"
    (file,) = other.glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'"name":"one"', b'"name":"won"'))
    given = f"bad={other.parent}"
    checked = run("verify", "--merge", given, "--json", state=tmp_path)
    here, bad = json.loads(checked.stdout)["gateways"]
    assert (checked.exit_code, here["problems"], here["lines"]) == (1, [], 2)
    assert (bad["gateway"], [each["problem"] for each in bad["problems"]]) == (
        "bad",
        ["one of the lines 1 to 2 was changed"],
    )
    listed = run("--merge", given, state=tmp_path)
    assert (listed.exit_code, len(listed.stdout.splitlines())) == (1, 3)  # the changed line is another one
    assert listed.stderr.startswith("bad: 1-000000000001.jsonl:1: one of the lines 1 to 2 was changed")
    assert run("--merge", given, "verify", state=tmp_path).exit_code == 1


async def test_what_calls_itself_another_gateway_does_not_pass_for_it(tmp_path):
    forged = written(tmp_path / "us", at(1))
    (file,) = (forged / "audit").glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b'"kind"', b'"gateway":"eu","kind"'))
    done = run("--merge", forged, "--json", state=tmp_path / "own").stdout
    assert json.loads(done)["gateway"] == "us"


def test_a_clock_that_is_ahead_is_named(two, tmp_path):
    ahead = written(tmp_path / "ahead", f"{datetime.now(UTC).year + 1}-01-01T00:00:00.000000Z")
    done = run("--merge", ahead, "--merge", two[0], state=tmp_path / "own")
    assert "ahead: its clock is" in done.stderr
    assert "eu: its clock" not in done.stderr


def test_a_long_log_is_not_held_in_memory(tmp_path):
    big = [written(tmp_path / name, *[at(1)] * 5_000, size=2_000) for name in ("a", "b")]
    size = sum(file.stat().st_size for folder in big for file in (folder / "audit").glob("*.jsonl"))
    logs = logs_of([*map(str, big)], tmp_path / "own")
    tracemalloc.start()
    assert len(last_of_all(logs, Selection(), 50)) == 50
    assert verify_all(logs)[1].lines == 5_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 20_000_000
    assert peak < 2 << 20

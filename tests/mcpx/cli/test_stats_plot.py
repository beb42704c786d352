"""`mcpx stats --plot`: what the picture shows, by its pixels, and what is refused."""

from __future__ import annotations

import io
import itertools
import json

import pytest
from click.testing import CliRunner
from PIL import Image, ImageColor

from mcpx.cli.main import cli
from mcpx.cli.stats_plot import (
    DIRECT,
    HEADING,
    INK,
    MARGIN,
    MAX_ROWS,
    NAMES,
    ROW,
    SCALE,
    SPENT,
    TOP,
    picture,
    rows,
    tick_step,
)
from mcpx.core.events.stats import report
from mcpx.core.events.stats_file import StatsFile
from mcpx.paths import configuration_folder
from tests.mcpx.cli.test_stats import SUMMED, totals

LEFT = (MARGIN + NAMES) * SCALE


def drawn(summed, *parts):
    image = Image.open(io.BytesIO(picture(report(summed, None), parts or ("server",))))
    assert image.format == "PNG"
    return image


def bars(image, colour):
    """The lengths of the bars of a colour, from the top."""
    wanted, at = ImageColor.getrgb(colour), LEFT + 4
    column = [image.getpixel((at, y)) == wanted for y in range(image.height)]
    found = []
    for y, (before, now) in enumerate(itertools.pairwise(column)):
        if now and not before:
            ends = (x for x in range(at, image.width) if image.getpixel((x, y + 10)) != wanted)
            found.append(next(ends) - LEFT)
    return found


def test_bars_are_as_long_as_their_numbers():
    image = drawn(
        totals(("c", "a", "t", 1, 8000, 2000), ("c", "b", "t", 1, 4000, 1000), ("c", "d", "t", 1, 1000, 4000))
    )
    direct, spent = bars(image, DIRECT), bars(image, SPENT)
    assert direct[0] > 900
    for measured, number in zip((*direct, *spent), (8000, 4000, 1000, 2000, 1000, 4000), strict=True):
        assert measured == pytest.approx(direct[0] * number / 8000, abs=2 * SCALE)


def test_servers_and_clients_have_a_part_each():
    assert len(bars(drawn(SUMMED, "server", "client"), SPENT)) == 5
    assert len(bars(drawn(SUMMED, "client"), SPENT)) == 2


def test_many_rows_are_summed_at_the_end():
    many = totals(*(("c", f"s{n:02}", "t", 1, 1000 - n, 10) for n in range(30)))
    listed = rows(report(many, None)["all_time"]["servers"], "server")
    assert len(listed) == MAX_ROWS
    name, row = listed[-1]
    assert (name, row["calls"], row["spent"]) == ("19 others", 19, 190)
    assert row["direct"] == sum(1000 - n for n in range(11, 30))
    assert len(bars(drawn(many), DIRECT)) == MAX_ROWS


@pytest.mark.parametrize("name", ["w" * 5000, "\x1b[2J\n" * 40, "漢字" * 60, "Ä\u202eß\ud800", "\U000fffff"])
def test_no_name_gets_out_of_its_column(name):
    image = drawn(totals(("c", name, "t", 1, 10**13, 10)))
    top, bottom = (TOP + HEADING) * SCALE, (TOP + HEADING + ROW) * SCALE
    gap = image.crop((LEFT - 8 * SCALE, top, LEFT - SCALE, bottom))
    assert {colour for _, colour in gap.getcolors()} == {(255, 255, 255)}
    column = image.crop((MARGIN * SCALE, top, LEFT - 8 * SCALE, bottom))
    assert ImageColor.getrgb(INK) in {colour for _, colour in column.getcolors(1 << 16)}


def test_nothing_saved_and_nothing_known_are_drawn_too():
    drawn(totals(("c", "(mcpx)", "(inspect)", 1, 0, 5)), "server", "client", "tool")
    drawn(totals(("c", "s", "t", 1, 0, 0)))


@pytest.mark.parametrize(
    ("longest", "step"), [(1, 1), (5, 1), (6, 2), (40_000, 10_000), (99, 20), (1_234_567, 500_000)]
)
def test_ticks_are_round(longest, step):
    assert tick_step(longest) == step


# --- the command


@pytest.fixture
def counted(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    StatsFile(configuration_folder("there-is-none.json")).add(SUMMED)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, ["stats", "--config", "there-is-none.json", *arguments])


def test_the_command_draws_servers_and_clients_or_what_is_asked_for(counted):
    file = counted / "saved.PNG"
    done = run("--plot", str(file))
    assert (done.exit_code, done.stdout) == (0, f"wrote {file}\n")
    with Image.open(file) as image:
        assert len(bars(image, SPENT)) == 5
    assert run("--plot", str(file), "--by", "server").exit_code == 0
    with Image.open(file) as image:
        assert len(bars(image, SPENT)) == 3


@pytest.mark.parametrize("name", ["saved", "saved.jpg", "saved.png.txt", ".png"])
def test_another_kind_of_picture_is_refused_before_anything_is_read(name, tmp_path):
    done = run("--plot", str(tmp_path / name))
    assert done.exit_code == 2
    assert "has to end in .png" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_picture_and_json_are_two_answers(counted):
    done = run("--plot", str(counted / "a.png"), "--json")
    assert done.exit_code == 2
    assert "choose one" in json.loads(done.stdout)["error"]
    assert not (counted / "a.png").exists()


def test_with_nothing_to_draw_there_is_no_picture(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPX_STATE_DIR", str(tmp_path / "state"))
    done = run("--plot", str(tmp_path / "a.png"))
    assert done.exit_code == 1
    assert "nothing counted yet" in done.stderr
    assert not (tmp_path / "a.png").exists()


def test_a_file_that_cannot_be_written_is_named(counted):
    done = run("--plot", str(counted / "nowhere" / "a.png"))
    assert done.exit_code == 1
    assert f"cannot write {counted}/nowhere/a.png: No such file or directory" in done.stderr.replace(
        "\n", " "
    )

"""What runs in the browser, as files: all there, nothing from elsewhere, text only as text, and legible."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import mcpx.page
from mcpx.page import routes

STATIC = Path(mcpx.page.__file__).parent / "static"
OWN = sorted(each for each in STATIC.rglob("*") if each.is_file() and "vendor" not in each.parts)
MODULES = [each for each in OWN if each.suffix == ".mjs"]
STYLES = [each for each in OWN if each.suffix == ".css"]
COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
NAMED = {"http://www.w3.org/2000/svg", "https://example.com/"}  # a namespace, and an example to type
TONES = ("good", "busy", "idle", "bad", "ask", "off")
GROUNDS = ("page", "panel", "sunk")


def name_of(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_the_page_serves_it_under_its_name(path: Path) -> None:
    if path.name != "index.html":
        assert routes._NAME.fullmatch(name_of(path)), "no such name is served"


def test_the_page_names_only_files_that_there_are() -> None:
    page = (STATIC / "index.html").read_text()
    named = {each.removeprefix("static/") for each in re.findall(r'(?:href|src)="([^"#]+)"', page)}
    assert named == {"icon.svg", routes.SCRIPT}
    assert (STATIC / "icon.svg").is_file()


def test_a_class_has_its_look_from_one_style_sheet() -> None:
    looks = [
        (name, name_of(each))
        for each in STYLES
        for name in set(re.findall(r"^\.([\w-]+) \{", each.read_text(), re.MULTILINE))
    ]
    assert len(looks) > 50
    names = [name for name, _ in looks]
    assert [look for look in looks if names.count(look[0]) > 1] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_text_becomes_no_markup_and_no_code(path: Path) -> None:
    text = path.read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
    )


@pytest.mark.parametrize("path", OWN, ids=name_of)
def test_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    addresses = re.findall(r"https?://[^\s\"'`)]+", path.read_text())
    assert set(addresses) <= NAMED


# --- legible: contrast by WCAG 2.2, 1.4.3 and 1.4.11


def colours() -> dict[str, tuple[str, str]]:
    """By variable: its colour in light, and in dark."""
    found = COLOUR.findall((STATIC / "style.css").read_text())
    return {"white": ("#ffffff", "#ffffff")} | {name: (light, dark) for name, light, dark in found}


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def pairs() -> Iterator[tuple[str, str, float]]:
    """A colour, what it stands on, and the least contrast between the two."""
    yield from ((text, ground, 4.5) for text, ground in product(("text", "muted", "link"), GROUNDS))
    yield from ((tone, ground, 4.5) for tone, ground in product(TONES, ("page", "panel", "sunk")))
    yield from ((tone, f"{tone}-soft", 4.5) for tone in TONES)
    yield from (("text", f"{tone}-soft", 4.5) for tone in TONES)
    yield from ((f"curve-{number}", "panel", 3.0) for number in (1, 2, 3, 4))
    yield "white", "accent", 4.5  # buttons
    yield from (("edge", ground, 3.0) for ground in ("page", "panel"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_colours_can_be_told_apart(theme: str) -> None:
    shown = {name: both[theme == "dark"] for name, both in colours().items()}
    measured = {(one, other): (contrast(shown[one], shown[other]), least) for one, other, least in pairs()}
    assert {pair: value for pair, value in measured.items() if value[0] < value[1]} == {}


def test_black_on_white_has_the_contrast_that_it_has() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)

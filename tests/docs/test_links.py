"""Links between the pages lead somewhere, and pictures are there and load nothing from elsewhere."""

from __future__ import annotations

import re
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from tests.docs import pages

IMAGES = sorted((pages.ROOT / "docs" / "images").iterdir())
DRAWN = [image for image in IMAGES if image.suffix == ".svg"]
TAKEN = [image for image in IMAGES if image not in DRAWN]
MAX_BYTES = 150_000


@pytest.mark.parametrize("path", pages.PATHS, ids=pages.name)
def test_every_link_leads_to_a_file_and_a_heading(path):
    for target in pages.links(path):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            continue
        there = (path.parent / parts.path).resolve() if parts.path else path
        assert there.exists(), target
        if parts.fragment:
            assert parts.fragment in pages.anchors(there), target


def test_every_page_is_reached_from_the_index():
    index = pages.ROOT / "docs" / "README.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in pages.links(index)}
    assert {path for path in pages.PATHS if path.parent == index.parent and path != index} <= linked


def test_every_picture_is_used():
    used = {
        (path.parent / target).resolve()
        for path in pages.PATHS
        for target in pages.links(path)
        if "images/" in target
    }
    assert used == set(IMAGES)


@pytest.mark.parametrize("image", DRAWN, ids=lambda image: image.name)
def test_a_drawing_is_an_svg_that_loads_nothing(image):
    text = image.read_text("utf-8")
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"(href|src)\s*[=:]\s*[\"']?https?:|@font-face|@import|<script", text)
    assert set(re.findall(r"url\((.)", text)) <= {"#"}


@pytest.mark.parametrize("image", TAKEN, ids=lambda image: image.name)
def test_a_picture_that_was_taken_is_a_small_png(image):
    assert image.stat().st_size <= MAX_BYTES
    with Image.open(image) as picture:
        picture.verify()
        assert picture.format == "PNG"
        assert picture.width == (1600 if "wide" in image.name else 720)


@pytest.mark.parametrize("path", pages.PATHS, ids=pages.name)
def test_a_page_begins_with_its_only_title_and_holds_no_mark_of_a_draft(path):
    titles = re.findall(r"^# .+$", pages.prose(path), re.MULTILINE)
    assert pages.read(path).startswith(titles[0])
    assert len(titles) == 1
    assert not re.search(r"\b(TODO|FIXME|XXX|TBD)\b", pages.read(path))

"""The prose of the pages is plain English: an opening that says what the page is for, and no crutches."""

from __future__ import annotations

import re

import pytest

from scripts.lab.documentation.regions import without_regions
from tests.docs import pages

HELD = [path for path in pages.PATHS if path != pages.ROOT / "README.md"]
"""The pages that begin with what they are good for; README.md begins with what MCPX is."""

CRUTCHES = {
    r"(that|those) of": 'repeat the noun: "the server\'s", "the daemon\'s tools"',
    r"(the|is|not|as|for|be|by|from|to|with) one (that|which)": 'name the thing: "a server that"',
    r"(?<!one )of (its|their|your) own(?! [\[a-z])": '"its own ...", "a separate ..."',
    r"go(es)? on": '"continues", "keeps working"',
    r"by (itself|themselves)": '"itself", "on its own", "automatically"',
    r"(?<!I )(?<!you )wants?": '"needs", "requires", "asks for"',
    r"(that|as) (is|are) there": '"exists", "is present"',
    r"there is none": '"has no ..."',
    r"what there is": "name it",
    r"in place of": '"instead of"',
    r"anew": '"again", "a new ..."',
    r"mend(s|ed)?": '"fix", "repair"',
    r"(?<!it )(?<!them )(?<!left )(?<!\*One )alone": '"only"',
    r"as (it|they) came": '"unchanged"',
}
"""What these pages do not say, and what to write instead."""


@pytest.mark.parametrize("path", pages.PATHS, ids=pages.name)
def test_a_page_says_it_in_plain_words(path):
    text = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", without_regions(pages.prose(path)))
    found = [
        f"{match[0]!r}, write {better}: ...{text[max(match.start() - 40, 0) : match.end() + 20]}..."
        for phrase, better in CRUTCHES.items()
        for match in re.finditer(rf"\b{phrase}\b", text, re.IGNORECASE)
    ]
    assert found == []


@pytest.mark.parametrize("path", HELD, ids=pages.name)
def test_a_page_begins_with_what_it_is_good_for(path):
    text = pages.read(path)
    assert re.match(r"# .+\n\nThis page (shows|tells) (you )?\w+ ", text)
    assert len(re.findall(r"^This page (?:shows|tells)", text, re.MULTILINE)) == 1  # a part is a section

"""The words of a text, as a search compares them, and those that mean the same thing.

Owns `words`, which the search index and its queries share. Identifiers are cut where people cut them, at
case, digits and punctuation (`getHTTPStatus2` gives get, http, status, 2); English words lose their
endings (Porter's second algorithm, by snowballstemmer), other letters their accents; a run of Chinese,
Japanese, Korean or Thai letters, which has no spaces, gives each pair of neighbours. Words that stand in
nearly every text, and those that people add when they ask for a tool, are left out. Pure; the stemmer is
imported with the first text, or by `load_stemmer`.

Synonyms are data: one group a line. A word may be in several groups; what follows from it is weighed by how
rare a group is in what the servers offer, so that wide groups (`get read show`) decide little. Kept general:
nothing here names a server's own things.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from mcpx.core.system.light_imports import import_alone
from mcpx.core.text import compiled

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer


MAX_WORD_LEN: Final = 40  # letters of one word; a longer one is data, and is cut

_PAIRED: Final = r"\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"  # without spaces
_RUN: Final = rf"\d+|[{_PAIRED}]+|[^\W\d_{_PAIRED}]+"
_IS_PAIRED: Final = f"[{_PAIRED}]"
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MIN_STEMMED_LEN: Final = 4  # letters
_COMMON: Final = """
a about again all am an and any are as at be been by can could did do does e each exactly for from g given
had has have he her him his how i if in inside into is it its just know let like ll m may me might my need
not of on one or our out please re s shall she should so some that the their them then there these they this
those to us use used uses using ve very via want was we were what when where which who will with would you
your mcp server servers tool tools
"""
_STOP_WORDS: Final = frozenset(_COMMON.split())


def words(text: str) -> list[str]:
    """The words of `text` in order, folded and stemmed; a word that stands there twice is given twice."""
    found: list[str] = []
    for run in compiled(_RUN).findall(text):
        if run.islower() and run.isascii():
            if run not in _STOP_WORDS:
                found.append(_stem(run[:MAX_WORD_LEN]))
        elif run.isascii():
            parts = (part.lower() for part in _CAMEL.findall(run)) if run.isalpha() else (run,)
            found += [_stem(part[:MAX_WORD_LEN]) for part in parts if part not in _STOP_WORDS]
        elif compiled(_IS_PAIRED).match(run):
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        else:
            found.append(_folded(run[:MAX_WORD_LEN]))
    return found


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    if len(word) < _MIN_STEMMED_LEN:
        return word
    stem: str = load_stemmer().stemWord(word)
    return stem


def _folded(word: str) -> str:
    """A word beyond ASCII without case and accents; stemmed where ASCII is left of it."""
    plain = "".join(
        letter
        for letter in unicodedata.normalize("NFKD", word.casefold())
        if not unicodedata.combining(letter)
    )
    return _stem(plain) if plain.isascii() else plain


@cache
def load_stemmer() -> EnglishStemmer:
    """Import and return the stemmer, without those of forty other languages; for those who search."""
    stemmer: EnglishStemmer = import_alone("snowballstemmer.english_stemmer").EnglishStemmer()
    return stemmer


_GROUPS: Final = """
add append insert attach
add create make new generate build write
add sum plus calculate compute calculator math arithmetic total
archive compress gzip zip unzip
branch checkout switch
build compile
calendar schedule event meeting appointment
change edit modify update alter replace patch
change diff difference compare delta
chart plot diagram visualization visualize graph
chat message send post reply notify
check validate verify test
command execute run shell terminal process
commit revision history log
company stock ticker share equity
connection relation relationship link edge
container docker
convert transform translate
cook recipe dish meal food
copy duplicate clone cp
count number many
crypto coin bitcoin cryptocurrency
cut split divide
date time day today clock hour now timezone
delete remove erase drop forget discard rm unlink rid
directory folder dir mkdir path ls subfolder
document doc docx word
download fetch get scrape crawl retrieve request
echo repeat
email mail inbox
entity person people user contact node
environment env variable
fact knowledge observation memory note information remember recall
file document text disk
find search look lookup locate query grep seek discover
flight train ticket travel trip
get read show view display open retrieve see cat content load obtain
github repo repository
headline news article story
hotel airbnb accommodation listing stay
image picture photo png jpg jpeg media screenshot
issue bug ticket
join merge combine concatenate
library package dependency module npm
list enumerate ls browse
location place address geocode map
log logging
long duration slow
market price quote finance financial
mkdir create
modified change uncommitted dirty unstaged status
move rename mv
music song audio track
page web website webpage site url http https internet html online browser
paper publication research study academic arxiv literature
pdf
plan think reason thought brainstorm solve
position route direction navigation
presentation ppt slide powerpoint deck
rank trend trending hot popular top
record row table database sql
reset undo revert unstage rollback restore
save store write put persist record
sheet excel spreadsheet xlsx csv
show list
size big large small length
stage index add
summary summarize overview
switch toggle enable disable turn
task todo
video movie film youtube
weather forecast temperature climate
"""


def groups_of(word: str) -> tuple[str, ...]:
    """The groups that a word of `words` is in, each as a word that no text has."""
    return _by_word().get(word, ())


@cache
def _by_word() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(_GROUPS.split("\n")):
        for word in dict.fromkeys(words(line)):
            groups[word] = (*groups.get(word, ()), f"={number}")
    return groups

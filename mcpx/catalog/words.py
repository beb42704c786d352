"""The words of a text, as a search compares them.

Owns `words`, which the search index and its queries share. Identifiers are cut where people cut them, at
case, digits and punctuation (`getHTTPStatus2` gives get, http, status, 2); English words lose their endings
(Porter's second algorithm, by snowballstemmer); a run of Chinese, Japanese or Korean letters, which has no
spaces, gives each pair of neighbours. Words that stand in nearly every text, and the words that people add
when they ask for a tool, are left out. Pure; the stemmer is imported with the first text.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer

MAX_WORD_LEN: Final = 40  # letters of one word; a longer one is data, and is cut

_CJK: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[{_CJK}]+|[^\W\d_A-Za-z{_CJK}]+")
_FIRST_CJK: Final = "\u3040"
_MIN_STEMMED_LEN: Final = 4  # letters
_SAID_BY_ALL: Final = """
a an and any are as at be by can for from given has have if in into is it its may not of on or that the this
to use used using via was when which will with you your e g i mcp server servers tool tools
"""
_STOP_WORDS: Final = frozenset(_SAID_BY_ALL.split())


def words(text: str) -> list[str]:
    """The words of `text` in order, folded and stemmed; a word that stands there twice is given twice."""
    found: list[str] = []
    for word in _WORD.findall(text):
        if word[0] >= _FIRST_CJK:
            found += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        elif (folded := word[:MAX_WORD_LEN].casefold()) not in _STOP_WORDS:
            found.append(_stem(folded))
    return found


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    if len(word) < _MIN_STEMMED_LEN or not word.isascii():
        return word
    stem: str = _stemmer().stemWord(word)
    return stem


@cache
def _stemmer() -> EnglishStemmer:
    import snowballstemmer  # noqa: PLC0415 - 15 ms, for those who search

    return snowballstemmer.stemmer("english")

"""Estimates of the tokens that a text costs a model, without a tokenizer.

Owns two pure functions. `estimate` is for descriptions, which must stay inside their budget, and errs on the
high side; `estimate_result` is for results, where it must cost next to nothing, and errs to neither side.

`estimate` follows the way o200k_base and cl100k_base cut a text into pieces (a word with the one character
before it, up to three digits, a run of punctuation) and charges each piece the dearer of the two encodings'
average, measured on tool listings. It promises:

* never less than the real count of a whole listing, in either encoding, and at most about 15 % more for
  English and identifiers; other scripts are charged by the letter at cl100k's prices, which are the higher;
* lines may be added up: a text costs at most the sum over its lines, and 1 for each line break.

A single odd word can cost more than it is charged; the promise is about texts of a few lines and more.

`estimate_result` counts letters, digits, signs and spaces, and the runs of them, by C-speed scans. Its prices
are fitted to o200k_base on recorded results (raw, as compact JSON and as TOON) and on code, prose, logs and
tables; for recordings that it was not fitted to it is 7 % off in the mean, 15 % at the ninetieth percentile.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# One piece as both encodings would cut it; camel case is cut as o200k_base does, in `_word`.
_PIECE: Final = re.compile(
    r"[ -/:-@\[-`{-~]?[A-Za-z]{1,256}"  # a word, with the space or sign before it; a piece may be kept
    r"|[0-9]{1,3}"
    r"| ?[!-/:-@\[-`{-~]{1,256}"  # a run of signs
    r"|[^\S\n]{1,256}"
    r"| ?[^\x00-\x7f]{1,256}"  # everything beyond ASCII, charged by the letter
    r"|[\x00-\x1f\x7f]"
)
_MAX_KEPT_CHARS: Final = 1024  # of a line with its price
_NEWLINES: Final = re.compile(r"([!-/:-@\[-`{-~]?)\n+")  # one piece, and one with a run of signs before it
_SEGMENT: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# Marks of a Latin language other than English, whose words are longer and rarer in the encodings.
_FOREIGN: Final = re.compile(
    r"[\u00c0-\u024f\u1e00-\u1eff]"
    r"| (?:der|die|das|und|ein|eine|el|los|las|que|para|del|les|des|une|est|pour|il|che|per|della|het|een|van"
    r"|voor|och|att|som|og|til|os|uma|com|dan|yang|untuk) "
)
_FOREIGN_LETTER: Final = 27

# Hundredths of a token a word, by its letters, after a space; after nothing, `_` or `(`; after another sign.
_SPACED: Final = (0, 100, 102, 111, 114, 115, 121, 121, 124, 126, 132, 132, 132, 135, 138, 140)
_JOINED: Final = (0, 100, 104, 114, 112, 115, 125, 148, 156, 180, 192, 205, 215, 228, 240, 255)
_SIGNED: Final = (0, 100, 115, 166, 166, 174, 188, 188, 208, 215, 215, 240, 250, 260, 270, 280)
_RARE_LETTER: Final = 38
_UPPER_LETTER: Final = 40
_SEGMENT_COST: Final = 116
_HEADING: Final = 130  # what it heads is a server's name, which is a rarer word than most
_NEWLINE: Final = 100
_NEWLINE_AFTER_SIGN: Final = 15

# Hundredths of a token a character: first code point of a range and its price up to the next row.
_SCRIPTS: Final = (
    (0x20000, 300),  # and beyond
    (0x10000, 280),  # emoji, mathematical letters
    (0xFF00, 110),  # full-width forms
    (0xD7B0, 300),
    (0xAC00, 125),  # Hangul
    (0xA000, 300),
    (0x4E00, 185),  # ideographs
    (0x3400, 300),
    (0x3000, 115),  # kana and CJK punctuation
    (0x2C00, 300),
    (0x2000, 160),  # punctuation, arrows, signs
    (0x1F00, 250),
    (0x1E00, 110),  # Vietnamese
    (0x0E80, 300),
    (0x0E00, 110),  # Thai
    (0x0980, 260),
    (0x0900, 140),  # Devanagari
    (0x0700, 220),
    (0x0600, 95),  # Arabic
    (0x0590, 130),  # Hebrew
    (0x0530, 220),
    (0x0400, 66),  # Cyrillic
    (0x0370, 112),  # Greek
    (0x0080, 110),  # Latin with marks
)

# For `estimate_result`: each byte of UTF-8 as the class of its character; the first byte stands for all.
_LOWER, _DIGIT, _SPACE, _SIGN, _CONTINUATION = b"a0 .~"
_BEYOND_ASCII: Final = (  # first byte of a range, class, hundredths of a token a character
    (0xC2, b"L", 45),  # Latin with marks, Greek, Hebrew
    (0xD0, b"C", 30),  # Cyrillic
    (0xD4, b"L", 45),
    (0xD8, b"C", 30),  # Arabic
    (0xDC, b"L", 45),
    (0xE0, b"C", 30),  # scripts of India and South-East Asia
    (0xE2, b"S", 90),  # punctuation, arrows, signs
    (0xE3, b"K", 50),  # kana
    (0xE4, b"H", 85),  # ideographs
    (0xEA, b"K", 50),  # Hangul
    (0xEE, b"S", 90),
    (0xF0, b"E", 190),  # emoji
)
_PRICE_BEYOND_ASCII: Final = {name: price for _, name, price in _BEYOND_ASCII}


def _class(byte: int) -> int:
    if byte < 0x80:  # noqa: PLR2004 - ASCII; an upper-case letter tends to begin a piece, as a sign does
        one = chr(byte)
        return _LOWER if one.islower() else _DIGIT if one.isdigit() else _SPACE if one == " " else _SIGN
    return next((name[0] for first, name, _ in reversed(_BEYOND_ASCII) if byte >= first), _CONTINUATION)


_CLASSES: Final = bytes(map(_class, range(256)))
_SAMPLES: Final = 8


@lru_cache(maxsize=512)
def _character(character: str) -> int:
    """The price of one character beyond ASCII, in hundredths of a token."""
    point = ord(character)
    return next((price for first, price in _SCRIPTS if point >= first), 100)


def _segment(letters: str, table: tuple[int, ...]) -> int:
    """The price of one word of one case, by how it is joined to what stands before it."""
    size = len(letters)
    if size > 4 and letters.isupper():  # noqa: PLR2004 -- short ones are acronyms, one token each
        return _UPPER_LETTER * size
    if size < len(table):
        return table[size]
    return table[-1] + _RARE_LETTER * (size - len(table) + 1)


def _word(piece: str) -> int:
    """The price of a word with the character before it, if any."""
    first = piece[0]
    letters = piece if first.isalpha() else piece[1:]
    table = _SPACED if first == " " else _JOINED if letters is piece or first in "_(" else _SIGNED
    if letters[1:].islower() or letters.isupper() or len(letters) == 1:
        return _segment(letters, table)
    segments = _SEGMENT.findall(letters)
    rest = sum(max(_SEGMENT_COST, _segment(segment, _JOINED)) for segment in segments[1:])
    return max(_SEGMENT_COST, _segment(segments[0], table)) + rest


@lru_cache(maxsize=16384)
def _piece(piece: str) -> int:
    """The price of one piece, in hundredths of a token."""
    last = piece[-1]
    if last.isascii() and last.isalpha():
        return _word(piece)
    if not last.isascii():
        return (8 if piece[0] == " " else 0) + sum(map(_character, piece.lstrip(" ")))
    if piece == "##":
        return _HEADING
    signs = len(piece.lstrip(" "))
    return 100 if last.isdigit() or signs <= 2 else 100 + 60 * (signs - 2)  # noqa: PLR2004 -- `):` is one


def _foreign_piece(piece: str) -> int:
    """Estimate a piece in a language that the encodings know less well."""
    return max(_piece(piece), _FOREIGN_LETTER * len(piece)) if piece[-1].isalpha() else _piece(piece)


@lru_cache(maxsize=8192)
def _line(line: str) -> int:
    """The price of one line, in hundredths of a token."""
    price = _foreign_piece if _FOREIGN.search(line) else _piece
    return sum(map(price, _PIECE.findall(line)))


def _any_line(line: str) -> int:
    """The price of a line that may be too long to be kept."""
    return _line(line) if len(line) <= _MAX_KEPT_CHARS else _line.__wrapped__(line)


def estimate(text: str) -> int:
    """Tokens that `text` costs a model: an estimate on the high side (see the module), 0 for no text."""
    breaks = sum(_NEWLINE_AFTER_SIGN if sign else _NEWLINE for sign in _NEWLINES.findall(text))
    price = _line if len(text) <= _MAX_KEPT_CHARS else _any_line
    hundredths = breaks + sum(map(price, text.split("\n")))
    return -(-hundredths // 100)


def estimate_result(text: str, *, sampled_chars: int = 8192) -> int:
    """Tokens that a result costs a model; computed in about 1 us for 100 characters, 0.1 ms at most.

    Of a text of more than `sampled_chars`, that many are counted, in evenly spread pieces: always the same.
    """
    size = len(text)
    if size <= sampled_chars:
        return (_hundredths(text) + 50) // 100
    piece = sampled_chars // _SAMPLES
    starts = (index * (size - piece) // (_SAMPLES - 1) for index in range(_SAMPLES))
    sample = "".join([text[start : start + piece] for start in starts])
    return _hundredths(sample) * size // (100 * len(sample))


def _hundredths(text: str) -> int:
    """The price of a text by its classes of characters; pairs and threes are counted without overlap."""
    encoded = text.encode("utf-8", "replace")
    count = encoded.translate(_CLASSES).count
    digits, signs, spaces = count(b"0"), count(b"."), count(b" ")
    price = 10 * count(b"a") + 140 * digits + 93 * signs + 41 * spaces
    if pairs := digits and count(b"00"):
        price -= 155 * pairs + 65 * count(b"000")
    if pairs := signs and count(b".."):
        price -= 18 * pairs + 126 * count(b"...")
    if spaces:
        price -= 70 * count(b"  ")
    if len(encoded) != len(text):
        price += sum(each * count(name) for name, each in _PRICE_BEYOND_ASCII.items())
    return price

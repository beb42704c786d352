"""The smallest faithful form of a JSON text: compact JSON, or TOON where that is much smaller.

Owns the decision whether a JSON text is replaced by TOON (Token-Oriented Object Notation, toonformat.dev),
and knows where the TOON library in use, or TOON itself, would change a value. Called by what makes
results for a model. Everything here is pure, and nothing but `encode` and `decode` raises.

Only an object or an array counts as JSON: a text such as `42`, `true` or `"x"` is text to a reader, and
there is nothing to save on it. A text is parsed once, by `read_json`; the parsed value serves
`structuredContent` whatever form is shown.

JSON is shown without space between its tokens, never longer than it came. TOON takes its place only if it
saves the share of tokens that is asked for, by the estimate for results, has fewer characters, and says the
same: decoding it gives every key and every value of the text, strings as strings, booleans as booleans,
numbers to the last digit. It is tried only on what has a table in it (two objects side by side), because on
anything else it saves next to nothing. Two freedoms that JSON itself gives are used: `1.0`, `1` and `1e0` are
one number (an integral float is written without its fraction), and rows of a table share one order of keys.
The text stays JSON, with every token as it came, where TOON could not keep to that:

* an object that has the same key twice (a parser keeps one of them);
* a number that a 64-bit float cannot hold exactly, such as `0.1000000000000000055` or `1e-400`;
* a float of 2**53 and above, whose digits in TOON name an integer near it, and `-0.0`, which TOON calls `0`;
* nesting so deep that TOON would be mostly indentation;
* `{}`, which in TOON is the empty text, and a model should not be given nothing.

A text that is not strict JSON (`NaN`, `1e400`, half a surrogate pair, a byte order mark), or is nested
deeper than `MAX_DEPTH`, is not JSON here, and stays the text it is.
"""

from __future__ import annotations

import itertools
import operator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
import toons

from mcpx.core.rendering.tokens import estimate_result

MAX_DEPTH: Final = 256  # levels; far above real data, far below what recursive encoders on the way out bear

MIN_TOON_SAVING: Final = 0.15  # of the tokens; below, models read what they know best

_SAMPLED_CHARS: Final = 1024  # of each form, to compare them
_INDENT_ROOM: Final = 16 * 1024 * 1024  # characters of indentation that are never worth a closer look
_INDENT_PER_CHARACTER: Final = 4  # indentation beyond this, per character of JSON, cannot end up smaller
_EXACT_FLOAT: Final = 2.0**53  # below it a float's shortest digits are its value; from it on they may not be
_SAFE_DIGITS: Final = 15  # any decimal of so many digits survives the way through a 64-bit float

_TO_ZEROS: Final = bytes.maketrans(b"0123456789.E", b"00000000000e")
_LONG_NUMBER: Final = b"0" * (_SAFE_DIGITS + 1)

_CONTAINERS: Final = frozenset((dict, list))

_PARSER: Final = msgspec.json.Decoder()


class TextForm(msgspec.Struct, frozen=True):
    """Settings of how JSON text is shown. Called with any text, it returns the text to show.

    `toon_saving` is the share of tokens that TOON must save to be taken: 0 takes it whenever it is smaller, 1
    never. A text of fewer than `min_size` characters is left as it is.
    """

    toon_saving: float = MIN_TOON_SAVING
    min_size: int = 0

    def __call__(self, text: str) -> str:
        source = read_json(text)
        return text if source is None else source.smallest(self)


DEFAULT_FORM: Final = TextForm()


class JSONText(msgspec.Struct, frozen=True):
    """A text that is a JSON object or array. Made by `read_json`.

    `text` is as it came; `value` is the dict or list it holds (of equal keys the last, as everywhere);
    `depth` is the number of levels, or an upper bound of it that is not above `MAX_DEPTH`.
    """

    text: str
    value: Any
    depth: int

    def smallest(self, form: TextForm) -> str:
        """Return the text to show for this one: itself if it is as small as it can be."""
        text = self.text
        if len(text) < form.min_size:
            return text
        try:
            compact = msgspec.json.encode(self.value)
        except (TypeError, ValueError):
            return text  # a boundary: no answer is lost because a foreign encoder refuses a value in it
        saving = form.toon_saving
        tried = not saving or (saving < 1 and _has_table(compact))
        if tried and (toon := self._toon(compact, saving)):
            return toon
        size = _characters(compact)
        if len(text) != size or text.encode() != compact:  # a number may be longer: 0.00001
            squeezed = msgspec.json.format(text, indent=-1)
            text = squeezed if len(squeezed) < len(text) else text
            if len(text) > size and self._survives(compact):
                text = compact.decode()
        return text

    def _toon(self, compact: bytes, saving: float) -> str | None:
        """TOON, or None where it does not save that share of the compact JSON, or would lose something."""
        if not self.value or self._indentation_dominates():
            return None
        try:
            toon = encode(self.value)
        except (TypeError, ValueError):
            return None  # the same boundary
        most = 1 - saving
        if len(toon) >= most * min(len(self.text), _characters(compact)):  # a token of TOON has fewer of them
            return None
        tokens, of = (
            estimate_result(each, sampled_chars=_SAMPLED_CHARS) for each in (toon, compact.decode())
        )
        if tokens > most * of:
            return None
        return toon if self._survives(compact) else None

    def _survives(self, compact: bytes) -> bool:
        """True if nothing of the text is lost in its value, which is `compact` when it is written again."""
        return _has_every_key(self.text, compact) and _has_every_number(self.text)

    def _indentation_dominates(self) -> bool:
        """Return True if TOON's indentation could be many times the text: a megabyte may make a gigabyte."""
        lines = self.text.count(",") + _containers(self.text) + 1
        if 2 * self.depth * lines <= _INDENT_ROOM:
            return False
        most = _INDENT_ROOM + _INDENT_PER_CHARACTER * len(self.text)
        return 2 * _depth(self.value) * lines > most


def encode(value: Any) -> str:
    """Encode plain JSON data as TOON, unguarded: `read_json` is for values that must survive exactly.

    Raises:
        ValueError: TOON cannot say it; so for TypeError.
    """
    return toons.dumps(value)


def decode(text: str) -> Any:
    """Decode TOON into plain JSON data.

    Raises:
        ValueError: It is not TOON; the text names the line.
    """
    return toons.loads(text)


def read_json(text: str) -> JSONText | None:
    """Parse a text that is a JSON object or array; None for any other text. Never raises."""
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return None
    try:
        value = _PARSER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    depth = _containers(text)
    if depth > MAX_DEPTH:
        depth = _depth(value)
    return JSONText(text, value, depth) if depth <= MAX_DEPTH else None


def _has_table(compact: bytes) -> bool:
    """Return True if compact JSON may have two objects side by side, which TOON writes as rows."""
    return b"},{" in compact or compact.count(b'},"') > 1


def _characters(encoded: bytes) -> int:
    return len(encoded) if encoded.isascii() else len(encoded.decode())


def _containers(text: str) -> int:
    """Count the objects and arrays that a JSON text has at most (those in its strings included)."""
    return text.count("{") + text.count("[")


def _depth(value: Any) -> int:
    """Levels of nesting: 1 for a flat object or array. Level by level, so that no depth is too much."""
    level, depth = [value], 0
    while level:
        depth += 1
        members = (item.values() if type(item) is dict else item for item in level)
        level = [member for many in members for member in many if type(member) in _CONTAINERS]
    return depth


def _has_every_key(text: str, compact: bytes) -> bool:
    r"""Return True if no key of `text` was dropped as a double when it was parsed and written as `compact`.

    The two differ in colons exactly by the members dropped, because a colon stands after every key, and
    those in strings are kept; unless a string spells its colon `\u003a`, which the other would not.
    """
    if text.count(":") != compact.count(b":"):
        return False
    return "\\u003" not in text or "\\u003a" not in text.lower()


def _has_every_number(text: str) -> bool:
    """Return True if TOON keeps each number of a JSON text to the last digit.

    Nearly every text is cleared by a scan of its bytes: no run of more than 15 digits, no exponent, no
    negative zero. (Digits in strings raise a false alarm, never a false all-clear.) The others have their
    float literals read one by one.
    """
    scanned = text.encode().translate(_TO_ZEROS)
    if _LONG_NUMBER not in scanned and b"0e" not in scanned and "-0.0" not in text:
        return True
    literals: list[str] = []
    msgspec.json.Decoder(float_hook=literals.append).decode(text)
    return not literals or _has_every_digit(literals)


def _has_every_digit(literals: list[str]) -> bool:
    """Return True if each float literal comes out of TOON as the number that went in.

    TOON writes the shortest digits that name the float. So a literal that is such digits is safe, and any
    other must be equal to them as a decimal number.
    """
    floats = list(map(float, literals))
    if max(floats) >= _EXACT_FLOAT or min(floats) <= -_EXACT_FLOAT:
        return False
    shortest = msgspec.json.encode(floats)[1:-1].decode().split(",")
    if "-0.0" in shortest:
        return False
    spelled_otherwise = itertools.compress(literals, map(operator.ne, literals, shortest))
    return all(map(_is_exact, spelled_otherwise))


def _is_exact(literal: str) -> bool:
    try:
        return Decimal(literal) == Decimal(repr(float(literal)))
    except InvalidOperation:
        return False  # an exponent of twenty digits, which no decimal can hold either

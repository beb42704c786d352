"""Names for what people get wrong in JSON: the one module that turns an unexpected character into advice.

Called by the reader in `mcpx.core.text.jsonc` once it has failed. Pure. No text shows a value of the
file, which may be a secret; a key is shown.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

_GOOD_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_WORD: Final = re.compile(r"[^\W\d][\w.$-]*")
_NUMBER: Final = re.compile(r"[+-]?[.\d][\w.+-]*")
_NOT_A_NUMBER: Final = re.compile(r"[+-]?(?:NaN|Infinity|nan|inf)\b")
_FIRST_LINE: Final = re.compile(r"(?:\s*#[^\n]*\n|\s*\n)*[ \t]*([^\r\n]*)")
_TOML: Final = re.compile(r"\[\[?\s*[A-Za-z_][^\]{:]*\]\]?\s*(?:#.*)?$|[\w.\"-]+\s*=\s*\S")
_YAML: Final = re.compile(r"---\s*$|%YAML|[A-Za-z_][\w-]*:(?:\s|$)|- ")

_CURLY: Final = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b"
_ADVICE: Final = {
    **dict.fromkeys(_CURLY, 'curly quotes; write straight ones: "'),
    "'": 'single quotes; JSON has double ones only: "',
    "`": 'backquotes; JSON has double quotes only: "',
    "#": "a comment begins with // here, not with #",
    ";": "members and items are separated by commas, not by ;",
    "=": "key and value are separated by a colon, not by =",
    "NaN": "NaN and Infinity are not JSON; write a number, or null",
}
_MISSING: Final = {
    "a comma": "a comma is missing here",
    "a colon": "a colon is missing between the key and its value",
}
_CLOSING: Final = {"{": "}", "[": "]"}
_WORDS: Final = {"none": "null", "nil": "null", "undefined": "null", "yes": "true", "no": "false"}
_KEY_SHOWN: Final = 40  # characters of a key in a message


def name_slip(text: str, at: int, after: int, expected: str, opened: int | None) -> tuple[int, str]:
    """Return the offset of the slip, and its name with what to do.

    `at` is the offset of what was found, `after` the end of what went before, `expected` what should have
    come, and `opened` the offset of the innermost bracket that is open.
    """
    if not text.strip(" \t\r\n\ufeff"):
        return 0, "the file is empty"
    if other := _other_syntax(text):
        return at, f"this looks like {other}, not JSON"
    if at >= len(text):
        return at, f"it ends too early: {_unclosed(text, opened)}"
    if expected == "a string" or (text[at] == '"' and expected in {"a key", "a value"}):
        return _in_string(text, at)
    if text[at] == '"' or _WORD.match(text, at):
        return _at_word(text, at, after, expected)
    return _at_sign(text, at, after, expected, opened)


def _other_syntax(text: str) -> str | None:
    first = _FIRST_LINE.match(text.removeprefix("\ufeff"))
    line = first[1] if first else ""
    return "TOML" if _TOML.match(line) else "YAML" if _YAML.match(line) else None


def _unclosed(text: str, opened: int | None) -> str:
    if opened is None:
        return "a value is missing"
    return f"the {text[opened]} of line {text.count(chr(10), 0, opened) + 1} is not closed"


def _in_string(text: str, start: int) -> tuple[int, str]:
    good = _GOOD_STRING.match(text, start)
    at = good.end() if good else start
    if at >= len(text) or text[at] in "\r\n":
        return start, "the closing quote of this string is missing"
    if text.startswith("\\'", at):
        return at, "a single quote is written without a backslash"
    if text[at] == "\\":
        return at, r'a single backslash; double it, also in paths: "C:\\Users"'
    written = {"\t": r"\t", "\b": r"\b", "\f": r"\f"}.get(text[at], f"\\u{ord(text[at]):04x}")
    return at, f"a control character inside a string; write {written}"


def _at_word(text: str, at: int, after: int, expected: str) -> tuple[int, str]:
    """The slip where a word or a string is found and something else was expected, or a bare word."""
    word = found[0] if (found := _WORD.match(text, at)) else ""
    if expected in {"a comma", "a colon"} and at == after and text[after - 1] == '"':
        return at, r"a quote too many or too few; inside a string it is written \""
    if expected in _MISSING:
        return after, _MISSING[expected]
    if expected == "the end":
        return at, "something follows after the end"
    if text.startswith('"', at + len(word)):
        return at, "the opening quote is missing"
    if expected == "a key":
        shown = word if len(word) <= _KEY_SHOWN else word[: _KEY_SHOWN - 3] + "..."
        return at, f'a key is written in double quotes: "{shown}"'
    if _NOT_A_NUMBER.match(text, at):
        return at, _ADVICE["NaN"]
    right = _WORDS.get(word.lower(), word.lower())
    if right in {"true", "false", "null"}:
        return at, f"write {right} here, without quotes and in lower case"
    return at, "a string is written in double quotes"


def _at_sign(text: str, at: int, after: int, expected: str, opened: int | None) -> tuple[int, str]:
    """The slip where neither a word nor a string is found."""
    sign = text[at]
    if advice := _ADVICE.get(sign):
        return at, advice
    if not sign.isprintable():
        return at, _invisible(sign)
    if sign in "}]":
        return at, _at_closing(text, at, expected, opened)
    if expected == "the end":
        braces = " (are the braces around it missing?)" if sign == ":" else ""
        return at, f"something follows after the end{braces}"
    if sign == ",":
        missing = expected == "a value" and opened is not None and text[opened] == "{"
        return at, "the value is missing before this comma" if missing else "a comma too many"
    if expected in _MISSING and (sign in "{[-" or sign.isdigit()):
        return after, _MISSING[expected]
    if expected == "a value" and _NOT_A_NUMBER.match(text, at):
        return at, _ADVICE["NaN"]
    if expected == "a value" and _NUMBER.match(text, at):
        return at, "this is no JSON number; one is written like 10, -1, 0.5 or 1e3"
    comment = text.startswith("/*", at)
    return (
        at,
        "this comment is not closed; */ is missing" if comment else f"expected {expected}, found {sign}",
    )


def _at_closing(text: str, at: int, expected: str, opened: int | None) -> str:
    """The slip where a closing bracket is found: too many, of the other kind, or with a value missing."""
    if opened is None:
        return f"one {text[at]} too many"
    if expected == "a value" and text[opened] == "{":
        return "the value is missing after the colon"
    if expected == "a colon":
        return "a colon and a value are missing after this key"
    return f"expected {_CLOSING[text[opened]]} here: {_unclosed(text, opened)}"


def _invisible(sign: str) -> str:
    code = f"U+{ord(sign):04X}"
    if category(sign) == "Zs":
        name = "a no-break space" if sign == "\u00a0" else "an unusual space"
        return f"{name} ({code}); replace it with an ordinary one"
    return f"an invisible character ({code}); remove it"

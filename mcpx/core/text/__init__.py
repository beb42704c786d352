r"""Text of servers and of users, made safe to show: the one module that knows what must not be shown raw.

Three kinds of characters harm a reader: *controls* (a terminal obeys them), *invisible* ones (a model reads
what a person cannot see: zero-width characters, fillers, tags, variation selectors) and *direction* marks
(what is shown is not in the order in which it is read). Lone surrogates and noncharacters count as invisible;
no encoder takes them. Everything here is pure and linear in its text.

Three ways to show a text:

* `one_line` and `paragraphs` are for text that MCPX composes, for a model or a person: what harms is taken
  out.
* `quoted` and `shown_name` are for names, which a reader has to repeat exactly: they become JSON strings with
  escapes, and a JSON parser gives back the very name.
* `escaped` is for results on a terminal: nothing is lost, what harms is seen as `\x1b` or `\u202e`.

A joiner stays where writing needs it: U+200C or U+200D alone between two letters beyond Latin (Persian,
Hindi) and U+200D alone between two emojis. So does one variation selector U+FE0E or U+FE0F behind a sign
beyond ASCII, or in a keycap, where it chooses between two drawings. Behind a letter it draws nothing, and
selectors behind letters could hold a text that nobody sees: they are dropped without a trace.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final

# What Unicode calls Default_Ignorable_Code_Point or Format and no script needs, the braille blank,
# surrogates, interlinear marks and noncharacters. Joiners are among them, until `_NOT_NEEDED` lets one stay.
_INVISIBLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u2800\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_CONTROL: Final = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")
_LETTER: Final = r"[^\W\d_\x00-\u024f\u115f\u1160\u3164\uffa0]"  # beyond Latin, where no word has a joiner
_INDIC: Final = r"[\u0900-\u0dff]"  # with the signs behind a letter, which are no letters to `re`
_EMOJI: Final = r"[\u2190-\u27ff\u2900-\u2bff\u3030\u303d\U0001f000-\U0001faff]"
_SIGN: Final = (
    r"[\u00a9\u00ae\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001faff]"
)
_NOT_NEEDED: Final = (  # behind one character: it is no joiner or selector that writing needs
    rf"(?<!{_LETTER}[\u200c\u200d](?={_LETTER}))(?<!{_INDIC}[\u200c\u200d](?={_INDIC}))"
    rf"(?<!{_EMOJI}\u200d(?={_EMOJI}))(?<!{_EMOJI}\ufe0f\u200d(?={_EMOJI}))"
    rf"(?<!{_SIGN}[\ufe0e\ufe0f])(?<![0-9#*]\ufe0f(?=\u20e3))"
)
_NO_DRAWING: Final = rf"[\ufe0e\ufe0f](?<=[^\x00-\x7f\ufe00-\ufe0f].){_NOT_NEEDED}"
_HIDDEN: Final = f"[{_INVISIBLE}]{_NOT_NEEDED}"
_SUSPECT: Final = re.compile(f"[{_INVISIBLE}]")
_BLANK: Final = re.compile(rf"[\s{_CONTROLS}]+")
_CONTROL_IN_LINES: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_END: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_HARMFUL: Final = rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_INVISIBLE}]{_NOT_NEEDED}"
_HARMFUL_IN_STRING: Final = f"[{_CONTROLS}{_INVISIBLE}]{_NOT_NEEDED}"

_PLAIN_NAME: Final = re.compile(r"[\w$@][\w.:/@+-]*")
_PLAIN_SERVER: Final = re.compile(r"[\w$@](?:[\w.:/@+ -]*[\w.:/@+-])?")
_PLAIN_URI: Final = re.compile(r"[^\s#\"(][^\s\"]*")
_PER_CHARACTER: Final = 8  # characters looked at for each one shown: the rest of a long text is never read
_LEAST_LOOKED_AT: Final = 1024
_ASCII: Final = 0x7F


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: one with wide classes takes milliseconds."""
    return re.compile(pattern)


def is_clean(text: str) -> bool:
    """Return True if nothing in `text` harms a reader; line breaks and tabs do not."""
    return not (_CONTROL_IN_LINES if text.isascii() else compiled(_HARMFUL)).search(text)


def holds_controls(text: str) -> bool:
    """Return True if `text` holds a control character, a line end or a lone surrogate: no name or URI may."""
    return _CONTROL.search(text) is not None


def hides(text: str) -> bool:
    """Return True if something in `text` cannot be seen, joiners that writing needs among it."""
    return not text.isascii() and _SUSPECT.search(text) is not None


def one_line(text: str, limit: int | None = None) -> str:
    """`text` on one clean line: white space and controls are one space each run, invisible characters go.

    With `limit`, its first `limit` characters, with `...` where there was more; then the time it takes
    depends on the limit, not on the text.
    """
    if limit is None:
        return _BLANK.sub(" ", _seen(text)).strip()
    looked_at = max(_LEAST_LOOKED_AT, _PER_CHARACTER * limit)
    line = one_line(text[:looked_at])
    return line[:limit] + "..." if len(line) > limit or len(text) > looked_at else line


def paragraphs(text: str) -> str:
    """`text` with its line breaks and tabs, every line end as one line feed, without what harms."""
    return _CONTROL_IN_LINES.sub("", _LINE_END.sub("\n", _seen(text)))


def escaped(text: str) -> str:
    r"""`text` for a terminal: what harms (but `\n` and `\t`) as its escape, `\x1b` or `\u202e`."""
    if text.isascii():
        return _CONTROL_IN_LINES.sub(_escape, text)
    return compiled(_HARMFUL).sub(_escape, compiled(_NO_DRAWING).sub("", text))


def json_escaped(text: str) -> str:
    r"""`text` for the inside of a JSON or TypeScript string: what harms, and line ends, as `\u202e`, `\n`."""
    return (_CONTROL if text.isascii() else compiled(_HARMFUL_IN_STRING)).sub(_json_escape, text)


def quoted(text: str) -> str:
    """`text` as a JSON string; with anything in it that harms or does not print, all in ASCII."""
    return json.dumps(text, ensure_ascii=not text.isprintable() or hides(text)).replace("\x7f", "\\u007f")


def shown_name(name: str) -> str:
    """A name as it is where it is one plain word, else quoted, so that it can still be repeated exactly."""
    return name if _PLAIN_NAME.fullmatch(name) and not hides(name) else quoted(name)


def shown_server(name: str) -> str:
    """A server's name, which the user has chosen: as `shown_name`, but spaces in it are plain."""
    return name if _PLAIN_SERVER.fullmatch(name) and not hides(name) else quoted(name)


def shown_uri(uri: str) -> str:
    """A URI or URI template as it is where it is one printable word, else quoted."""
    plain = uri.isprintable() and _PLAIN_URI.fullmatch(uri) and not hides(uri)
    return uri if plain else quoted(uri)


def visible(name: str) -> str:
    r"""A name for a field of its own: as it is, or with escapes (`\u200b`) where something in it harms."""
    return name if name.isprintable() and not hides(name) else quoted(name)[1:-1]


def cut(text: str, limit: int) -> str:
    """The first `limit` characters of `text`, with `...` where there was more."""
    return text if len(text) <= limit else text[:limit] + "..."


def kind_of(value: Any) -> str:
    """The JSON kind of a value with its article: `null`, `a string`, `an array`, ..."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def _seen(text: str) -> str:
    """`text` without its invisible characters."""
    return text if text.isascii() else compiled(_HIDDEN).sub("", text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("ascii", "backslashreplace").decode() if ord(found[0]) > _ASCII else _hex(found[0])


def _hex(control: str) -> str:
    return f"\\x{ord(control):02x}"


def _json_escape(found: re.Match[str]) -> str:
    return "\\u007f" if found[0] == "\x7f" else json.dumps(found[0])[1:-1]


def encodable(text: str) -> str:
    r"""Make a text fit for UTF-8: lone surrogates become `\ud800`, as JSON and TypeScript both write them."""
    return text.encode("utf-8", "backslashreplace").decode()

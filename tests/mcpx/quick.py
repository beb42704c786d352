"""Runs a program of the standard library in half the time: `python -S -E quick.py PROGRAM ARGUMENTS`.

For servers that tests start by the thousand. The program is compiled once, as a module is, and `json` is its
part in C alone: the rest of it imports `re`, which takes as long as Python's own start. Options of `json`
that are not given here import the rest after all.
"""

from __future__ import annotations

import sys
from _frozen_importlib_external import SourceFileLoader
from _json import encode_basestring_ascii, make_encoder, make_scanner
from posix import _exit

BLANK = " \t\n\r"


class QuickJSON(type(sys)):
    """What `import json` gives the program."""

    strict = True
    parse_float = float
    parse_int = int
    parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__
    object_hook = object_pairs_hook = None

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._whole(), name)

    def _whole(self):
        """The module itself."""
        if sys.modules.get("json") is self:
            del sys.modules["json"]
        import json  # noqa: PLC0415 - what this file avoids

        return json

    def loads(self, text, **options):
        if options:
            return self._whole().loads(text, **options)
        if not isinstance(text, str):
            text = text.decode()
        text = text.strip(BLANK)
        try:
            value, end = self.scan(text, 0)
        except StopIteration:
            end, value = -1, None
        return value if end == len(text) else self._whole().loads(text)  # which says what is wrong

    def load(self, file, **options):
        return self.loads(file.read(), **options)

    def dumps(self, value, **options):
        if options:
            return self._whole().dumps(value, **options)
        return "".join(self.encode(value, 0))


def refuse(value):
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def main():
    quick = QuickJSON("json")
    quick.scan = make_scanner(quick)
    quick.encode = make_encoder(None, refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    sys.modules["json"] = quick
    program = sys.argv[1]
    del sys.argv[0]
    sys.path[0] = program.rpartition("/")[0]
    main = sys.modules["__main__"].__dict__
    main["__file__"] = program
    exec(SourceFileLoader("__main__", program).get_code("__main__"), main)
    sys.stdout.flush()
    _exit(0)  # all that is left is to tidy up


if __name__ == "__main__":
    main()

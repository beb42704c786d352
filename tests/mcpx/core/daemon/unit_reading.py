"""Reading a unit file strictly, by systemd's own rules: for tests of what is written."""

from __future__ import annotations

ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'", "s": " "}


def unquoted(line):
    """The words of a line by the rules of systemd.syntax(7) and the specifiers of systemd.unit(5). Strict."""
    words, position = [], 0
    while position < len(line):
        assert line[position] == '"', line[position:]
        position += 1
        word = ""
        while line[position] != '"':
            char = line[position]
            assert char not in "\n\r\0"
            if char == "\\" and line[position + 1] == "x":
                word += chr(int(line[position + 2 : position + 4], 16))
                position += 4
            elif char == "\\":
                word += ESCAPES[line[position + 1]]
                position += 2
            elif char == "%":
                assert line[position + 1] == "%", "a specifier"
                word += "%"
                position += 2
            else:
                word += char
                position += 1
        position += 1
        assert line[position : position + 1] in {"", " "}
        position += 1
        words.append(word)
    return words


def assignments(unit):
    """The unit as (section, key, value), in order."""
    section, found = None, []
    for line in unit.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            assert section
            assert key.isalpha()
            found.append((section, key, value))
    return found


def values(unit, key):
    return [value for _, name, value in assignments(unit) if name == key]

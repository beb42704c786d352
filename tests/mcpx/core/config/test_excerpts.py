"""Excerpts of a configuration: the line of a mistake, without what may be a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.core.config.excerpts import safe_excerpt

SECRETS = [
    '"env": {"TOKEN": "s3cret"},',
    '"env": {"TOKEN": "s3cret',
    '"TOKEN": s3cret',
    "'TOKEN': 's3cret'",
    "\u201cTOKEN\u201d: \u201cs3cret\u201d",
    '"args": ["--token", "s3cret", "--key=s3cret"]',
    '"s3cret",',
    '"url": "https://u:s3cret@host/?key=s3cret"',
    '"headers": {"Authorization": "Bearer s3cret"} // s3cret',
    "TOKEN: s3cret",
    'TOKEN = "s3cret"',
    r'"TOKEN": "a\"s3cret"',
]  # fmt: skip


@pytest.mark.parametrize("line", SECRETS)
def test_a_value_that_may_be_secret_is_not_shown(line: str) -> None:
    text = "{\r\n" + line + "\r\n}"
    for offset in range(len(text)):
        assert "s3cret" not in safe_excerpt(text, offset)


def test_keys_and_harmless_values_are_shown_with_the_caret_beneath_the_place() -> None:
    line = '  "a": {"command": "npx", "args": ["-y", "x", 3], "call_timeout": "5", "disabled": true}'
    text = "{\n" + line + "\n}"
    shown, caret = safe_excerpt(text, text.index("3]")).splitlines()
    assert shown == line.replace('"x"', '"*"')
    assert shown[caret.index("^")] == "3"


@given(st.text(alphabet="\"{}[]:, ab\\/*'\n", max_size=60), st.integers(0, 60))
def test_any_text_has_an_excerpt_in_two_lines(text: str, offset: int) -> None:
    assert len(safe_excerpt(text, min(offset, len(text))).split("\n")) == 2


def test_a_reference_is_shown_and_its_default_is_not() -> None:
    text = '"env": {"SECRET": "${SECRET}", "A": "${keychain:a-b}", "B": "${B:-s3cret}", "C": "x${C}"}'
    shown = safe_excerpt(text, 0).splitlines()[0]
    assert '"SECRET": "${SECRET}", "A": "${keychain:a-b}", "B": "${*:-******}"' in shown

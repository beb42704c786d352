"""What reading a JSON text costs, as far as it shows."""

from __future__ import annotations

from mcpx.core.text.json_work import takes_long


def test_values_take_long_and_texts_do_not():
    dense = b"[" + b"[[[[1]]]]," * 400_000 + b"1]"
    assert takes_long(dense)
    assert takes_long(b'{"a":"' + b"x" * 100 + b'","b":%b}' % dense)
    assert not takes_long(b'{"a":"' + dense.replace(b"1", rb"\"") + b'"}')
    assert not takes_long(b"[" + b'{"a":"b"},' * 300_000 + b"1]")

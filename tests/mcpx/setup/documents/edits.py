"""One edit of a file, from bytes to bytes."""

from __future__ import annotations

from mcpx.setup.documents.editing import Document


def _edited(method, data, syntax, *arguments):
    document = Document(data, syntax)
    getattr(document, method)(*arguments)
    return document.data


def set_member(data, path, value, syntax):
    return _edited("set", data, syntax, path, value)


def append_item(data, path, value, syntax):
    return _edited("append", data, syntax, path, value)


def remove_member(data, path, syntax):
    return _edited("remove", data, syntax, path)

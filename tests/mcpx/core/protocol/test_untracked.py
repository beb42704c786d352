"""Structs that the garbage collector does not track hold data alone, so that they are in no cycle."""

from __future__ import annotations

import pkgutil
import sys
import types
import typing
from importlib import import_module

import msgspec

import mcpx.attach
import mcpx.core

DATA = (type(None), bool, int, float, str, bytes, msgspec.Raw, msgspec.UnsetType)


def _modules():
    for package in (mcpx.core, mcpx.attach):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield import_module(module.name)


def _is_data(form):
    """Whether values of a type lead to none but data: what JSON holds, and untracked structs."""
    if typing.get_origin(form) is typing.Annotated:
        return _is_data(typing.get_args(form)[0])
    if form in DATA or form is typing.Any or typing.get_origin(form) is typing.Literal:
        return True  # `Any` is decoded from JSON
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        return all(map(_is_data, typing.get_type_hints(form, include_extras=True).values()))
    if isinstance(form, types.UnionType) or typing.get_origin(form) in {typing.Union, list, dict, tuple}:
        return all(_is_data(each) for each in typing.get_args(form) if each is not ...)
    return False


def _untracked():
    found = {}
    for module in _modules():
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct) and not each.__struct_config__.gc:
                found[f"{each.__module__}.{each.__qualname__}"] = each
    return found


def test_untracked_structs_hold_data_alone() -> None:
    found = _untracked()
    assert "mcpx.core.protocol.context.Origin" in found
    for name, struct in found.items():
        given = vars(sys.modules[struct.__module__])
        hints = typing.get_type_hints(struct, given, include_extras=True)
        fields = {field: form for field, form in hints.items() if field in struct.__struct_fields__}
        assert {field: form for field, form in fields.items() if not _is_data(form)} == {}, name


def test_whether_a_type_holds_data_alone_is_told() -> None:
    class Holds(msgspec.Struct, gc=False):
        client: object = None

    assert not _is_data(Holds)
    assert not _is_data(list[Holds])
    assert _is_data(dict[str, msgspec.Raw] | None)

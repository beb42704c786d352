"""Values and settings: from plain JSON to the types of `mcpx.core.config.model`, or an error that says where.

`convert` checks one value, `read_settings` fills a struct from the object that holds its settings, `keys`
names the settings of a struct. Which settings there are, and their bounds, `mcpx.core.config.model` says.
msgspec checks; the messages are made here, because they name the whole range and never show a string, which
may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo

from mcpx.core.config.document import (
    ConfigNotices,
    LocatedError,
    Location,
    as_object,
    is_comment,
    quote,
    unknown_key,
)
from mcpx.core.config.per_server import FLAT, YEAR_S, AccessRules, Patterns, ToolRules
from mcpx.core.text import cut, kind_of
from mcpx.core.text.jsonc import JSONObject

S = TypeVar("S", bound=msgspec.Struct)

_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_ITEM: Final = re.compile(r"`\$\[(\d+)\]`$")  # how msgspec says which item of an array is wrong
_DIGITS_SHOWN: Final = 24


@cache
def fields(struct: type[msgspec.Struct]) -> Mapping[str, FieldInfo]:
    """The fields of a struct by their keys in the file."""
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


@cache
def keys(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """The keys of the settings that fill this struct, at its own level of the file."""
    found: list[str] = []
    for key, field in fields(struct).items():
        found += keys(field.type) if field.name in FLAT else (key,)
    return tuple(found)


def read_settings(
    given: JSONObject,
    base: S,
    at: Location,
    notices: ConfigNotices,
    *,
    of: type[msgspec.Struct] | None = None,
) -> S:
    """`base` with the settings that `given` holds; other keys of the objects inside are noted.

    One that is not what it must be is noted as a mistake, and stays as in `base`. `of`: the settings of that
    struct alone, which that of `base` extends.
    """
    changes: dict[str, Any] = {}
    for key, field in fields(of or type(base)).items():
        before = getattr(base, field.name)
        if field.name in FLAT:
            changes[field.name] = read_settings(given, before, at, notices)
        elif key in given:
            with notices.gathering():
                changes[field.name] = _read_setting(given[key], field, before, at.key(key), notices)
    return msgspec.structs.replace(base, **changes)


def _read_setting(value: Any, field: FieldInfo, before: Any, at: Location, notices: ConfigNotices) -> Any:
    if isinstance(before, AccessRules) and isinstance(value, list):  # as other clients write it
        return msgspec.structs.replace(before, allow=convert(value, Patterns, at))
    if bool in get_args(_plain(field.type)) and (struct := _struct_of(_plain(field.type))) is not None:
        full = before if isinstance(before, msgspec.Struct) else struct()
        return (value and full) if isinstance(value, bool) else _read_struct(value, full, at, notices)
    if isinstance(before, msgspec.Struct):
        return _read_struct(value, before, at, notices)
    if (wanted := _members(field.type)) is not None:
        if isinstance(value, list) and ToolRules in get_args(wanted):  # the tools of a profile
            return {"allow": convert(value, Patterns, at)}
        return read_members(value, wanted, at, notices)
    return convert(value, field.type, at)


def _read_struct(value: Any, before: S, at: Location, notices: ConfigNotices) -> S:
    """`before` with the settings of an object; unknown keys are mistakes, or noted, as the struct says."""
    struct = type(before)
    if struct.__struct_config__.forbid_unknown_fields:
        given = own_keys(value, struct, at, notices)
    else:
        given = as_object(value, at)
        notices.unused(given, at, known=keys(struct))
    return read_settings(given, before, at, notices)


def _members(wanted: Any) -> Any:
    """The type of the members of an object that has a name for each; None for any other type."""
    plain = _plain(wanted)
    return get_args(plain)[1] if get_origin(plain) is dict else None


def _plain(wanted: Any) -> Any:
    """A type without its bounds and its description."""
    return get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted


def read_members(value: Any, wanted: Any, at: Location, notices: ConfigNotices) -> dict[str, Any]:
    """An object whose members are all of one type, by their names; one that is not is noted and left out."""
    found: dict[str, Any] = {}
    for name, member in as_object(value, at).items():
        here = at.key(name)
        with notices.gathering():
            _check_text(name, here)
            struct = _struct_of(wanted)
            if (inner := _members(wanted)) is not None:
                found[name] = read_members(member, inner, here, notices)
            elif struct is not None and (wanted is struct or isinstance(member, JSONObject)):
                found[name] = _read_struct(member, struct(), here, notices)
            else:
                found[name] = convert(member, wanted, here)
    return found


def _struct_of(wanted: Any) -> type[msgspec.Struct] | None:
    """The struct that a type is, or may be beside others."""
    found = (each for each in (wanted, *get_args(wanted)) if isinstance(each, type))
    return next((each for each in found if issubclass(each, msgspec.Struct)), None)


def own_keys(value: Any, struct: type[msgspec.Struct], at: Location, notices: ConfigNotices) -> JSONObject:
    """An object that holds settings of this struct, and comments; another key is noted as a mistake.

    Raises:
        LocatedError: It is something else.
    """
    given, known = as_object(value, at), keys(struct)
    for key in given:
        if key not in known and not is_comment(key):
            notices.mistakes.append(unknown_key(key, known, at))
    return given


def convert(value: Any, wanted: Any, at: Location) -> Any:
    """`value` as the type `wanted`, which may be annotated with bounds. `8.0` is a whole number, as in JSON.

    Raises:
        LocatedError: It is not of that type, or out of bounds, or holds characters that are not text.
    """
    if isinstance(value, float) and value.is_integer() and isinstance(_rule(wanted), inspect.IntType):
        value = int(value)
    try:
        found = msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise _misfit(value, _rule(wanted), at, str(error)) from None
    if isinstance(found, str):
        _check_text(found, at)
    elif isinstance(found, tuple):
        for index, item in enumerate(found):
            _check_text(item, at.item(index))
    return found


def is_text(text: str) -> bool:
    """Return True if a program can be given `text`: it holds no null character and no lone surrogate."""
    return _NOT_TEXT.search(text) is None


def _check_text(text: str, at: Location) -> None:
    if bad := _NOT_TEXT.search(text):
        raise at.error(f"the string holds a character that is not text (U+{ord(bad[0]):04X})")


def _rule(wanted: Any) -> inspect.Type:
    """The type without its description, and without null, which stands for a setting that is not given."""
    rule = inspect.type_info(wanted)
    rule = rule.type if isinstance(rule, inspect.Metadata) else rule
    if isinstance(rule, inspect.UnionType):
        others = [each for each in rule.types if not isinstance(each, inspect.NoneType | inspect.StructType)]
        return others[0] if len(others) == 1 else rule
    return rule


def _misfit(value: Any, rule: inspect.Type, at: Location, complaint: str) -> LocatedError:
    """The error for a value that msgspec has refused with `complaint`, which says which item it was."""
    if isinstance(rule, inspect.UnionType) and isinstance(value, list):
        rule = next((each for each in rule.types if isinstance(each, inspect.VarTupleType)), rule)
    if isinstance(rule, inspect.VarTupleType) and (found := _ITEM.search(complaint)):
        index = int(found[1])
        value, rule, at = value[index], rule.item_type, at.item(index)
    return at.error(f"expected {_expected(rule)}, got {_got(value, rule)}")


def _expected(rule: inspect.Type) -> str:
    match rule:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number from {rule.ge} to {rule.le}"
        case inspect.FloatType():
            least = f"from {rule.ge}" if rule.gt is None else f"above {rule.gt}"
            what = "a number of seconds" if rule.le == YEAR_S else "a number"
            return f"{what} {least} and at most {rule.le}"
        case inspect.LiteralType():
            return f"one of {', '.join(quote(str(each)) for each in rule.values)}"
        case inspect.VarTupleType():
            return "an array of strings"
        case inspect.UnionType():
            return " or ".join(
                _expected(each) for each in rule.types if not isinstance(each, inspect.NoneType)
            )
        case _:
            return "a string"


def _got(value: Any, rule: inspect.Type) -> str:
    """Return what was given: a number where one was wanted, a word where one of a few was, else its kind."""
    match rule, value:
        case ((inspect.IntType() | inspect.FloatType()), (int() | float())) if not isinstance(value, bool):
            return cut(json.dumps(value), _DIGITS_SHOWN)
        case ((inspect.LiteralType() | inspect.UnionType()), str()):
            return quote(value)
        case inspect.StrType(), "":
            return "an empty one"
        case _:
            return kind_of(value)

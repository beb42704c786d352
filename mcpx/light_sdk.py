"""The SDK, imported with less: `with light_sdk(): from mcpx import app`.

The SDK's packages import all that they offer: a class of its client brings its server framework, its
authorization and more, an eighth of an idle daemon's memory. Their `__init__` modules only collect names from
other modules, so within `light_sdk` each name is imported from its home, when it is first asked for. And of
the SDK's three sets of models most are never used: pydantic prepares each at its first use.

Without this module everything works alike. That a newer SDK does too is ensured by `names_of`: a package is
only loaded so if its `__init__` holds nothing but imports of names.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import resolve_name
from types import ModuleType
from typing import Any, Final, NamedTuple

PACKAGES: Final = frozenset({"mcp", "mcp.client", "mcp.server", "mcp.server.lowlevel"})


@contextmanager
def light_sdk() -> Iterator[None]:
    """Import the SDK lightly in the body, if it has not been imported yet. What is imported stays so."""
    from pydantic import BaseModel  # noqa: PLC0415 - a part of what the caller is about to import

    finder = _LazyPackages()
    collects = gc.isenabled()
    gc.disable()  # nothing that is imported is garbage, and looking for some takes time
    sys.meta_path.insert(0, finder)
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        del BaseModel.model_config["defer_build"]
        sys.meta_path.remove(finder)
        if collects:
            gc.enable()


class Home(NamedTuple):
    """Where a name of a package comes from. Without `attribute` it is the module itself."""

    module: str
    attribute: str | None


class _LazyPackages(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            names = names_of(spec.loader.get_source(fullname) or "", fullname)
            if names is not None:
                spec.loader = _LazyLoader(fullname, spec.loader.path, names)
        return spec


class _LazyLoader(SourceFileLoader):
    """Loads a package without running its `__init__`; its names come when they are asked for (PEP 562)."""

    def __init__(self, fullname: str, path: str, names: dict[str, Home]) -> None:
        super().__init__(fullname, path)
        self._names = names

    def exec_module(self, module: ModuleType) -> None:
        def get(name: str) -> Any:
            if name == "__all__":
                return list(self._names)
            if (home := self._names.get(name)) is None:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            found = import_module(home.module)
            value = found if home.attribute is None else getattr(found, home.attribute)
            setattr(module, name, value)
            return value

        module.__getattr__ = get  # type: ignore[method-assign]


def names_of(source: str, package: str) -> dict[str, Home] | None:
    """The names that an `__init__` collects from other modules; None if it does anything else."""
    names: dict[str, Home] = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.Expr(ast.Constant()) | ast.Assign([ast.Name("__all__")]):
                continue
            case ast.ImportFrom(module="__future__"):
                continue
            case ast.ImportFrom(module, imported, level):
                start = resolve_name("." * level + (module or ""), package) if level else module or ""
                for name in imported:
                    home = Home(f"{start}.{name.name}", None) if module is None else Home(start, name.name)
                    names[name.asname or name.name] = home
            case _:
                return None
    return names if "*" not in names else None

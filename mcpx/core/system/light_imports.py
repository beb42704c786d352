"""Imports of what is needed, and not of what its package brings along.

`with light_sdk(): from mcpx import app` saves a sixth of an idle daemon's memory. The SDK's packages import
all that they offer: a class of its client brings its server framework, its authorization and more. Their
`__init__` modules only collect names from other modules, so each name is imported from its home, when it is
first asked for. Of the SDK's three sets of models most are never used: pydantic prepares each at its first
use, and two of the sets, by which the SDK's server checks messages, are not even imported until it does.
`import_alone` imports a module without the rest of its package.

Without this module everything works alike. That it does with a newer SDK is ensured by `names_of`: a package
is only loaded so if its `__init__` holds nothing but imports of names.
"""

from __future__ import annotations

import ast
import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, resolve_name
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

PACKAGES: Final = frozenset({"mcp", "mcp.client", "mcp.server", "mcp.server.lowlevel", "mcp_types"})
LATE: Final = frozenset(
    {"mcp.server.subscriptions", "mcp.shared.inbound", "mcp.shared.subscriptions", "mcp_types.methods"}
)
"""Modules that run when something of them is first asked for: they import models of messages."""
PYDANTIC: Final = "pydantic"
FOR_HTTP: Final = (
    "uvicorn"  # sse_starlette prepares it for the event streams of HTTP servers, where it finds it
)


_importing: Final = threading.RLock()  # taken before any lock of the import system


@contextmanager
def light_sdk(*, serves_http: bool = False) -> Iterator[None]:
    """Import the SDK lightly in the body, if it has not been imported yet. What is imported stays so.

    One thread at a time does. Imports of the SDK's server by a thread beside another belong into the body.
    """
    with _importing, _hidden(() if serves_http else (FOR_HTTP,)), _without_collection(), ExitStack() as stack:
        if not any(isinstance(each, _LazyPackages) for each in sys.meta_path):  # not in the body of another
            stack.enter_context(_lazy_packages(lambda: stack.enter_context(_deferred_models())))
        yield


@contextmanager
def _lazy_packages(on_pydantic: Callable[[], object]) -> Iterator[None]:
    """Load packages lazily; `on_pydantic` is called when pydantic is there."""
    finder = _LazyPackages(on_pydantic)
    if PYDANTIC in sys.modules:
        on_pydantic()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _hidden(modules: Iterable[str]) -> Iterator[None]:
    """Let these look as if they were not installed, unless they have been imported already."""
    hides = {
        name: None for name in modules if name not in sys.modules
    }  # what the import system takes for that
    sys.modules.update(hides)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hides:
            del sys.modules[name]


@contextmanager
def _deferred_models() -> Iterator[None]:
    """Have models, and what validates several of them (`TypeAdapter`), prepared when they are first used.

    The latter has no option for that, so its method is replaced meanwhile, for this thread alone; if a newer
    pydantic decides it elsewhere, it is prepared at once. So is `model_rebuild`, by which a module has models
    prepared whose parts it has defined after them: their first use does the same. A model that another thread
    defines meanwhile is prepared when it is first used, too, which changes nothing for its users.
    """
    from pydantic import BaseModel, TypeAdapter  # noqa: PLC0415 - a part of what the caller is about to import

    found = vars(TypeAdapter).get("_defer_build")  # a method, or since pydantic 2.13 a property
    decides, importing = found.fget if isinstance(found, property) else found, threading.get_ident()

    def defers(adapter: TypeAdapter[Any]) -> bool:
        return threading.get_ident() == importing or (decides is not None and bool(decides(adapter)))

    rebuilds: classmethod[BaseModel, ..., bool | None] = vars(BaseModel)["model_rebuild"]

    def rebuild(model: type[BaseModel], /, **options: Any) -> bool | None:
        if not options and threading.get_ident() == importing:
            return None
        options["_parent_namespace_depth"] = options.get("_parent_namespace_depth", 2) + 1  # with this frame
        return rebuilds.__func__(model, **options)

    BaseModel.model_rebuild = classmethod(rebuild)  # type: ignore[method-assign, assignment]
    before = BaseModel.model_config.get("defer_build", False)
    BaseModel.model_config["defer_build"] = True
    if isinstance(decides, FunctionType):
        made = property(defers) if isinstance(found, property) else defers
        TypeAdapter._defer_build = made  # type: ignore[method-assign, assignment] # noqa: SLF001
    try:
        yield
    finally:
        BaseModel.model_config["defer_build"] = before
        BaseModel.model_rebuild = rebuilds  # type: ignore[method-assign, assignment]
        if isinstance(decides, FunctionType):
            TypeAdapter._defer_build = found  # type: ignore[method-assign, assignment] # noqa: SLF001


@contextmanager
def _without_collection() -> Iterator[None]:
    """Do not look for garbage, which takes time: nothing that is imported is any."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def import_alone(module: str) -> ModuleType:
    """Import a module of a package whose `__init__` it does not need, and which nobody else imports.

    Raises:
        ImportError: It cannot be imported.
    """
    package = module.rpartition(".")[0]
    spec = None if package in sys.modules else find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return import_module(module)
    sys.modules[package] = bare = ModuleType(package)
    bare.__path__ = spec.submodule_search_locations
    try:
        return import_module(module)
    finally:  # so that a later import of the package is a whole one
        for name in list(sys.modules):  # a copy: other threads import meanwhile
            if name == package or name.startswith(f"{package}."):
                del sys.modules[name]


class Home(NamedTuple):
    """The module that a name of a package comes from. Without `attribute` it is the module itself."""

    module: str
    attribute: str | None


class _LazyPackages:
    """A finder (`MetaPathFinder`, whose module takes a megabyte)."""

    def __init__(self, on_pydantic: Callable[[], object]) -> None:
        self._on_pydantic = on_pydantic

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in PACKAGES | LATE | {PYDANTIC}:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            if fullname == PYDANTIC:
                spec.loader = _TellingLoader(fullname, spec.loader.path, self._on_pydantic)
                return spec
            if fullname in LATE:
                spec.loader = _LateLoader(fullname, spec.loader.path)
                return spec
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
            found = _imported(home.module)
            value = found if home.attribute is None else getattr(found, home.attribute)
            setattr(module, name, value)
            return value

        module.__getattr__ = get  # type: ignore[method-assign]


def _imported(module: str) -> ModuleType:
    """Import a module lightly, unless another thread is importing: it may wait for what this one imports."""
    if module in sys.modules or not _importing.acquire(blocking=False):
        return import_module(module)
    try:
        with light_sdk():
            return import_module(module)
    finally:
        _importing.release()


class _TellingLoader(SourceFileLoader):
    """Loads a module, and calls something when it is there."""

    def __init__(self, fullname: str, path: str, on_loaded: Callable[[], object]) -> None:
        super().__init__(fullname, path)
        self._on_loaded = on_loaded

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self._on_loaded()


class _LateLoader(SourceFileLoader):
    """Runs a module when something of it is first asked for, whoever does (PEP 562); others wait meanwhile.

    Not `importlib.util.LazyLoader`: before Python 3.12 a second thread may see half of such a module.
    """

    def exec_module(self, module: ModuleType) -> None:
        names, is_running = vars(module), False

        def get(name: str) -> Any:
            nonlocal is_running
            with _importing:
                if not is_running and "__getattr__" in names:
                    is_running = True
                    try:
                        with light_sdk():
                            super(_LateLoader, self).exec_module(module)
                        del names["__getattr__"]
                    finally:
                        is_running = False
                if name in names:
                    return names[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        names["__getattr__"] = get


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

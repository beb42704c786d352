"""Count the figures of the house, and fail where one is above its limit. Started by `scripts/check`.

They hold the plan of `mcpx/` (docs/architecture.md): no circle of imports, few entries in a folder, few
modules that one other alone imports, few imports inside functions. An import counts wherever it stands, under
`TYPE_CHECKING` and in functions as well; those of a package's own `__init__` do not. A limit goes down with
what is mended; it goes up only with a reason in the commit.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
LONG_FUNCTION: Final = 40  # lines
NEIGHBOURS_OF_CORE: Final = {"mcpx.errors", "mcpx.paths", "mcpx.version"}
LIMITS: Final = {
    "lines": 112_149,  # on the way to 72,000; what clients and people ask for takes lines
    "files": 552,  # to 420
    "modules with one importer": 89,  # to 60
    "circles of modules": 0,
    "circles of packages": 0,
    "imports inside functions": 147,
    "noqa": 217,
    "entries in a folder": 25,
    "lines of the median function": 6,
    "functions over 40 lines": 25,
    "docstrings that begin with a question word": 0,
    "files that say door": 1,
    "imports of the core from its neighbours": 0,
    "names of Linux's own files outside of core/system": 0,
    "mcpx: rooms": 15,
    "mcpx: floors": 6,
    "mcpx: arrows": 49,
    "mcpx.core: rooms": 17,
    "mcpx.core: floors": 10,
    "mcpx.core: arrows": 90,
}
SYSTEM: Final = "mcpx.core.system."
"""What is the operating system's own stands in there. Its calls are forbidden elsewhere by ruff (TID251)."""
_OF_LINUX: Final = re.compile(r"/(proc|sys)\b")
_QUESTION: Final = re.compile(r"(What|Whether|Why|How|Where|Who|Whom|Whose|Those|That|As)\b")

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS: Final = (ast.Import, ast.ImportFrom)
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_LOOKED_AT: Final = (*_IMPORTS, *_DOCUMENTED, ast.Expr, ast.Constant)

Graph = Mapping[str, set[str]]


class Module(NamedTuple):
    """A module of `mcpx`, parsed."""

    name: str
    path: Path
    text: str
    nodes: list[ast.AST]
    """Those that are looked at: one walk takes as long as all else."""


def modules(root: Path) -> list[Module]:
    """Every module below `mcpx/`, `__init__` under the name of its package."""
    found = []
    for path in sorted((root / "mcpx").rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _LOOKED_AT)]
        found.append(Module(name, path, text, nodes))
    return found


def imports(found: Iterable[Module]) -> Graph:
    """Every import of one module of `mcpx` by another, without those of a package's `__init__`."""
    known = {module.name: module for module in found}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for module in known.values():
        for node in module.nodes:
            for name in _imported(node, known):
                if name != module.name and known[name].path.name != "__init__.py":
                    graph[module.name].add(name)
    return graph


def _imported(node: ast.AST, known: Mapping[str, Module]) -> Iterable[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        yield from names & known.keys() or {node.module} & known.keys()
    elif isinstance(node, ast.Import):
        yield from {alias.name for alias in node.names} & known.keys()


def rooms(graph: Graph, package: str) -> Graph:
    """What the direct entries of a package import of each other."""
    depth = package.count(".") + 2

    def room(name: str) -> str | None:
        parts = name.split(".")
        return ".".join(parts[:depth]) if name.startswith(f"{package}.") else None

    drawn: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        if (own := room(name)) is not None:
            drawn[own] |= {other for each in others if (other := room(each)) not in {None, own}}
    return drawn


def circles(graph: Graph) -> list[list[str]]:
    """Groups of two and more that reach each other (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def floors(graph: Graph) -> int:
    """The longest way down, in rooms; 0 where there is a circle."""
    if circles(graph):
        return 0

    @cache
    def floor(name: str) -> int:
        return 1 + max(map(floor, graph.get(name, ())), default=0)

    return max(map(floor, graph), default=0)


def figures(found: list[Module]) -> dict[str, int]:
    """Every figure of `LIMITS`."""
    graph = imports(found)
    lengths = sorted(len(lines) for module in found for lines in _lines_of_functions(module))
    importers = Counter(name for others in graph.values() for name in others)
    packages = [module.name for module in found if module.path.name == "__init__.py"]
    core = {name: others for name, others in graph.items() if name.startswith("mcpx.core")}
    said = [module for module in found if re.search(r"\bdoors?\b|[a-z]_doors?\b|Doors?[A-Z]?", module.text)]
    counted = {
        "lines": sum(module.text.count("\n") for module in found),
        "files": len(found),
        "modules with one importer": sum(count == 1 for count in importers.values()),
        "circles of modules": len(circles(graph)),
        "circles of packages": sum(len(circles(rooms(graph, package))) for package in packages),
        "imports inside functions": sum(map(_late_imports, found)),
        "noqa": sum(len(re.findall(r"#\s*noqa", module.text)) for module in found),
        "entries in a folder": max(_entries(module.path.parent) for module in found),
        "lines of the median function": lengths[len(lengths) // 2] if lengths else 0,
        "functions over 40 lines": sum(length > LONG_FUNCTION for length in lengths),
        "docstrings that begin with a question word": sum(map(_questions, found)),
        "files that say door": len(said),
        "imports of the core from its neighbours": sum(
            not name.startswith("mcpx.core.") and name not in NEIGHBOURS_OF_CORE
            for others in core.values()
            for name in others
        ),
    }
    counted["names of Linux's own files outside of core/system"] = sum(
        _named_files(module.nodes) for module in found if not module.name.startswith(SYSTEM)
    )
    for package in ("mcpx", "mcpx.core"):
        drawn = rooms(graph, package)
        counted[f"{package}: rooms"] = len(drawn)
        counted[f"{package}: floors"] = floors(drawn)
        counted[f"{package}: arrows"] = sum(map(len, drawn.values()))
    return counted


def _named_files(nodes: list[ast.AST]) -> int:
    """Count the texts, but for docstrings, that name a file in /proc or /sys."""
    said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in said)
    return sum(isinstance(each.value, str) and bool(_OF_LINUX.match(each.value)) for each in texts)


def _lines_of_functions(module: Module) -> list[range]:
    functions = (node for node in module.nodes if isinstance(node, _FUNCTIONS))
    return [range(node.lineno, (node.end_lineno or 0) + 1) for node in functions]


def _late_imports(module: Module) -> int:
    functions = _lines_of_functions(module)
    lines = [node.lineno for node in module.nodes if isinstance(node, _IMPORTS)]
    return sum(any(line in function for function in functions) for line in lines)


def _entries(folder: Path) -> int:
    """Count the files and folders beside `__init__`; a folder of nothing but compiled files is none."""
    there = (each for each in folder.iterdir() if each.name not in {"__init__.py", "__pycache__"})
    return sum(each.is_file() or any(file.suffix != ".pyc" for file in each.rglob("*.*")) for each in there)


def _questions(module: Module) -> int:
    nodes = [node for node in module.nodes if isinstance(node, _DOCUMENTED)]
    return sum(bool(_QUESTION.match(ast.get_docstring(node) or "")) for node in nodes)


def main() -> int:
    """Print the figures; return 1 if one is above its limit."""
    gc.disable()  # it looks through the trees more than twice as long as they take to parse
    found = modules(ROOT)
    counted = figures(found)
    over = {name for name, limit in LIMITS.items() if counted[name] > limit}
    for name, limit in LIMITS.items():
        print(f"{counted[name]:>8,} of {limit:>7,}  {name}{'  TOO MANY' if name in over else ''}")
    graph = imports(found)
    for place in [
        graph,
        *(rooms(graph, module.name) for module in found if module.path.name == "__init__.py"),
    ]:
        for circle in circles(place):
            print(f"circle: {', '.join(circle)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())

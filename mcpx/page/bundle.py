"""The script and the style sheet of the page, each made of the files of `static/` at the first request.

The sources stay as they are: modules that import one another, and a style sheet for each view. A browser
would ask for each of them by itself, one after the other. `script` puts each module into a function of its
own, those first that others import, and has its `import` and `export` read and give values. It understands
the forms that the sources and the libraries have, and refuses all others, and circles. The same files give
the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import dirname, join, normpath
from typing import Final

LIBRARIES: Final[Mapping[str, str]] = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/preact-hooks.mjs",
    "htm": "vendor/htm.mjs",
}
"""The modules that are imported by a name, and the file of each."""
_FROM: Final = r'\s*from\s*"([^"]+)";?'
# each begins with the word itself, which `re` looks for many times as fast as for the beginning of a line
_IMPORT: Final = re.compile(rf"import\b(?<=^import)([^;\"]*?){_FROM}", re.MULTILINE)
_EXPORT_FROM: Final = re.compile(rf"export(?<=^export)\s*(\*|\{{[^}}]*\}}){_FROM}", re.MULTILINE)
_EXPORT: Final = re.compile(
    r"export (?<=^export )((?:async function|function|const|class) (\w+))", re.MULTILINE
)
_EXPORT_DEFAULT: Final = re.compile(r"export default (?=function)")
_EXPORT_LIST: Final = re.compile(r"export\s*\{([^}]*)\};?\s*\Z")
_LEFT: Final = re.compile(r"(?:import|export)\b(?:(?<=^import)|(?<=^export)).*", re.MULTILINE)
_SOURCE_MAP: Final = re.compile(r"//# sourceMappingURL=.*\n?")
_NAMES: Final = re.compile(r"([\w$]+)(?: as ([\w$]+))?")


class BundleError(Exception):
    """A module has a form that is not understood, or imports what imports it; the text names it."""


def script(sources: Mapping[str, str], first: str) -> str:
    """The module `first` with all that it imports, as one. `sources` are texts by their paths.

    Raises:
        BundleError: One cannot be put into it.
    """
    made: dict[str, str] = {}
    variables: dict[str, str | None] = {}  # None while the imports of a module are added

    def add(path: str) -> str:
        """Add a module behind those that it imports, and return the variable of its exports."""
        if path not in variables:
            if path not in sources:
                raise BundleError(f"{path}: there is no such module")
            variables[path] = None
            inner = _as_function(path, sources[path], add)
            variables[path] = f"$module{len(made)}"
            made[path] = f"// --- {path}\nconst {variables[path]} = {inner}\n"
        if (variable := variables[path]) is None:
            raise BundleError(f"{path}: imports what imports it")
        return variable

    add(first)
    return "".join(made.values())


def style(sources: Mapping[str, str]) -> str:
    """The style sheets in one, those of views behind the common one."""
    paths = sorted(sources, key=lambda path: (dirname(path), path))
    return "".join(f"/* --- {path} */\n{sources[path].strip()}\n" for path in paths)


def _as_function(path: str, text: str, variable_of: Callable[[str], str]) -> str:
    """A module as a call of a function that returns its exports."""
    exports: list[str] = []

    def imported(found: re.Match[str]) -> str:
        variable = variable_of(_path_of(found[2], path))
        clause = found[1].strip()
        if clause.startswith("* as "):
            return f"const {clause.removeprefix('* as ')} = {variable};"
        if clause.startswith("{"):
            return f"const {_members(clause, '{}: {}', path)} = {variable};"
        return f"const {{ default: {clause} }} = {variable};"

    def passed_on(found: re.Match[str]) -> str:
        variable = variable_of(_path_of(found[2], path))
        if found[1] == "*":
            exports.append(f"...{variable}")
        else:
            exports.append(_members(found[1], f"{{1}}: {variable}.{{0}}", path)[2:-2])
        return ""

    def listed(found: re.Match[str]) -> str:
        exports.append(_members(f"{{{found[1]}}}", "{1}: {0}", path)[2:-2])
        return ""

    def declared(found: re.Match[str]) -> str:
        exports.append(found[2])
        return found[1]

    text = _SOURCE_MAP.sub("", text)
    text = _IMPORT.sub(imported, text)
    text = _EXPORT_FROM.sub(passed_on, text)
    text = _EXPORT_LIST.sub(listed, text)
    text, defaults = _EXPORT_DEFAULT.subn("const $default = ", text)
    exports += ["default: $default"] * defaults
    text = _EXPORT.sub(declared, text)
    if left := _LEFT.search(text):
        raise BundleError(f"{path}: cannot be put into one script: {left[0][:80]}")
    return f"(() => {{\n{text.strip()}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _members(clause: str, form: str, path: str) -> str:
    """`{a, b as c}` as members, each by `form` of both names."""
    names = [_NAMES.fullmatch(each.strip()) for each in clause.strip("{} \n,").split(",")]
    if None in names:
        raise BundleError(f"{path}: cannot be put into one script: {clause[:80]}")
    return f"{{ {', '.join(form.format(each[1], each[2] or each[1]) for each in names if each)} }}"


def _path_of(named: str, importer: str) -> str:
    """The path of an imported module."""
    return LIBRARIES.get(named) or normpath(join(dirname(importer), named))

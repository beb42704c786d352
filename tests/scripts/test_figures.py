"""The figures of the house: what `scripts/check` counts, and that it sees what it must not miss."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.docs import pages

PATH = pages.ROOT / "scripts" / "lib" / "figures.py"


@pytest.fixture(scope="module")
def figures():
    spec = importlib.util.spec_from_file_location("figures", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["figures"] = module  # NamedTuple looks its module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["figures"]


def house(folder, **files):
    for name, text in files.items():
        path = folder / "mcpx" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for package in {path.parent, folder / "mcpx"}:
            (package / "__init__.py").touch()
    return folder


def counted(figures, folder, **files):
    return figures.figures(figures.modules(house(folder, **files)))


@pytest.mark.parametrize(
    "back",
    [
        "from mcpx import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mcpx import a",
        "def f():\n    from mcpx.a import x",
        "import mcpx.a",
    ],
)
def test_a_circle_is_seen_however_its_imports_are_hidden(figures, tmp_path, back):
    found = counted(figures, tmp_path, a="from mcpx.b import y\nx = 1\n", b=back)
    assert found["circles of modules"] == 1
    assert found["circles of packages"] == 1
    assert found["mcpx: floors"] == 0


def test_a_circle_of_packages_need_not_be_one_of_modules(figures, tmp_path):
    files = {"one__a": "import mcpx.two.b", "two__b": "", "two__c": "import mcpx.one.d", "one__d": ""}
    found = counted(figures, tmp_path, **files)
    assert (found["circles of modules"], found["circles of packages"]) == (0, 1)


def test_rooms_floors_and_arrows_are_those_of_a_package(figures, tmp_path):
    found = counted(figures, tmp_path, core__a="import mcpx.core.b", core__b="", top="import mcpx.core.a")
    assert [found[f"mcpx: {each}"] for each in ("rooms", "floors", "arrows")] == [2, 2, 1]
    assert [found[f"mcpx.core: {each}"] for each in ("rooms", "floors", "arrows")] == [2, 2, 1]


def test_an_import_of_the_core_from_its_neighbours_counts(figures, tmp_path):
    found = counted(figures, tmp_path, core__a="import mcpx.page\nimport mcpx.errors", page="", errors="")
    assert found["imports of the core from its neighbours"] == 1


def test_docstrings_doors_and_imports_in_functions_are_counted(figures, tmp_path):
    text = '"""Whether."""\ndef f():\n    """What."""\n    import os\n    """Whose door."""\n'
    found = counted(figures, tmp_path, a=text)
    assert found["docstrings that begin with a question word"] == 2
    assert found["files that say door"] == 1
    assert found["imports inside functions"] == 1


def test_every_figure_has_a_limit(figures, tmp_path):
    assert counted(figures, tmp_path, a="def f():\n    pass\n").keys() == figures.LIMITS.keys()


def test_a_file_of_linux_that_is_named_elsewhere_is_counted(figures, tmp_path):
    said = '"""About /proc."""\nONE = "/proc/self/stat"\nTWO = f"/sys/{ONE}"\nOTHER = "/process"\n'
    key = "names of Linux's own files outside of core/system"
    assert counted(figures, tmp_path / "a", core__wire__a=said)[key] == 2
    assert counted(figures, tmp_path / "b", core__system__a=said)[key] == 0

"""The structure of the source keeps within its limits; a limit only ever goes down."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.architecture import measure

SINGLE_IMPORTERS = 0.24
"""Share of the modules that exactly one other imports: each process has a composition, each command a module."""
LARGEST_PACKAGE = 20
LONG_FUNCTIONS = 1
"""Functions of more than 50 lines."""
FILES, SWITCHES = 39, 268
"""Product files that one scheduling cycle enters, and calls from one file into another."""


def test_modules_do_not_import_one_another() -> None:
    assert measure.cycles() == []


def test_packages_are_small() -> None:
    sizes = measure.package_sizes()
    assert {name: size for name, size in sizes.items() if size > LARGEST_PACKAGE} == {}


def test_fragments_are_part_of_the_module_they_serve() -> None:
    found = measure.single_importers()
    modules = [module for module in measure.product().values() if not module.is_package]
    assert len(found) <= SINGLE_IMPORTERS * len(modules), "\n".join(found)


def test_functions_are_short() -> None:
    found = measure.long_functions()
    assert len(found) <= LONG_FUNCTIONS, "\n".join(found)


def test_docstrings_say_something_themselves() -> None:
    assert measure.pointer_docstrings() == []


def test_one_cycle_enters_few_files() -> None:
    """In a process of its own: what other tests have cached would be missing."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.measure", "cycle"],
        cwd=measure.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    calls = json.loads(done.stdout)
    assert calls["files"] <= FILES
    assert calls["switches"] <= SWITCHES


def test_no_test_module_is_imported_by_another() -> None:
    pattern = re.compile(r"^(?:from|import) tests\.[\w.]*\btest_\w+|^from tests\.\S+ import test_", re.MULTILINE)
    paths = sorted((measure.ROOT / "tests").rglob("*.py"))
    assert [str(path.relative_to(measure.ROOT)) for path in paths if pattern.search(path.read_text())] == []


def test_yaml_is_read_only_within_limits() -> None:
    """Use the readers of volcanoio/model/documents.py: they bound size, depth and aliases of a text."""
    pattern = re.compile(r"\byaml\.(?:\w*load\w*|compose\w*|parse|scan)\(")
    tops = ("volcanoio", "plugins/volcanoio_plugins", "policies")
    paths = [path for top in tops for path in (measure.ROOT / top).rglob("*.py")]
    found = {str(path.relative_to(measure.ROOT)) for path in paths if pattern.search(path.read_text())}
    assert found == {"volcanoio/model/documents.py"}

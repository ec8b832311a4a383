"""Plugins and policies as files in a directory, such as a mounted ConfigMap.

Every `*.py` file of the directory itself is run as a module of a private namespace named after its content's hash, so
that two versions of a file never share a module. Names starting with `_`, `..` (a ConfigMap's own links) or
`test_` (tests beside what they test) are skipped.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from volcanoio.runtime.conformance import NOUNS, belongs

NAMESPACE = "volcanoio_mounted"


class MountError(ValueError):
    """A directory or file that cannot be loaded; the message names it and the next step."""


class Found(NamedTuple):
    """A class of a file. `origin` is `FILE sha256:HEX`, `source` the file's text."""

    group: str
    cls: type
    origin: str
    file: str
    source: str


def classes(directory: Path, groups: Sequence[str]) -> Iterator[Found]:
    """Every class in the directory's files that has the shape of one of the groups. Raises MountError."""
    for path in files_in(directory):
        yield from classes_of(path, groups)


def files_in(directory: Path) -> list[Path]:
    """The files of a directory that are loaded, sorted. Raises MountError."""
    if not directory.is_dir():
        msg = f"{directory}: not a directory; give the directory that holds the .py files"
        raise MountError(msg)
    try:
        return sorted(path for path in directory.iterdir() if _wanted(path))
    except OSError as error:
        msg = f"{directory}: cannot be listed ({error.strerror}); check its permissions"
        raise MountError(msg) from error


def _wanted(path: Path) -> bool:
    return path.suffix == ".py" and not path.name.startswith(("_", "..", "test_")) and path.is_file()


def classes_of(path: Path, groups: Sequence[str]) -> Iterator[Found]:
    """Every such class of one file. Raises MountError, also when there is none."""
    try:
        source = path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); check its permissions"
        raise MountError(msg) from error
    yield from classes_in(path, source, groups)


def classes_in(path: Path, source: bytes, groups: Sequence[str]) -> Iterator[Found]:
    """As `classes_of`, where the source is at hand and the path is but its name."""
    digest = hashlib.sha256(source).hexdigest()
    module = _run(path, source, digest)
    own = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    origin, text = f"{path.name} sha256:{digest}", source.decode(errors="replace")
    found = [Found(group, cls, origin, path.name, text) for cls in own for group in groups if belongs(group, cls)]
    if not found:
        wanted = " or ".join(NOUNS[group] for group in groups)
        msg = f"{path}: holds no class that is a {wanted}; give it a name and the methods of its Protocol"
        raise MountError(msg)
    yield from found


def _run(path: Path, source: bytes, digest: str) -> ModuleType:
    """The file as a module; the very bytes that were hashed are run."""
    name = f"{NAMESPACE}.{path.stem}_{digest[:16]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # msgspec and dataclasses look annotations up there
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        msg = f"{path}{line}: cannot be loaded: {type(error).__name__}: {error}; mend it or take it away"
        raise MountError(msg) from error
    return module

"""Plugins and policies as files in a directory, such as a mounted ConfigMap.

Every `*.py` file of the directory itself is run as a module of a private namespace named after its content's hash, so
that two versions of a file never share a module. Names starting with `_`, `..` (a ConfigMap's own links) or
`test_` (tests beside what they test) are skipped.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from volcanoio.runtime.loading.interfaces import NOUNS, conforms, problems

NAMESPACE = "volcanoio_mounted"


class MountError(ValueError):
    """A directory or file cannot be loaded; the message contains its path and the next step."""


class MountedClass(NamedTuple):
    """A class of a file. `origin` is `FILE sha256:HEX`, `source` the file's text."""

    group: str
    cls: type
    origin: str
    file: str
    source: str


def classes(directory: Path, groups: Sequence[str]) -> Iterator[MountedClass]:
    """Return every class in the directory's files that implements an interface of the groups. Raises MountError."""
    for path in files_in(directory):
        yield from classes_of(path, groups)


def files_in(directory: Path) -> list[Path]:
    """Return the files of a directory that are loaded, sorted. Raises MountError."""
    if not directory.is_dir():
        raise MountError(f"{directory}: not a directory; give the directory that holds the .py files")
    try:
        return sorted(path for path in directory.iterdir() if _wanted(path))
    except OSError as error:
        raise MountError(f"{directory}: cannot be listed ({error.strerror}); check its permissions") from error


def _wanted(path: Path) -> bool:
    return path.suffix == ".py" and not path.name.startswith(("_", "..", "test_")) and path.is_file()


def classes_of(path: Path, groups: Sequence[str]) -> Iterator[MountedClass]:
    """Return every such class of one file. Raises MountError, also if there is none."""
    yield from classes_in(path, _read(path), groups)


def classes_in(path: Path, source: bytes, groups: Sequence[str]) -> Iterator[MountedClass]:
    """Return every such class of a source text whose path serves as its name only."""
    digest = hashlib.sha256(source).hexdigest()
    own = _public_classes(_run(path, source, digest))
    origin, text = f"{path.name} sha256:{digest}", source.decode(errors="replace")
    found = [
        MountedClass(group, cls, origin, path.name, text) for cls in own for group in groups if conforms(group, cls)
    ]
    if not found:
        wanted = " or ".join(NOUNS[group] for group in groups)
        advice = "give it a name and the methods of its Protocol"
        if len(groups) == 1 and own:
            advice = "; ".join(f"class {own[-1].__name__} {each}" for each in problems(groups[0], own[-1]))
        raise MountError(f"{path}: holds no class that is a {wanted}; {advice}")
    yield from found


class DeclaredClass(NamedTuple):
    """A class that a file declares; `load` runs the file, once for all of its classes."""

    name: str
    origin: str
    file: str
    source: str
    load: Callable[[], type]


def declared_classes(directory: Path, group: str) -> Iterator[DeclaredClass]:
    """Find the classes with a literal `name` in the directory's files, without running them.

    Third-party code that hangs in its import can thus be run later with a time limit. Raises MountError for a file that
    cannot be read, is not Python or declares no class.
    """
    for path in files_in(directory):
        source = _read(path)
        digest = hashlib.sha256(source).hexdigest()
        names = _declared_names(path, source)
        if not names:
            msg = f'{path}: announces no {NOUNS[group]}; write a class with an attribute such as name = "mine"'
            raise MountError(msg)
        found = cache(partial(_load_classes, path, source))
        for name in names:
            origin, text = f"{path.name} sha256:{digest}", source.decode(errors="replace")
            yield DeclaredClass(name, origin, path.name, text, partial(_load_class, path, name, found))


def _declared_names(path: Path, source: bytes) -> list[str]:
    try:
        tree = ast.parse(source, str(path))
    except (SyntaxError, ValueError) as error:
        raise _loading_failed(path, error) from None
    return [
        statement.value.value
        for definition in tree.body
        if isinstance(definition, ast.ClassDef) and not definition.name.startswith("_")
        for statement in definition.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _targets(statement) == ["name"]
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    ]


def _loading_failed(path: Path, error: Exception) -> MountError:
    line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
    return MountError(f"{path}{line}: cannot be loaded: {type(error).__name__}: {error}; fix or remove the file")


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _public_classes(module: ModuleType) -> list[type]:
    """Return the public classes that a module defines."""
    return [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _load_classes(path: Path, source: bytes) -> dict[str, type]:
    """Return the file's classes by `name`; the caller checks their methods."""
    module = _run(path, source, hashlib.sha256(source).hexdigest())
    return {str(getattr(cls, "name", "")): cls for cls in _public_classes(module)}


def _load_class(path: Path, name: str, found: Callable[[], dict[str, type]]) -> type:
    classes = found()
    if name not in classes:
        raise MountError(f'{path}: no class calls itself "{name}" once the file was run; write name = "{name}" in it')
    return classes[name]


def _read(path: Path) -> bytes:
    try:
        if (open_to_all := _writable_by_all(path)) is not None:
            what = "it" if open_to_all == path.resolve() else f"directory {open_to_all}"
            rule = f"every user can write {what}, and the file would run as code"
            raise MountError(f"{path}: {rule}; chmod o-w it, or mount it read-only")
        return path.read_bytes()
    except OSError as error:
        raise MountError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def _writable_by_all(path: Path) -> Path | None:
    """Return the file, or a directory above it, by which every user could replace the code; None for none.

    Both ways are checked, by the path as it is given and to its target. A directory with the sticky bit lets others
    replace only what they own. A read-only mount cannot be written: kubelets mount ConfigMaps in this way, in a
    directory of mode 0777.
    """
    target = path.resolve()
    if _is_open_to_all(target):
        return target
    for way in (path.absolute(), target):
        for entry, directory in pairwise((way, *way.parents)):
            is_sticky = directory.stat().st_mode & stat.S_ISVTX
            if _is_open_to_all(directory) and not (is_sticky and entry.lstat().st_uid in (0, os.getuid())):
                return directory
    return None


def _is_open_to_all(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IWOTH) and not os.statvfs(path).f_flag & os.ST_RDONLY


def _run(path: Path, source: bytes, digest: str) -> ModuleType:
    """Run the bytes that were hashed as a module and return it."""
    name = f"{NAMESPACE}.{path.stem}_{digest[:16]}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # msgspec and dataclasses resolve annotations through it
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        del sys.modules[name]
        raise _loading_failed(path, error) from error
    return module

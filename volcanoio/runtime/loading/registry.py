"""Registry of plugins, actions, job plugins, policies and controllers by name.

There are three sources: entry points of volcanoio itself, entry points of other distributions, and directories
(`--plugins-dir`, `--policies-dir`, `--controllers-dir`). All have the same rights: a name that two sources define is an
error. Entry points are imported on first use. A registry never changes; a reload builds a new one, and if that fails
the old one stays in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import suggestion
from volcanoio.runtime.loading.interfaces import NOUNS, problems
from volcanoio.runtime.loading.mounted_files import MountedClass, MountError, classes, classes_in, declared_classes


class PluginError(ValueError):
    """A plugin is unknown, defined twice or invalid; the message contains its name, the rule and the next step."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded plugin. `origin` is `DISTRIBUTION VERSION` or `FILE sha256:HEX`, as recorded in the journal."""

    group: str
    name: str
    factory: Callable[..., Any]
    origin: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plugin that was found and is loaded on first use."""

    group: str
    name: str
    origin: str
    load: Callable[[], Any]
    file: str = ""
    """File of a mounted plugin, and its text."""
    source: str = ""


class Registry:
    """All plugins of a process. Raises PluginError for a name that two sources define."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._candidates: dict[tuple[str, str], Candidate] = {}
        self._loaded: dict[tuple[str, str], Loaded] = {}
        for candidate in candidates:
            key = (candidate.group, candidate.name)
            if first := self._candidates.get(key):
                raise PluginError(
                    f'{NOUNS[candidate.group]} "{candidate.name}" is registered twice: by {first.origin} and by '
                    f"{candidate.origin}; rename or remove one of them"
                )
            self._candidates[key] = candidate

    def names(self, group: str) -> tuple[str, ...]:
        """Return the names of a group, sorted; imports nothing."""
        return tuple(sorted(name for of, name in self._candidates if of == group))

    def get(self, group: str, name: str) -> Loaded:
        """Return one plugin, imported and checked; raises PluginError."""
        key = (group, name)
        if key not in self._loaded:
            candidate = self._candidates.get(key)
            if candidate is None:
                raise PluginError(f'there is no {NOUNS[group]} "{name}"{suggestion(name, self.names(group))}')
            self._loaded[key] = _load(candidate)
        return self._loaded[key]

    def factories(self, group: str) -> dict[str, Callable[..., Any]]:
        """Return every plugin of a group by name, imported and checked; raises PluginError."""
        return {name: self.get(group, name).factory for name in self.names(group)}

    def origins(self, group: str) -> dict[str, str]:
        """Return the origin of each plugin of a group by name."""
        return {name: self._candidates[group, name].origin for name in self.names(group)}

    def sources(self, *of: str) -> dict[str, str]:
        """Return the mounted files of these groups by name."""
        return {each.file: each.source for each in self._candidates.values() if each.file and each.group in of}

    def with_sources(self, sources: Mapping[str, str], *of: str) -> Registry:
        """Return a registry in which files of these groups, by name, replace the plugins with the same names.

        Raises MountError for a file that cannot be loaded.
        """
        if not sources:
            return self
        given = [
            _candidate(found) for name, text in sources.items() for found in classes_in(Path(name), text.encode(), of)
        ]
        taken = {(each.group, each.name) for each in given}
        return Registry([*(each for key, each in self._candidates.items() if key not in taken), *given])


def discover(
    *, plugins_dirs: Sequence[Path] = (), policies_dirs: Sequence[Path] = (), controllers_dirs: Sequence[Path] = ()
) -> Registry:
    """Find everything installed and mounted; blocks on files. Raises PluginError and MountError."""
    found = list(_installed())
    for directory in plugins_dirs:
        found += _mounted(directory, (entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS, entrypoints.JOB_PLUGINS))
    for directory in policies_dirs:
        found += [
            Candidate(entrypoints.LIFECYCLE_POLICIES, each.name, each.origin, each.load, each.file, each.source)
            for each in declared_classes(directory, entrypoints.LIFECYCLE_POLICIES)
        ]
    for directory in controllers_dirs:
        found += _mounted(directory, (entrypoints.CONTROLLERS,))
    return Registry(found)


def _installed() -> Iterable[Candidate]:
    """Return the entry points of our groups; reads each distribution's name once, since it parses metadata."""
    found = entry_points()
    origins: dict[int, str] = {}
    for group in NOUNS:
        unique = {(point.name, point.value, _origin(point, origins)): point for point in found.select(group=group)}
        for (name, _, origin), point in sorted(unique.items()):
            yield Candidate(group, name, origin, point.load)


def _origin(point: EntryPoint, known: dict[int, str]) -> str:
    if point.dist is None:
        return point.value
    key = id(point.dist)
    if key not in known:
        metadata = point.dist.metadata
        known[key] = f"{metadata['Name']} {metadata['Version']}"
    return known[key]


def _mounted(directory: Path, wanted: Sequence[str]) -> Iterable[Candidate]:
    return map(_candidate, classes(directory, wanted))


def _candidate(found: MountedClass) -> Candidate:
    name: str = found.cls.name  # type: ignore[attr-defined]  # checked by `belongs`
    return Candidate(found.group, name, found.origin, lambda: found.cls, found.file, found.source)


def _load(candidate: Candidate) -> Loaded:
    title = f'{NOUNS[candidate.group]} "{candidate.name}" ({candidate.origin})'
    try:
        factory = candidate.load()
    except MountError as error:  # its message contains the file and the next step
        raise PluginError(f'{NOUNS[candidate.group]} "{candidate.name}": {error}') from error
    except Exception as error:
        msg = f"{title} cannot be imported: {type(error).__name__}: {error}; fix or uninstall it"
        raise PluginError(msg) from error
    wrong = problems(candidate.group, factory)
    name = getattr(factory, "name", candidate.name)
    if isinstance(name, str) and name != candidate.name:
        wrong.append(f'calls itself "{name}"; register it under that name')
    if wrong:
        raise PluginError(f"{title} {'; it '.join(wrong)}")
    return Loaded(candidate.group, candidate.name, factory, candidate.origin)

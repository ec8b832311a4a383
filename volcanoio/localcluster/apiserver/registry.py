"""Which resources are served right now: the built-ins, and custom resources as their definitions come and go."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.localcluster.apiserver.builtins import BUILTINS
from volcanoio.localcluster.apiserver.resources import Resource


class Registry:
    """The served resources. `revision` grows on each change, so that documents built from it can be cached."""

    def __init__(self, builtins: Iterable[Resource] = BUILTINS) -> None:
        self._by_path = {(one.group, one.version, one.plural): one for one in builtins}
        self._by_name: dict[str, Resource] = {one.name: one for one in self._by_path.values()}
        self.revision = 1

    def resources(self) -> tuple[Resource, ...]:
        """All served resources: built-ins first, then custom ones in the order they were added."""
        return tuple(self._by_path.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource served at that path."""
        return self._by_path.get((group, version, plural))

    def has_group(self, group: str, *, builtin: bool = False) -> bool:
        """Whether anything of the group is served; with `builtin`, anything but custom resources."""
        return any(one.group == group and not (builtin and one.custom) for one in self._by_path.values())

    def named(self, name: str) -> Resource | None:
        """The resource stored under `plural.group`, in the version that is stored."""
        return self._by_name.get(name)

    def builtin(self, name: str) -> Resource:
        """A built-in resource by `plural.group`; raises KeyError."""
        return self._by_name[name]

    def for_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an apiVersion and kind."""
        return next(
            (one for one in self._by_path.values() if one.kind == kind and one.api_version == api_version), None
        )

    def add_custom(self, *versions: Resource) -> None:
        """Serve a custom resource in these versions, the stored one last; replaces what was served under its name."""
        self._drop(versions[-1].name)
        for one in versions:
            if one.custom is None or one.custom.served:
                self._by_path[one.group, one.version, one.plural] = one
            self._by_name[one.name] = one
        self.revision += 1

    def remove_custom(self, group: str, plural: str) -> None:
        """Serve a custom resource no longer."""
        self._drop(f"{plural}.{group}")
        self.revision += 1

    def _drop(self, name: str) -> None:
        gone = [path for path, one in self._by_path.items() if one.name == name and one.custom is not None]
        for path in gone:
            del self._by_path[path]
        known = self._by_name.get(name)
        if known is not None and known.custom is not None:
            del self._by_name[name]

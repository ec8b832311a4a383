"""The resources an API server serves: built-ins as a table, custom resources from their definitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.crd import CustomResource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource. `subresources` names those that are served, such as status, scale, binding, log.

    `custom` is set for custom resources and holds the compiled schema, printer columns and subresource paths.
    `api_version` is `group/version`, or the version alone for the core group; `name` is `plural.group`, as in error
    messages.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: CustomResource | None = field(default=None, compare=False)
    api_version: str = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        group = self.group
        object.__setattr__(self, "api_version", f"{group}/{self.version}" if group else self.version)
        object.__setattr__(self, "name", f"{self.plural}.{group}" if group else self.plural)

    @property
    def list_kind(self) -> str:
        """The kind of a list."""
        return (self.custom.list_kind if self.custom is not None else "") or self.kind + "List"

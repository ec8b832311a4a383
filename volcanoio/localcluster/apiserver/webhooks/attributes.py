"""What a webhook is asked about: one write, seen from admission."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class GroupVersionKind(NamedTuple):
    """A kind by its full name."""

    group: str
    version: str
    kind: str


SUBRESOURCE_KINDS: dict[str, GroupVersionKind] = {
    "scale": GroupVersionKind("autoscaling", "v1", "Scale"),
    "eviction": GroupVersionKind("policy", "v1", "Eviction"),
    "binding": GroupVersionKind("", "v1", "Binding"),
    "token": GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
    "exec": GroupVersionKind("", "v1", "PodExecOptions"),
    "attach": GroupVersionKind("", "v1", "PodAttachOptions"),
    "portforward": GroupVersionKind("", "v1", "PodPortForwardOptions"),
    "proxy": GroupVersionKind("", "v1", "PodProxyOptions"),
}
"""What is written where a subresource has a kind of its own."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """One write. `object` is None for DELETE, `old` for CREATE and CONNECT; `name` is empty until one is generated.

    The namespace of a Namespace is its own name, as in Kubernetes.
    """

    operation: Operation
    resource: Resource
    namespace: str
    name: str
    object: Manifest | None
    old: Manifest | None = None
    subresource: str = ""
    dry_run: bool = False
    options: Manifest = field(default_factory=dict)

    @property
    def kind(self) -> GroupVersionKind:
        """The kind of what is written."""
        own = GroupVersionKind(self.resource.group, self.resource.version, self.resource.kind)
        return SUBRESOURCE_KINDS.get(self.subresource, own)

    def of(self, version: Resource) -> Attributes:
        """The same write as another served version of the resource shows it; kinds here differ in apiVersion alone."""
        if version.api_version == self.resource.api_version or self.subresource in SUBRESOURCE_KINDS:
            return replace(self, resource=version)
        found = [one and {**one, "apiVersion": version.api_version} for one in (self.object, self.old)]
        return replace(self, resource=version, object=found[0], old=found[1])


def of_target(operation: Operation, target: Target, obj: Manifest | None, old: Manifest | None) -> Attributes:
    """The attributes of a write to a target."""
    namespace = target.namespace
    name = target.name or str(((obj or {}).get("metadata") or {}).get("name") or "")
    if target.resource.name == "namespaces":
        namespace = name
    return Attributes(operation, target.resource, namespace, name, obj, old, target.subresource)

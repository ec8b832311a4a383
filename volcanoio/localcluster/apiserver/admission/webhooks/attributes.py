"""Attributes of one write as admission sees it, and the options of its request.

An AdmissionReview shows both to a webhook.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import REQUEST
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
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
"""Kinds of subresources that have a kind of their own."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """One write. `object` is None for DELETE, `old` for CREATE and CONNECT.

    `name` is empty until one is generated.

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
        """The kind of the written object."""
        own = GroupVersionKind(self.resource.group, self.resource.version, self.resource.kind)
        return SUBRESOURCE_KINDS.get(self.subresource, own)

    def of(self, version: Resource) -> Attributes:
        """Return the same write for another served version; versions differ in apiVersion only."""
        if version.api_version == self.resource.api_version or self.subresource in SUBRESOURCE_KINDS:
            return replace(self, resource=version)
        found = [one and {**one, "apiVersion": version.api_version} for one in (self.object, self.old)]
        return replace(self, resource=version, object=found[0], old=found[1])


def of_target(operation: Operation, target: Target, obj: Manifest | None, old: Manifest | None) -> Attributes:
    """Return the attributes of a write to a target."""
    namespace = target.namespace
    name = target.name or str(((obj or {}).get("metadata") or {}).get("name") or "")
    if target.resource.name == "namespaces":
        namespace = name
    return Attributes(operation, target.resource, namespace, name, obj, old, target.subresource)


_KINDS: Final[dict[str, str]] = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_SINGLE: Final = ("fieldManager", "fieldValidation")


def request_options(operation: Operation) -> Manifest:
    """Return `CreateOptions`, `UpdateOptions` or `DeleteOptions` of the current request.

    The result is empty for CONNECT.
    """
    kind = _KINDS.get(operation)
    if kind is None:
        return {}
    options: Manifest = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    request = REQUEST.get()
    if request is None:
        return options
    if operation == "DELETE" and request.method == "DELETE" and request.body.strip():
        stated = msgspec.json.decode(request.body, type=dict)  # decoded before as DeleteOptions
        options |= {key: value for key, value in stated.items() if key not in {"kind", "apiVersion"}}
    for key in _SINGLE:
        if value := request.first(key):
            options[key] = value
    if values := request.query.get("dryRun"):
        options["dryRun"] = list(values)
    return options

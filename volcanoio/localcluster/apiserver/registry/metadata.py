"""Validation of `metadata` for every kind.

Kubernetes: apiserver `registry/rest`, apimachinery `api/validation` and `pkg/api/validation/objectmeta.go` (finalizers
and owner references).
"""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery.objects import Stored
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import segment_rule
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import (
    annotation_errors,
    label_errors,
    label_rule,
    qualified_rule,
    subdomain_rule,
)
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required

_STANDARD: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_FINALIZERS, _OWNERS = "metadata.finalizers", "metadata.ownerReferences"


def finalizer_errors(finalizers: Any, *, known: bool) -> list[FieldError]:
    """Return errors of a list of finalizers.

    With `known` a name without a domain must be one of Kubernetes' own.
    """
    if not isinstance(finalizers, list):
        return [invalid(_FINALIZERS, finalizers, "must be a list of names")]
    found = [invalid(_FINALIZERS, name, rule) for name in finalizers if (rule := qualified_rule(str(name)))]
    found += [
        invalid(f"{_FINALIZERS}[{at}]", name, "name is neither a standard finalizer name nor is it fully qualified")
        for at, name in enumerate(finalizers)
        if known and "/" not in str(name) and name not in _STANDARD
    ]
    if {"orphan", "foregroundDeletion"} <= set(map(str, finalizers)):
        rule = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(_FINALIZERS, finalizers, rule))
    return found


def owner_errors(owners: Any) -> list[FieldError]:
    """Return errors of a list of owner references."""
    if not isinstance(owners, list):
        return [invalid(_OWNERS, owners, "must be a list of references")]
    found: list[FieldError] = []
    controllers: list[str] = []
    for owner in owners:
        if not isinstance(owner, dict):
            found.append(invalid(_OWNERS, owner, "must be a reference"))
            continue
        found += _one_owner(owner)
        if owner.get("controller") is True:
            controllers.append(str(owner.get("name", "")))
    if len(controllers) > 1:
        first, second = controllers[:2]
        rule = (
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        )
        found.append(invalid(_OWNERS, owners, rule))
    return found


def _one_owner(owner: Manifest) -> list[FieldError]:
    version, kind = str(owner.get("apiVersion") or ""), owner.get("kind")
    found: list[FieldError] = []
    if not version or version.count("/") > 1 or version.endswith("/"):
        found.append(invalid(f"{_OWNERS}.apiVersion", version, "version must not be empty"))
    found += [
        invalid(f"{_OWNERS}.{field}", owner.get(field) or "", "must not be empty")
        for field in ("kind", "name", "uid")
        if not isinstance(owner.get(field), str) or not owner[field]
    ]
    if version == "v1" and kind == "Event":
        found.append(invalid(_OWNERS, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return found


_SERVER_SET: Final = (
    *("uid", "resourceVersion", "selfLink", "managedFields", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_KEPT: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_FREE_NAMES: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_OWN_FINALIZERS: Final = frozenset(
    {"admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "node.k8s.io"}
)
"""Groups whose kinds may have finalizers without a domain, as custom resources may."""
LOOSE: Final = frozenset({"events", "poddisruptionbudgets.policy"})
"""Kinds whose validation leaves metadata out: general metadata rules are checked when it succeeds."""
_PREFIX_UNSEEN: Final = frozenset({"replicationcontrollers"})
"""Kinds for which the generated name is validated and its prefix is not."""
_LABEL_NAMES: Final = frozenset({"namespaces", "services", "statefulsets.apps"})
_COUNTED: Final = frozenset(
    {
        *("pods", "podtemplates", "replicationcontrollers"),
        *("daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"),
        *("cronjobs.batch", "jobs.batch"),
        *("ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io", "networkpolicies.networking.k8s.io"),
        *("deviceclasses.resource.k8s.io", "devicetaintrules.resource.k8s.io", "resourceslices.resource.k8s.io"),
        "customresourcedefinitions.apiextensions.k8s.io",
        "endpointslices.discovery.k8s.io",
        "poddisruptionbudgets.policy",
        "priorityclasses.scheduling.k8s.io",
    }
)


def counts_generations(resource: Resource) -> bool:
    """Return whether the kind has `metadata.generation`.

    Source: PrepareForCreate in Kubernetes' strategy.go of each kind.
    """
    known = resource.name in _COUNTED or resource.group == "admissionregistration.k8s.io"
    return known or resource.custom is not None


def drop_server_set(metadata: Manifest) -> None:
    """Drop fields that a client must not set on a new object."""
    for key in _SERVER_SET:
        metadata.pop(key, None)


def prepare_create(core: Core, resource: Resource, namespace: str, metadata: Manifest) -> None:
    """Set the fields that the server sets, and drop those that a client must not set."""
    drop_server_set(metadata)
    if resource.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = core.new_uid()
    metadata["creationTimestamp"] = core.now()
    if counts_generations(resource):
        metadata["generation"] = 1


def prepare_update(new: Manifest, old: Manifest) -> None:
    """Keep the fields that no update changes."""
    metadata, known = new["metadata"], old["metadata"]
    for key in _KEPT:
        if key in known:
            metadata[key] = known[key]
        else:
            metadata.pop(key, None)
    metadata["name"] = known["name"]
    if "namespace" in known:
        metadata["namespace"] = known["namespace"]
    else:
        metadata.pop("namespace", None)
    for key in ("managedFields", "selfLink"):
        metadata.pop(key, None)


def errors(resource: Resource, metadata: Manifest) -> list[FieldError]:
    """Return validation errors of an object's metadata."""
    name = metadata.get("name")
    found: list[FieldError] = []
    if not isinstance(name, str) or not name:
        return [required("metadata.name", "name or generateName is required")]
    if rule := _name_rule(resource, name):
        found.append(invalid("metadata.name", name, rule))
    prefix = None if resource.name in _PREFIX_UNSEEN else metadata.get("generateName")
    if prefix and prefix != name and (rule := _name_rule(resource, f"{prefix}x"[:200])):
        found.append(invalid("metadata.generateName", prefix, rule))
    if metadata.get("labels"):
        found += label_errors(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        found += annotation_errors(metadata["annotations"], "metadata.annotations")
    if metadata.get("finalizers"):
        found += finalizer_errors(
            metadata["finalizers"],
            known=resource.custom is None and resource.group not in _OWN_FINALIZERS and resource.name not in LOOSE,
        )
    if metadata.get("ownerReferences"):
        found += owner_errors(metadata["ownerReferences"])
    return found


def update_errors(metadata: Manifest, old: Stored) -> list[FieldError]:
    """Return errors of forbidden changes of metadata."""
    if not old.deleting:
        return []
    added = sorted(set(metadata.get("finalizers") or ()) - set(old.finalizers))
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [forbidden("metadata.finalizers", text)]


def _name_rule(resource: Resource, name: str) -> str:
    if resource.plural in _FREE_NAMES or resource.name in LOOSE:
        return next(iter(segment_rule(name)), "")
    return label_rule(name) if resource.name in _LABEL_NAMES else subdomain_rule(name)

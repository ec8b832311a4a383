"""Rules of `metadata` that hold for every kind (apiserver `registry/rest`, apimachinery `api/validation`)."""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.dnsnames import (
    annotation_errors,
    label_errors,
    label_rule,
    subdomain_rule,
)
from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.rules import segment_rule
from volcanoio.localcluster.apiserver.metarules import finalizer_errors, owner_errors
from volcanoio.localcluster.apiserver.objects import Stored
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

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
"""Kinds whose own rules do not look at metadata: what any object's has to be is asked when those hold."""
_PREFIX_UNSEEN: Final = frozenset({"replicationcontrollers"})
"""Kinds of which only the generated name is looked at, not what it is generated from."""
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
    """Whether `metadata.generation` is kept (Kubernetes: strategy.go of each kind, PrepareForCreate)."""
    known = resource.name in _COUNTED or resource.group == "admissionregistration.k8s.io"
    return known or resource.custom is not None


def drop_server_set(metadata: Manifest) -> None:
    """Drop what a client must not set on a new object."""
    for key in _SERVER_SET:
        metadata.pop(key, None)


def prepare_create(core: Core, resource: Resource, namespace: str, metadata: Manifest) -> None:
    """Fill in what the server sets, and drop what a client must not."""
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
    """Keep what no update changes."""
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
    """The broken rules of an object's metadata."""
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
    """What an update of metadata must not do."""
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

"""The resource claim controller: makes claims of templates for pods, and releases claims that no pod uses any more.

Kubernetes: pkg/controller/resourceclaim. A claim is deallocated as its last pod ends, so that its devices are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.effects import Create, Delete, Patch, PatchType, Record
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Write
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.objects import CLAIM_TEMPLATE, Workload
from volcanoio.localcluster.controllers.pods import finished, terminating
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.dynamic_resources.objects import FINALIZER, POD_CLAIM_NAME, Consumer, ResourceClaim
from volcanoio.model.kinds import POD, RESOURCE_CLAIM, object_reference, owner_reference

MAX_PREFIX = 57
"""Characters of the generated part of a claim's name, without its hyphen and suffix."""
UNSEEN_SECONDS = 5.0
"""Seconds for which a reservation is kept for a pod that was not seen: watches of pods and claims have no order."""


class ClaimMaker(ClusterController):
    """Controller that makes claims of templates, and names them in the status of their pods. Keys are those of pods."""

    name = "resource-claim"
    primary = CLAIM_TEMPLATE
    reads = (POD, RESOURCE_CLAIM)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the pod that changed, that owns the claim, or that names the template."""
        obj = event.obj
        if isinstance(obj, Pod):
            return (obj.metadata.key,) if any(_templates(obj)) else ()
        if isinstance(obj, ResourceClaim):
            owner = obj.metadata.controller
            return () if owner is None or owner.kind != "Pod" else (f"{obj.metadata.namespace}/{owner.name}",)
        pods = objects.namespace(POD, obj.metadata.namespace, Pod)
        return [pod.metadata.key for pod in pods if any(name == obj.metadata.name for _, name in _templates(pod))]

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all pods that name a template."""
        del now
        return [pod.metadata.key for pod in objects.all(POD, Pod) if any(_templates(pod))]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Make the missing claims of a pod, then name all of them in its status."""
        pod = view.objects.get(POD, key, Pod)
        if pod is None or terminating(pod) or finished(pod) or view.is_backing_off:
            return NO_CHANGES
        owned = view.objects.controlled(RESOURCE_CLAIM, pod.metadata.uid, ResourceClaim)
        existing = {claim.metadata.annotations.get(POD_CLAIM_NAME, ""): claim.metadata.name for claim in owned}
        creates: list[Write] = []
        events: list[Record] = []
        names: dict[str, str] = {}
        for entry, template_name in _templates(pod):
            if name := existing.get(entry, ""):
                names[entry] = name
                continue
            template = view.objects.get(CLAIM_TEMPLATE, f"{pod.metadata.namespace}/{template_name}", Workload)
            if template is None:
                events.append(_failed(pod, entry, template_name))
                continue
            names[entry] = f"{_prefix(pod.metadata.name, entry)}{view.suffix()}"
            manifest = _claim(pod, entry, names[entry], template)
            creates.append(Write(Create(resource=RESOURCE_CLAIM.resource, manifest=manifest)))
        return Plan((tuple(creates), *_status_stages(pod, names)), tuple(events))


def _templates(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the entries of a pod that name a template, with its name."""
    for entry in pod.spec.resource_claims:
        if name := entry.get("resourceClaimTemplateName"):
            yield str(entry.get("name", "")), str(name)


def _prefix(pod: str, entry: str) -> str:
    """Return the beginning of a claim's name; long names are shortened in proportion."""
    prefix = f"{pod}-{entry}-"
    if len(prefix) <= MAX_PREFIX:
        return prefix
    return f"{pod[: len(pod) * MAX_PREFIX // len(prefix)]}-{entry[: len(entry) * MAX_PREFIX // len(prefix)]}"


def _claim(pod: Pod, entry: str, name: str, template: Workload) -> Manifest:
    meta: Manifest = template.spec.get("metadata") or {}
    kind = {"apiVersion": RESOURCE_CLAIM.api_version, "kind": RESOURCE_CLAIM.kind}
    metadata = {
        "name": name,
        "namespace": pod.metadata.namespace,
        "labels": meta.get("labels") or {},
        "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [owner_reference(POD, pod)],
    }
    return {**kind, "metadata": metadata, "spec": template.spec["spec"]}


def _status_stages(pod: Pod, names: Mapping[str, str]) -> tuple[tuple[Write, ...], ...]:
    """Return the write that names the claims in the status of a pod, none if it names them already."""
    known = {str(one.get("name")): one.get("resourceClaimName") for one in pod.status.resource_claim_statuses}
    if all(known.get(entry) == name for entry, name in names.items()):
        return ()
    statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
    patch = {"status": {"resourceClaimStatuses": statuses}}
    options: dict[str, Any] = {"subresource": "status", "type": PatchType.STRATEGIC}
    return ((Write(Patch.of(POD.resource, pod, patch, **options)),),)


def _failed(pod: Pod, entry: str, template: str) -> Record:
    text = f'resource claim template "{template}": resourceclaimtemplate.resource.k8s.io "{template}" not found'
    return Record(
        regarding=object_reference(POD, pod),
        type="Warning",
        reason="FailedResourceClaimCreation",
        message=f"PodResourceClaim {entry}: {text}",
    )


class ClaimReleaser(ClusterController):
    """Controller that removes reservations of ended pods, and deallocates claims without any.

    The memory of a key is when reservations were first found whose pods are not there, by the pods' uids.
    """

    name = "resource-claim-reservations"
    primary = RESOURCE_CLAIM
    reads = (POD,)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the claim that changed; for a pod the claims that it names."""
        del objects
        obj = event.obj
        if not isinstance(obj, Pod):
            return (obj.metadata.key,)
        return [f"{obj.metadata.namespace}/{name}" for name in _claim_names(obj)]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Release the claim from pods that have ended; delete it if it was made for such a pod."""
        claim = view.objects.get(RESOURCE_CLAIM, key, ResourceClaim)
        if claim is None or view.is_backing_off:
            return Plan(memory=view.memory)
        kept, unseen = _kept(claim, view)
        due = min(unseen.values()) + UNSEEN_SECONDS if unseen else None
        if len(kept) < len(claim.status.reserved_for):
            return Plan(_release_stages(claim, kept), requeue_at=due, memory=unseen)
        if kept or unseen:
            return Plan(requeue_at=due, memory=unseen)
        if claim.metadata.deletion_timestamp is not None:
            return Plan(_release_stages(claim, ())) if FINALIZER in claim.metadata.finalizers else NO_CHANGES
        owner = claim.metadata.controller
        if owner is not None and owner.kind == "Pod" and claim.status.allocation is None:
            pod = view.objects.get(POD, f"{claim.metadata.namespace}/{owner.name}", Pod)
            if pod is not None and (pod.metadata.uid != owner.uid or _is_done(pod)):
                return Plan(((Write(Delete.of(RESOURCE_CLAIM.resource, claim)),),))
        return NO_CHANGES


def _claim_names(pod: Pod) -> Iterator[str]:
    statuses = {one.get("name"): one.get("resourceClaimName") for one in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if name := entry.get("resourceClaimName") or statuses.get(entry.get("name")):
            yield str(name)
    if (extended := pod.status.extended_resource_claim_status) is not None:
        yield str(extended.get("resourceClaimName"))


def _kept(claim: ResourceClaim, view: ReconcileView) -> tuple[list[Consumer], dict[str, float]]:
    """Return the consumers that keep a claim, and since when those are missing that were not seen."""
    kept: list[Consumer] = []
    unseen: dict[str, float] = {}
    before: Mapping[str, float] = view.memory or {}
    for consumer in claim.status.reserved_for:
        pod = view.objects.get(POD, f"{claim.metadata.namespace}/{consumer.name}", Pod)
        if consumer.api_group or consumer.resource != "pods":
            kept.append(consumer)
        elif pod is not None:
            if pod.metadata.uid == consumer.uid and not _is_done(pod):
                kept.append(consumer)
        elif view.now < (since := before.get(consumer.uid, view.now)) + UNSEEN_SECONDS:
            unseen[consumer.uid] = since
            kept.append(consumer)
    return kept, unseen


def _is_done(pod: Pod) -> bool:
    """Return whether a pod will not run, or not run any more."""
    return finished(pod) or (terminating(pod) and not pod.spec.node_name)


def _release_stages(claim: ResourceClaim, kept: Iterable[Consumer]) -> tuple[tuple[Write, ...], ...]:
    """Return the writes that leave some consumers; without any, also the allocation and the finalizer go."""
    left = [msgspec.to_builtins(consumer) for consumer in kept]
    is_ours = FINALIZER in claim.metadata.finalizers
    status: Manifest = {"reservedFor": left or None, **({} if left or not is_ours else {"allocation": None})}
    resource = RESOURCE_CLAIM.resource
    first = Patch.of(resource, claim, {"status": status}, at_version=True, subresource="status")
    if left or not is_ours:
        return ((Write(first),),)
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    return ((Write(first),), (Write(Patch.of(resource, claim, patch, type=PatchType.STRATEGIC)),))

"""Steps before a bind for the claims of its pod: the allocation, the reservation, and binding conditions.

A reverted bind removes the reservation, and then the allocation unless other pods have reserved the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from volcanoio.framework.effects import PatchType
from volcanoio.framework.scheduling.views import Task
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.extended_resources import ANNOTATION
from volcanoio.model.dynamic_resources.objects import FINALIZER, Allocation, ResourceClaim
from volcanoio_plugins.scheduling.dynamic_resources.binding_conditions import awaited, failures, is_ready, seconds_left
from volcanoio_plugins.scheduling.dynamic_resources.claim_plans import CLAIMS


def reserve(claim: ResourceClaim, task: Task, now: float) -> list[PreBindStep]:
    """Return the steps that reserve an allocated claim for a pod.

    The reservation is written even if the claim seems to be reserved for the pod: the watch may be late, and the write
    then changes nothing. A claim whose binding conditions are not true is deallocated if the bind is reverted.
    """
    allocation = claim.status.allocation
    reservation = _status_step(claim, task, {})
    if allocation is None or is_ready(claim):
        return [reservation]
    return [_deallocation(claim, allocation), reservation, *_waits(claim, allocation, now)]


def allocate(claim: ResourceClaim, allocation: Allocation, task: Task, now: float) -> list[PreBindStep]:
    """Return the steps that write the allocation of a claim, reserved for a pod."""
    steps = []
    if FINALIZER not in claim.metadata.finalizers:
        finalizers = {"metadata": {"finalizers": [FINALIZER]}}
        steps.append(_step(claim, patch=finalizers, patch_type=PatchType.STRATEGIC))
    steps.append(_deallocation(claim, allocation))
    steps.append(_status_step(claim, task, {"allocation": msgspec.to_builtins(allocation)}))
    steps.extend(_waits(claim, allocation, now))
    return steps


def make(claim: ResourceClaim, requests: Sequence[Manifest], task: Task) -> PreBindStep:
    """Return the step that makes the claim for the extended resources of a pod.

    A claim that was made for the pod before is used, unless it is being deleted, as after a refused bind.
    """
    owner = kinds.owner_reference(kinds.POD, task.pod)
    del owner["blockOwnerDeletion"]
    metadata = {
        "name": claim.metadata.name,
        "namespace": claim.metadata.namespace,
        "annotations": {ANNOTATION: "true"},
        "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }
    manifest = {"metadata": metadata, "spec": {"devices": {"requests": list(requests)}}}
    usable = {"ownerReferences": [{"uid": task.uid}], "deletionTimestamp": None}
    return _step(claim, create=manifest, holds={"metadata": usable})


def name_in_status(claim: ResourceClaim, mappings: Sequence[Manifest], task: Task) -> PreBindStep:
    """Return the step that names the claim for a pod's extended resources in the status of the pod."""
    name = {"resourceClaimName": claim.metadata.name}
    patch = {"status": {"extendedResourceClaimStatus": {"requestMappings": list(mappings), **name}}}
    return PreBindStep(
        resource=kinds.POD.resource,
        namespace=task.namespace,
        name=task.name,
        uid=task.uid,
        subresource="status",
        patch=patch,
        undo={"status": {"extendedResourceClaimStatus": None}},
        holds={"status": {"extendedResourceClaimStatus": name}},
    )


def refuse(claim: ResourceClaim) -> list[PreBindStep]:
    """Return the step that refuses the bind, because the claim was deallocated within the cycle."""
    return [_step(claim, until={"status": {"allocation": True}}, timeout=0.0)]


def _deallocation(claim: ResourceClaim, allocation: Allocation) -> PreBindStep:
    """Return the step that removes an allocation if the bind is reverted; it writes nothing before."""
    results = msgspec.to_builtins(allocation.devices.results)
    stored = {"status": {"allocation": {"devices": {"results": list(results)}}}}
    return _step(claim, subresource="status", holds=stored, undo={"status": {"allocation": None}})


def _status_step(claim: ResourceClaim, task: Task, status: Manifest) -> PreBindStep:
    """Return the step that reserves a claim for a pod, and writes its allocation if `status` has one."""
    consumer = {"resource": "pods", "name": task.name, "uid": task.uid}
    return _step(
        claim,
        subresource="status",
        patch_type=PatchType.STRATEGIC,
        patch={"status": {**status, "reservedFor": [consumer]}},
        undo={"status": {"reservedFor": [{"$patch": "delete", "uid": task.uid}]}},
        holds={"metadata": {"name": claim.metadata.name}},
    )


def _waits(claim: ResourceClaim, allocation: Allocation, now: float) -> Sequence[PreBindStep]:
    """Return the step that waits for the binding conditions of an allocation, none if it has none."""
    if not (wanted := awaited(allocation)):
        return ()
    return (_step(claim, until=wanted, fails=failures(allocation), timeout=seconds_left(allocation, now)),)


def _step(claim: ResourceClaim, **more: Any) -> PreBindStep:
    meta = claim.metadata
    return PreBindStep(resource=CLAIMS, namespace=meta.namespace, name=meta.name, uid=meta.uid, **more)

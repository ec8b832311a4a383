"""The device taint eviction controller: deletes pods whose claims do not tolerate NoExecute taints of their devices.

Kubernetes: pkg/controller/devicetainteviction, without DeviceTaintRules, which are off by default in 1.36. A pod goes
at once, or when the tolerationSeconds of its claim's request are over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

from volcanoio.framework.effects import Record
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Index, Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Write
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.nodelifecycle import stays_until
from volcanoio.localcluster.controllers.pods import finished, terminating
from volcanoio.localcluster.controllers.tainteviction import deletion, disrupted
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod, Taint
from volcanoio.model.dynamic_resources.objects import ResourceClaim, ResourceSlice
from volcanoio.model.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE, object_reference
from volcanoio.model.selectors import NO_EXECUTE

_REASON, _TEXT = "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"
_SEVERAL = "*"
"""Value in an index of objects that have several values."""


def _pools(claim: ApiObject) -> set[str]:
    """Return the pools of the devices of a claim, as `driver/pool`."""
    allocation = claim.status.allocation if isinstance(claim, ResourceClaim) else None
    return set() if allocation is None else {f"{one.driver}/{one.pool}" for one in allocation.devices.results}


def _consumers(claim: ApiObject) -> set[str]:
    """Return the uids of the pods for which a claim is reserved."""
    return {one.uid for one in claim.status.reserved_for} if isinstance(claim, ResourceClaim) else set()


def _tainted_pool(part: ApiObject) -> str | None:
    """Return the pool of a slice as `driver/pool`, None if no device of the slice has NoExecute taints."""
    return _pool(part) if isinstance(part, ResourceSlice) and _tainted(part) else None


def _pool(part: ResourceSlice) -> str:
    return f"{part.spec.driver}/{part.spec.pool.name}"


def _only(values: Collection[str]) -> str | None:
    return _SEVERAL if len(values) > 1 else next(iter(values), None)


_BY_POOL = Index("pool", lambda claim: _only(_pools(claim)))
_BY_CONSUMER = Index("consumer", lambda claim: _only(_consumers(claim)))
_BY_TAINTED_POOL = Index("tainted pool", _tainted_pool)


class DeviceTaintEvictionController(ClusterController):
    """Controller that evicts pods that use devices with NoExecute taints; keys are those of slices.

    It watches no claims and pods while no device has one.
    """

    name = "device-taint-eviction-controller"
    primary = RESOURCE_SLICE
    reads = (RESOURCE_CLAIM, POD)

    def wakes(self, event: Observed) -> bool:
        """Return whether a device of the slice has NoExecute taints."""
        return super().wakes(event) and isinstance(event.object, ResourceSlice) and bool(_tainted(event.object))

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the slice that changed; for a claim or a pod with claims the tainted slices of the pools they use."""
        obj = event.obj
        if isinstance(obj, ResourceSlice):
            return (obj.metadata.name,)
        if isinstance(obj, ResourceClaim):
            pools = _pools(obj)
        elif isinstance(obj, Pod) and (obj.spec.resource_claims or obj.status.extended_resource_claim_status):
            uid = obj.metadata.uid
            claims = _claims(objects, _BY_CONSUMER, uid)
            pools = {pool for claim in claims if uid in _consumers(claim) for pool in _pools(claim)}
        else:
            return ()
        return sorted(key for pool in pools for key in objects.indexed(RESOURCE_SLICE, _BY_TAINTED_POOL, pool))

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all slices with tainted devices."""
        del now
        return [each.metadata.name for each in objects.all(RESOURCE_SLICE, ResourceSlice) if _tainted(each)]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Delete the pods that use tainted devices of a slice and whose time is over."""
        part = view.objects.get(RESOURCE_SLICE, key, ResourceSlice)
        if part is None or view.is_backing_off or not (taints := _tainted(part)):
            return NO_CHANGES
        events: list[Record] = []
        reasons: list[Write] = []
        deletions: list[Write] = []
        again: list[float] = []
        for pod, until in _users(part, taints, view):
            if until > view.now:
                again.append(until)
                continue
            reasons.append(disrupted(pod, _REASON, _TEXT, view.now))
            deletions.append(deletion(pod))
            reference = object_reference(POD, pod)
            reason = "DeviceTaintManagerEviction"
            events.append(Record(regarding=reference, type="Normal", reason=reason, message="Marking for deletion"))
        stages = (tuple(reasons), tuple(deletions)) if deletions else ()
        return Plan(stages, tuple(events), min(again, default=None))


def _tainted(part: ResourceSlice) -> Mapping[str, list[Taint]]:
    """Return the NoExecute taints of the devices of a slice, by device."""
    found = ((each.name, [one for one in each.taints if one.effect == NO_EXECUTE]) for each in part.spec.devices)
    return {name: taints for name, taints in found if taints}


def _claims(objects: Objects, index: Index, value: str) -> list[ResourceClaim]:
    """Return the claims that may have a value in an index, sorted: those with that value alone, and with several."""
    found = {**objects.indexed(RESOURCE_CLAIM, index, value), **objects.indexed(RESOURCE_CLAIM, index, _SEVERAL)}
    return [cast("ResourceClaim", found[key]) for key in sorted(found)]


def _users(part: ResourceSlice, taints: Mapping[str, list[Taint]], view: ReconcileView) -> Iterator[tuple[Pod, float]]:
    """Yield the running pods that use tainted devices, with the time until which their claims tolerate them."""
    spec = part.spec
    for claim in _claims(view.objects, _BY_POOL, _pool(part)):
        if (allocation := claim.status.allocation) is None:
            continue
        moments = [
            until
            for result in allocation.devices.results
            if (result.driver, result.pool) == (spec.driver, spec.pool.name) and result.device in taints
            if (until := stays_until(result.tolerations, taints[result.device], view.now)) is not None
        ]
        for consumer in claim.status.reserved_for if moments else ():
            pod = view.objects.get(POD, f"{claim.metadata.namespace}/{consumer.name}", Pod)
            if pod is None or pod.metadata.uid != consumer.uid:
                continue
            if pod.spec.node_name and not terminating(pod) and not finished(pod):
                yield pod, min(moments)

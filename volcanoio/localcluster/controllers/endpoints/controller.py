"""The controller that keeps Endpoints and EndpointSlices up to date with Services and pods."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.framework.effects import Create, Delete
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import BY_NAMESPACE, Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Write
from volcanoio.localcluster.controllers.contract import ClusterController, patching
from volcanoio.localcluster.controllers.endpoints.service_state import Rewrite, ServiceState, rewrites, subsets
from volcanoio.localcluster.controllers.endpoints.slices import content, headless, selects
from volcanoio.localcluster.controllers.objects import ENDPOINT_SLICE, ENDPOINTS, Endpoints, EndpointSlice
from volcanoio.localcluster.controllers.pods import generated
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod, Service
from volcanoio.model.kinds import POD, SERVICE, Kind, owner_reference

_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SERVICE_NAME = "kubernetes.io/service-name"
_HEADLESS = "service.kubernetes.io/headless"
_OLD_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_OURS, _OLD_OURS = "endpointslice-controller.k8s.io", "endpoint-controller"
PODS, SLICES, WRITES = 500, 10, 5
"""Limits of one reconciliation: pods and slices read, and slices written; a few milliseconds each."""


class EndpointsController(ClusterController):
    """Controller that keeps Endpoints and EndpointSlices.

    Changes within a moment become one write.

    The states of Services are a cache: they follow from the objects, and are rebuilt after a restart, a relist and a
    change of the Service. Computing them for each reconciliation is too slow (5000 pods: 65 ms for a changed pod,
    against 1 ms).
    """

    name = "endpointslice-controller"
    primary = SERVICE
    reads = (POD, ENDPOINT_SLICE, ENDPOINTS)
    batch_period = 0.25

    def __init__(self) -> None:
        self._kept: dict[str, ServiceState] = {}

    def wakes(self, event: Observed) -> bool:
        """Return whether a Service has a selector."""
        obj = event.obj
        return super().wakes(event) and isinstance(obj, Service) and bool(obj.spec.get("selector"))

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the Service; for a pod those that select it, marking it due; for a slice its owner."""
        obj, meta = event.obj, event.obj.metadata
        if event.resource in (SERVICE.resource, ENDPOINTS.resource):
            return (meta.key,)
        if event.resource == ENDPOINT_SLICE.resource:
            name = meta.labels.get(_SERVICE_NAME, "")
            return (f"{meta.namespace}/{name}",) if name and meta.labels.get(_MANAGED_BY) == _OURS else ()
        previous = event.previous
        if event.change is Change.CHANGED and _alike(previous, obj):
            return ()
        found = [
            one.metadata.key
            for one in objects.namespace(SERVICE, meta.namespace, Service)
            if selects(one, meta.labels) or (previous is not None and selects(one, previous.metadata.labels))
        ]
        for key in found:
            if (kept := self._kept.get(key)) is not None:
                kept.due[meta.name] = None
        return found

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all Services, and Endpoints without Service.

        Cached states are dropped: changes were missed.
        """
        del now
        self._kept.clear()
        return sorted({*objects.by_key(SERVICE), *objects.by_key(ENDPOINTS)})

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Read a part of the changes and write a part of the differences; requeue for the rest."""
        service = view.objects.get(SERVICE, key, Service)
        if service is None:
            self._kept.pop(key, None)
            known = view.objects.get(ENDPOINTS, key, Endpoints)
            if known is None or known.metadata.labels.get(_OLD_MANAGED_BY) != _OLD_OURS:
                return NO_CHANGES
            return Plan(((_delete(ENDPOINTS, known),),))
        if not service.spec.get("selector") or service.metadata.deletion_timestamp is not None:
            self._kept.pop(key, None)
            return NO_CHANGES
        if view.is_backing_off:
            return NO_CHANGES
        kept = self._keep(key, service, view.objects)
        if not kept.fold_pods(view.objects, PODS) or not kept.fold_slices(_ours(service, view.objects), SLICES):
            return Plan(requeue=True)
        writes: list[Write] = []
        for number, rewrite in enumerate(rewrites(kept)):
            if len(writes) == WRITES or number == SLICES:
                return Plan((tuple(writes),) if writes else (), requeue=True)
            writes += self._slice(kept, rewrite, view)
        writes += self._endpoints(kept, view.objects.get(ENDPOINTS, key, Endpoints))
        return Plan((tuple(writes),)) if writes else NO_CHANGES

    def _keep(self, key: str, service: Service, objects: Objects) -> ServiceState:
        """Return the state of a Service; a new one if the Service was replaced or its spec changed."""
        kept = self._kept.get(key)
        if kept is not None and kept.service is not service:
            if kept.service.metadata.uid == service.metadata.uid and kept.service.spec == service.spec:
                if _labels(kept.service, {}) != _labels(service, {}):
                    kept.stale.update(kept.placed)
                kept.service = service
            else:
                kept = None
        if kept is None:
            pods = objects.indexed(POD, BY_NAMESPACE, service.metadata.namespace)
            kept = self._kept[key] = ServiceState(service, (pod.metadata.name for pod in pods.values()))
        return kept

    def _slice(self, kept: ServiceState, rewrite: Rewrite, view: ReconcileView) -> list[Write]:
        known, service = rewrite.known, kept.service
        if rewrite.members is None:
            return [] if known is None else [_delete(ENDPOINT_SLICE, known)]
        labels = _labels(service, {_MANAGED_BY: _OURS, _SERVICE_NAME: service.metadata.name})
        said = content(rewrite.members, rewrite.ports, service.metadata.namespace)
        if known is not None:
            same = list(known.endpoints) == said["endpoints"] and list(known.ports) == said["ports"]
            if same and known.metadata.labels == labels:
                kept.stale.discard(known.metadata.name)
                return []
            return [patching(ENDPOINT_SLICE, known, {"metadata": {"labels": _changed(known, labels)}, **said})]
        name, prefix = generated(service.metadata.name, view.suffix())
        metadata: Manifest = {
            "name": name,
            "generateName": prefix,
            "namespace": service.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(SERVICE, service)],
        }
        return [_create(ENDPOINT_SLICE, {"metadata": metadata, "addressType": "IPv4", **said})]

    def _endpoints(self, kept: ServiceState, known: Endpoints | None) -> list[Write]:
        service = kept.service
        wanted, truncated = subsets(kept)
        labels = _labels(service, {_OLD_MANAGED_BY: _OLD_OURS})
        note = "truncated" if truncated else None
        if known is None:
            metadata: Manifest = {
                "name": service.metadata.name, "namespace": service.metadata.namespace, "labels": labels,
            }  # fmt: skip
            if note:
                metadata["annotations"] = {_CAPACITY: note}
            return [_create(ENDPOINTS, {"metadata": metadata, "subsets": wanted})]
        meta = known.metadata
        if list(known.subsets) == wanted and meta.labels == labels and meta.annotations.get(_CAPACITY) == note:
            return []
        changes: Manifest = {"labels": _changed(known, labels), "annotations": {_CAPACITY: note}}
        return [patching(ENDPOINTS, known, {"metadata": changes, "subsets": wanted or None})]


def _ours(service: Service, objects: Objects) -> list[EndpointSlice]:
    """Return the slices of a Service that this controller manages."""
    return [
        one
        for one in objects.controlled(ENDPOINT_SLICE, service.metadata.uid, EndpointSlice)
        if one.metadata.labels.get(_MANAGED_BY) == _OURS and one.metadata.deletion_timestamp is None
    ]


def _alike(before: ApiObject | None, after: ApiObject) -> bool:
    """Return whether nothing changed that an endpoint contains."""
    return (
        isinstance(before, Pod)
        and isinstance(after, Pod)
        and before.status.conditions == after.status.conditions
        and before.status.phase == after.status.phase
        and before.status.pod_ip == after.status.pod_ip
        and before.spec.node_name == after.spec.node_name
        and before.metadata.labels == after.metadata.labels
        and before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
    )


def _labels(service: Service, ours: dict[str, str]) -> dict[str, str]:
    """Return the Service's labels and ours, with the label of headless Services."""
    marks = {_HEADLESS: ""} if headless(service) else {}
    return {**service.metadata.labels, **ours, **marks}


def _changed(known: ApiObject, labels: dict[str, str]) -> Manifest:
    """Return the merge patch of the labels."""
    gone: Manifest = dict.fromkeys(known.metadata.labels.keys() - labels.keys())
    return {**gone, **labels}


def _create(kind: Kind, manifest: Manifest) -> Write:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
    return Write(Create(resource=kind.resource, manifest=body))


def _delete(kind: Kind, obj: ApiObject) -> Write:
    return Write(Delete.of(kind.resource, obj))

"""The controller that keeps Endpoints and EndpointSlices in step with Services and pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.effects import Create, Delete
from volcanoio.framework.events import Observed
from volcanoio.localcluster.controllers.endpoints import slices
from volcanoio.localcluster.controllers.frame.contract import NOTHING, Defaults, Plan, View, Write
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import ENDPOINT_SLICE, ENDPOINTS, Endpoints, EndpointSlice
from volcanoio.localcluster.controllers.pods import generated
from volcanoio.localcluster.controllers.writes import patching
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod, Service
from volcanoio.model.kinds import POD, SERVICE, Kind
from volcanoio.model.references import owner_reference

_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SERVICE_NAME = "kubernetes.io/service-name"
_HEADLESS = "service.kubernetes.io/headless"
_OLD_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_OURS, _OLD_OURS = "endpointslice-controller.k8s.io", "endpoint-controller"


class EndpointsController(Defaults):
    """Looks at a Service a moment after something changed, so that pods that come together are one write."""

    name = "endpointslice-controller"
    primary = SERVICE
    reads = (POD, ENDPOINT_SLICE, ENDPOINTS)
    settles = 0.25

    def wakes(self, event: Observed) -> bool:
        """Services that have a selector."""
        obj = event.obj
        return super().wakes(event) and isinstance(obj, Service) and bool(obj.spec.get("selector"))

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """Itself; of a pod those that select it; of a slice or Endpoints object whose it is."""
        obj, meta = event.obj, event.obj.metadata
        if event.resource in (SERVICE.resource, ENDPOINTS.resource):
            return (meta.key,)
        if event.resource == ENDPOINT_SLICE.resource:
            name = meta.labels.get(_SERVICE_NAME, "")
            return (f"{meta.namespace}/{name}",) if name and meta.labels.get(_MANAGED_BY) == _OURS else ()
        previous = event.previous
        if isinstance(previous, Pod) and isinstance(obj, Pod) and _alike(previous, obj):
            return ()
        return [
            one.metadata.key
            for one in tables.namespace(SERVICE, meta.namespace, Service)
            if slices.selects(one, meta.labels)
            or (previous is not None and slices.selects(one, previous.metadata.labels))
        ]

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """All Services, and Endpoints whose Service is gone."""
        del now
        return sorted({*tables.table(SERVICE).objects, *tables.table(ENDPOINTS).objects})

    def reconcile(self, key: str, view: View) -> Plan:
        """Write what differs."""
        service = view.tables.get(SERVICE, key, Service)
        known = view.tables.get(ENDPOINTS, key, Endpoints)
        if service is None:
            if known is None or known.metadata.labels.get(_OLD_MANAGED_BY) != _OLD_OURS:
                return NOTHING
            return Plan(((_delete(ENDPOINTS, known),),))
        if not service.spec.get("selector") or service.metadata.deletion_timestamp is not None or view.held:
            return NOTHING
        namespace = service.metadata.namespace
        selected = (
            pod for pod in view.tables.namespace(POD, namespace, Pod) if slices.selects(service, pod.metadata.labels)
        )
        pods = slices.backing(service, selected)
        writes = [*self._slices(service, pods, view), *self._endpoints(service, pods, known)]
        return Plan((tuple(writes),)) if writes else NOTHING

    def _slices(self, service: Service, pods: Sequence[Pod], view: View) -> list[Write]:
        ours = [
            one
            for one in view.tables.controlled(ENDPOINT_SLICE, service.metadata.uid, EndpointSlice)
            if one.metadata.labels.get(_MANAGED_BY) == _OURS and one.metadata.deletion_timestamp is None
        ]
        groups = slices.wanted_slices(service, pods) or {(): []}
        writes: list[Write] = []
        for group, endpoints in groups.items():
            ports = slices.slice_ports(service, group) if endpoints else []
            same = [one for one in ours if list(one.ports) == ports]
            if not same and ours and len(groups) == 1:
                same = ours[:1]  # its ports have changed
            ours = [one for one in ours if one not in same]
            for one, entries in slices.arranged(same, endpoints):
                if one is None or entries or (len(same) == 1 and len(groups) == 1):
                    writes += self._slice(service, one, ports, entries, view)
                else:
                    writes.append(_delete(ENDPOINT_SLICE, one))
            if not same and not endpoints:
                writes += self._slice(service, None, ports, [], view)
        return writes + [_delete(ENDPOINT_SLICE, one) for one in ours]

    def _slice(
        self, service: Service, known: EndpointSlice | None, ports: list[Manifest], entries: list[Manifest], view: View
    ) -> list[Write]:
        labels = _labels(service, {_MANAGED_BY: _OURS, _SERVICE_NAME: service.metadata.name})
        content: Manifest = {"endpoints": entries, "ports": ports}
        if known is not None:
            if list(known.endpoints) == entries and list(known.ports) == ports and known.metadata.labels == labels:
                return []
            return [patching(ENDPOINT_SLICE, known, {"metadata": {"labels": _changed(known, labels)}, **content})]
        name, prefix = generated(service.metadata.name, view.suffix())
        metadata: Manifest = {
            "name": name,
            "generateName": prefix,
            "namespace": service.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(SERVICE, service)],
        }
        return [_create(ENDPOINT_SLICE, {"metadata": metadata, "addressType": "IPv4", **content})]

    def _endpoints(self, service: Service, pods: Sequence[Pod], known: Endpoints | None) -> list[Write]:
        subsets, truncated = slices.subsets(service, pods)
        labels = _labels(service, {_OLD_MANAGED_BY: _OLD_OURS})
        notes = {_CAPACITY: "truncated"} if truncated else {}
        if known is None:
            metadata: Manifest = {
                "name": service.metadata.name, "namespace": service.metadata.namespace, "labels": labels,
            }  # fmt: skip
            if notes:
                metadata["annotations"] = notes
            return [_create(ENDPOINTS, {"metadata": metadata, "subsets": subsets})]
        if list(known.subsets) == subsets and known.metadata.labels == labels:
            return []
        changes: Manifest = {"labels": _changed(known, labels), "annotations": notes or {_CAPACITY: None}}
        return [patching(ENDPOINTS, known, {"metadata": changes, "subsets": subsets or None})]


def _alike(before: Pod, after: Pod) -> bool:
    """Whether nothing that an endpoint says has changed."""
    return (
        before.status.conditions == after.status.conditions
        and before.status.phase == after.status.phase
        and before.status.pod_ip == after.status.pod_ip
        and before.spec.node_name == after.spec.node_name
        and before.metadata.labels == after.metadata.labels
        and before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
    )


def _labels(service: Service, ours: dict[str, str]) -> dict[str, str]:
    """The Service's labels and ours; one without an address of its own is marked."""
    headless = {_HEADLESS: ""} if service.spec.get("clusterIP") == "None" else {}
    return {**service.metadata.labels, **ours, **headless}


def _changed(known: ApiObject, labels: dict[str, str]) -> Manifest:
    """The merge patch that makes the labels these."""
    gone: Manifest = dict.fromkeys(known.metadata.labels.keys() - labels.keys())
    return {**gone, **labels}


def _create(kind: Kind, manifest: Manifest) -> Write:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
    return Write(Create(resource=kind.resource, manifest=body))


def _delete(kind: Kind, obj: ApiObject) -> Write:
    meta = obj.metadata
    return Write(Delete(resource=kind.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid))

"""Objects of dynamic resource allocation for scenarios: slices, classes and claims."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import CREATED, World, pod
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.dynamic_resources.objects import ResourceClaim

DRIVER = "gpu.example.com"
ENABLED = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
    arguments: {predicate.DynamicResourceAllocationEnable: true}
"""


def _meta(name: str, namespace: str = "", **more: Any) -> Manifest:
    meta = {"name": name, "uid": f"uid-{namespace}-{name}", "creationTimestamp": CREATED, **more}
    return {**meta, "namespace": namespace} if namespace else meta


def device(name: str, **more: Any) -> Manifest:
    """Return a device; `more` are attributes by name, of the type of their value, and fields of devices."""
    fields = (
        *("taints", "capacity", "consumesCounters", "allowMultipleAllocations", "nodeName", "allNodes", "nodeSelector"),
        *("bindsToNode", "bindingConditions", "bindingFailureConditions"),
    )
    kept = {field: more.pop(field) for field in fields if field in more}
    types = {bool: "bool", int: "int", str: "string"}
    attributes = {key: {types[type(value)]: value} for key, value in more.items()}
    return {"name": name, "attributes": attributes, **kept}


def gpus(count: int, **more: Any) -> list[Manifest]:
    """Return equal devices, named gpu-0 and so on."""
    return [device(f"gpu-{index}", **more) for index in range(count)]


def resource_slice(name: str, devices: list[Manifest], *, on: str = "", pool: str = "", **more: Any) -> Manifest:
    """Return a slice of a node (`on`), or with the node fields in `more`; `count` is the number of slices of its pool.

    The pool is named after the slice unless it is given.
    """
    generation, count = more.pop("generation", 1), more.pop("count", 1)
    spec = {"driver": more.pop("driver", DRIVER), "devices": devices, **({"nodeName": on} if on else {}), **more}
    spec["pool"] = {"name": pool or name, "generation": generation, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": _meta(name),
        "spec": spec,
    }


def device_class(name: str = "gpu", *expressions: str, **more: Any) -> Manifest:
    """Return a class."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": _meta(name),
        "spec": {"selectors": selectors, **more},
    }


def request(name: str = "gpu", count: int = 1, *expressions: str, cls: str = "gpu", **more: Any) -> Manifest:
    """Return a request for a number of devices of a class that satisfy expressions."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    exactly = {"deviceClassName": cls, "count": count, "allocationMode": "ExactCount", "selectors": selectors, **more}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: Manifest, owner: str = "", status: Manifest | None = None, **more: Any) -> Manifest:
    """Return a claim of namespace ns, by default for one GPU; `owner` is the pod for which it was made."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"ns-{owner}", "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _meta(name, "ns", **({"ownerReferences": [reference]} if owner else {})),
        "spec": {"devices": {"requests": list(requests) or [request()], **more}},
        "status": status or {},
    }


def allocated(*devices: str, node: str = "n1", pods: tuple[str, ...] = (), request: str = "gpu") -> Manifest:
    """Return the status of a claim with devices `POOL/NAME` of a node, reserved for pods."""
    results = []
    for each in devices:
        pool, _, name = each.partition("/")
        results.append({"request": request, "driver": DRIVER, "pool": pool, "device": name})
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    return {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"ns-{name}"} for name in pods],
    }


def using(name: str, group: str, *claims: str, **more: Any) -> Manifest:
    """Return a pod that names claims."""
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    return pod(name, group, spec={"resourceClaims": entries}, cpu=more.pop("cpu", "1"), **more)


def templated(name: str, group: str, **more: Any) -> Manifest:
    """Return a pod whose claim of the same name was made from a template."""
    entries = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    statuses = [{"name": "gpu", "resourceClaimName": name}]
    return pod(name, group, spec={"resourceClaims": entries}, status={"resourceClaimStatuses": statuses}, **more)


def claim_of(world: World, name: str) -> ResourceClaim:
    """Return a claim of namespace ns as it is stored."""
    found = world.objects[kinds.RESOURCE_CLAIM.resource, f"ns/{name}"]
    assert isinstance(found, ResourceClaim)
    return found


def devices_of(world: World, name: str) -> list[str]:
    """Return the devices of a claim of namespace ns, as POOL/NAME."""
    allocation = claim_of(world, name).status.allocation
    return [f"{each.pool}/{each.device}" for each in allocation.devices.results] if allocation is not None else []


def consumers_of(world: World, name: str) -> list[str]:
    """Return the pods for which a claim of namespace ns is reserved."""
    return sorted(each.name for each in claim_of(world, name).status.reserved_for)

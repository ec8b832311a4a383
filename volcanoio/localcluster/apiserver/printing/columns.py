"""Columns of the built-in kinds, as tables (Kubernetes: `pkg/printers/internalversion/printers.go`).

A kind that is not listed has a name and an age.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from volcanoio.model.base import Manifest
from volcanoio.model.printing import pods
from volcanoio.model.printing.ages import UNKNOWN, since
from volcanoio.model.printing.pods import NONE
from volcanoio.model.workloads import DISRUPTION_TARGET, INITIALLY_SCHEDULED

Row: TypeAlias = list[Any]
UNSET = "<unset>"
_ROLE = "node-role.kubernetes.io/"
_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


class Column(NamedTuple):
    """A column's definition; priority above 0 shows with `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


class Printer(NamedTuple):
    """The columns of a kind, and the function that makes a row of an object."""

    columns: tuple[Column, ...]
    row: Callable[[Manifest, datetime], Row]


def column_list(plain: str, wide: str = "", *after: str) -> tuple[Column, ...]:
    """Return columns from comma-separated names.

    `after` holds further pairs of plain and wide ones.

    The first column is the name.
    """
    groups = (plain, wide, *after)
    found = [
        Column(name.strip(), priority=index % 2)
        for index, group in enumerate(groups)
        for name in group.split(",")
        if name
    ]
    return (found[0]._replace(format="name"), *found[1:])


def name_of(obj: Manifest) -> str:
    """Return the object's name."""
    return str(obj["metadata"]["name"])


def age_of(obj: Manifest, now: datetime) -> str:
    """Return the age of an object."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def _pod(obj: Manifest, now: datetime) -> Row:
    ready, status, restarts = pods.view(obj, now)
    nominated = (obj.get("status") or {}).get("nominatedNodeName") or NONE
    node = (obj.get("spec") or {}).get("nodeName") or NONE
    first = [name_of(obj), ready, status, restarts, age_of(obj, now)]
    return [*first, pods.pod_ip(obj), node, nominated, pods.readiness_gates(obj)]


def _node(obj: Manifest, now: datetime) -> Row:
    status, labels = obj.get("status") or {}, obj["metadata"].get("labels") or {}
    ready = next((one.get("status") for one in status.get("conditions") or () if one.get("type") == "Ready"), None)
    words = [{"True": "Ready", None: "Unknown"}.get(ready, "NotReady")]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    roles = sorted(label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE))
    info = status.get("nodeInfo") or {}
    addresses = {one.get("type"): one.get("address") for one in status.get("addresses") or ()}
    return [
        name_of(obj),
        ",".join(words),
        ",".join(roles) or NONE,
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _namespace(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), (obj.get("status") or {}).get("phase", ""), age_of(obj, now)]


def _event(obj: Manifest, now: datetime) -> Row:
    involved, source, series = (obj.get(field) or {} for field in ("involvedObject", "source", "series"))
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    count = series.get("count") or obj.get("count") or 1
    component = source.get("component") or obj.get("reportingComponent") or ""
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
        involved.get("fieldPath", ""),
        ", ".join(part for part in (component, source.get("host")) if part),
        (obj.get("message") or "").strip(),
        since(first, now),
        count,
        name_of(obj),
    ]


def _service(obj: Manifest, now: datetime) -> Row:
    spec = obj.get("spec") or {}
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    external = [*(spec.get("externalIPs") or ()), *(one.get("ip") or one.get("hostname") for one in ingress)]
    kind = spec.get("type") or "ClusterIP"
    return [
        name_of(obj),
        kind,
        spec.get("clusterIP") or NONE,
        ",".join(external) or spec.get("externalName") or ("<pending>" if kind == "LoadBalancer" else NONE),
        ",".join(_port(port) for port in spec.get("ports") or ()) or NONE,
        age_of(obj, now),
        pairs(spec.get("selector")),
    ]


def _port(port: Manifest) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def pairs(labels: dict[str, str] | None) -> str:
    """Return labels in the form of a cell."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _config_map(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age_of(obj, now)]


def _secret(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), obj.get("type", "Opaque"), len(obj.get("data") or ()), age_of(obj, now)]


def _claim(obj: Manifest, now: datetime) -> Row:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes(status) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _volume(obj: Manifest, now: datetime) -> Row:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef") or {}
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _modes(holder: Manifest) -> str:
    return ",".join(_ACCESS_MODES.get(mode, mode) for mode in holder.get("accessModes") or ())


def _priority_class(obj: Manifest, now: datetime) -> Row:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return [name_of(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age_of(obj, now), policy]


def _pod_group(obj: Manifest, now: datetime) -> Row:
    spec = obj.get("spec") or {}
    policy = "Gang" if (spec.get("schedulingPolicy") or {}).get("gang") is not None else "Basic"
    workload = (spec.get("workloadRef") or {}).get("workloadName", NONE)
    conditions = {one.get("type"): one for one in (obj.get("status") or {}).get("conditions") or ()}
    status = "Pending"
    if (scheduled := conditions.get(INITIALLY_SCHEDULED)) is not None:
        status = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if (disrupted := conditions.get(DISRUPTION_TARGET)) is not None:
        status = disrupted.get("reason", "")
    return [name_of(obj), policy, workload, status, age_of(obj, now)]


def _lease(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), (obj.get("spec") or {}).get("holderIdentity", ""), age_of(obj, now)]


def _resource_claim(obj: Manifest, now: datetime) -> Row:
    status = obj.get("status") or {}
    is_deleted, is_allocated = "deletionTimestamp" in obj["metadata"], status.get("allocation") is not None
    states = {
        "deleted": is_deleted,
        "pending": not is_deleted and not is_allocated,
        "allocated": is_allocated,
        "reserved": is_allocated and bool(status.get("reservedFor")),
    }
    return [name_of(obj), ",".join(state for state, holds in states.items() if holds), age_of(obj, now)]


def _resource_slice(obj: Manifest, now: datetime) -> Row:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [name_of(obj), spec.get("nodeName") or "", spec.get("driver", ""), pool, age_of(obj, now)]


GENERIC = Printer(column_list("Name,Age"), lambda obj, now: [name_of(obj), age_of(obj, now)])
_EVENT_COLUMNS = tuple(
    one._replace(format="name" if one.name == "Name" else "")
    for one in column_list("Last Seen,Type,Reason,Object", "Subobject,Source", "Message", "First Seen,Count,Name")
)
_PRIORITY_TYPES = {"Value": "integer", "Global-Default": "boolean"}

PRINTERS: dict[str, Printer] = {
    "pods": Printer(column_list("Name,Ready,Status,Restarts,Age", "IP,Node,Nominated Node,Readiness Gates"), _pod),
    "nodes": Printer(
        column_list(
            "Name,Status,Roles,Age,Version", "Internal-IP,External-IP,OS-Image,Kernel-Version,Container-Runtime"
        ),
        _node,
    ),
    "namespaces": Printer(column_list("Name,Status,Age"), _namespace),
    "events": Printer(
        (_EVENT_COLUMNS[0]._replace(format=""), *_EVENT_COLUMNS[1:-1], _EVENT_COLUMNS[-1]._replace(format="name")),
        _event,
    ),
    "services": Printer(column_list("Name,Type,Cluster-IP,External-IP,Port(s),Age", "Selector"), _service),
    "configmaps": Printer(column_list("Name,Data,Age"), _config_map),
    "secrets": Printer(column_list("Name,Type,Data,Age"), _secret),
    "persistentvolumeclaims": Printer(
        column_list("Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age", "VolumeMode"),
        _claim,
    ),
    "persistentvolumes": Printer(
        column_list(
            "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age",
            "VolumeMode",
        ),
        _volume,
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        tuple(
            one._replace(type=_PRIORITY_TYPES.get(one.name, "string"))
            for one in column_list("Name,Value,Global-Default,Age,PreemptionPolicy")
        ),
        _priority_class,
    ),
    "podgroups.scheduling.k8s.io": Printer(column_list("Name,Policy,Workload,Status,Age"), _pod_group),
    "resourceclaims.resource.k8s.io": Printer(column_list("Name,State,Age"), _resource_claim),
    "resourceslices.resource.k8s.io": Printer(column_list("Name,Node,Driver,Pool,Age"), _resource_slice),
    "leases.coordination.k8s.io": Printer(column_list("Name,Holder,Age"), _lease),
}
"""Printers by `plural.group`."""

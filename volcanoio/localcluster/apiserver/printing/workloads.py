"""The columns of workloads and of what their controllers keep (Kubernetes: `pkg/printers/internalversion`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from volcanoio.localcluster.apiserver.clock import parse_rfc3339
from volcanoio.localcluster.apiserver.printing.ages import since
from volcanoio.localcluster.apiserver.printing.columns import (
    UNSET,
    Column,
    Printer,
    Row,
    age_of,
    column_list,
    name_of,
    pairs,
)
from volcanoio.localcluster.apiserver.printing.pods import NONE
from volcanoio.model.base import Manifest

_SHOWN = 3
"""How many addresses or ports a cell shows."""
_STATES = ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet")
_EXPRESSIONS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


def _parts(obj: Manifest) -> tuple[Manifest, Manifest]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _containers(spec: Manifest) -> Row:
    """Names and images of a template's containers."""
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return [",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)]


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector, as `-l` takes it."""
    selector = selector or {}
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        key, form = one.get("key", ""), _EXPRESSIONS.get(one.get("operator", ""), "{key}")
        terms.append((key, form.format(key=key, values=",".join(one.get("values") or ()))))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or NONE


def _deployment(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [name_of(obj), ready, *counts, age_of(obj, now), *_containers(spec), selector_text(spec.get("selector"))]


def _replica_counts(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    counts = [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [name_of(obj), *counts, age_of(obj, now), *_containers(spec)]


def _replica_set(obj: Manifest, now: datetime) -> Row:
    return [*_replica_counts(obj, now), selector_text(_parts(obj)[0].get("selector"))]


def _replication_controller(obj: Manifest, now: datetime) -> Row:
    return [*_replica_counts(obj, now), pairs(_parts(obj)[0].get("selector"))]


def _stateful_set(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [name_of(obj), ready, age_of(obj, now), *_containers(spec)]


def _daemon_set(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    names = (
        *("desiredNumberScheduled", "currentNumberScheduled", "numberReady"),
        *("updatedNumberScheduled", "numberAvailable"),
    )
    nodes = pairs(((spec.get("template") or {}).get("spec") or {}).get("nodeSelector"))
    counts = [status.get(name, 0) for name in names]
    return [name_of(obj), *counts, nodes, age_of(obj, now), *_containers(spec), selector_text(spec.get("selector"))]


def _job(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    done, parallelism = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    end = status.get("completionTime")
    duration = since(status["startTime"], parse_rfc3339(end) if end else now) if status.get("startTime") else ""
    cells = [name_of(obj), _job_state(obj), completions, duration, age_of(obj, now)]
    return [*cells, *_containers(spec), selector_text(spec.get("selector"))]


def _job_state(obj: Manifest) -> str:
    conditions = _parts(obj)[1].get("conditions") or ()
    holding = {one.get("type") for one in conditions if one.get("status") == "True"}
    found = next((state for state in _STATES if state in holding), "Running")
    if found not in _STATES[:2] and obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return found


def _cron_job(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    last = status.get("lastScheduleTime")
    cells = [name_of(obj), spec.get("schedule", ""), spec.get("timeZone") or NONE, str(bool(spec.get("suspend")))]
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    active = [len(status.get("active") or ()), since(last, now) if last else NONE, age_of(obj, now)]
    return [*cells, *active, *_containers(inner), selector_text(inner.get("selector"))]


def _budget(obj: Manifest, now: datetime) -> Row:
    spec, status = _parts(obj)
    limits = [str(spec[name]) if spec.get(name) is not None else "N/A" for name in ("minAvailable", "maxUnavailable")]
    return [name_of(obj), *limits, status.get("disruptionsAllowed", 0), age_of(obj, now)]


def _endpoints(obj: Manifest, now: datetime) -> Row:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{one}:{port.get('port')}" for port in ports for one in addresses] if ports else addresses
    return [name_of(obj), _some(found, NONE) if obj.get("subsets") else NONE, age_of(obj, now)]


def _endpoint_slice(obj: Manifest, now: datetime) -> Row:
    ports = [
        str(port["port"]) if port.get("port") is not None else port.get("name") or "*"
        for port in obj.get("ports") or ()
    ]
    addresses = [address for one in obj.get("endpoints") or () for address in one.get("addresses") or ()]
    return [name_of(obj), obj.get("addressType", ""), _some(ports, UNSET), _some(addresses, UNSET), age_of(obj, now)]


def _some(found: list[str], none: str) -> str:
    """The first few, and how many more there are."""
    text = ",".join(found[:_SHOWN])
    return f"{text} + {len(found) - _SHOWN} more..." if len(found) > _SHOWN else text or none


def _revision(obj: Manifest, now: datetime) -> Row:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{owner.get('kind', '').lower()}{'.' if group else ''}{group}/{owner.get('name', '')}"
    return [name_of(obj), controller, obj.get("revision", 0), age_of(obj, now)]


def _counted(columns: tuple[Column, ...], *names: str) -> tuple[Column, ...]:
    """The columns, those of these names as integers."""
    return tuple(column._replace(type="integer") if column.name in names else column for column in columns)


_REPLICAS = _counted(
    column_list("Name,Desired,Current,Ready,Age", "Containers,Images,Selector"), "Desired", "Current", "Ready"
)

PRINTERS: dict[str, Printer] = {
    "deployments.apps": Printer(
        column_list("Name,Ready,Up-to-date,Available,Age", "Containers,Images,Selector"), _deployment
    ),
    "replicasets.apps": Printer(_REPLICAS, _replica_set),
    "replicationcontrollers": Printer(_REPLICAS, _replication_controller),
    "statefulsets.apps": Printer(column_list("Name,Ready,Age", "Containers,Images"), _stateful_set),
    "daemonsets.apps": Printer(
        _counted(
            column_list(
                "Name,Desired,Current,Ready,Up-to-date,Available,Node Selector,Age", "Containers,Images,Selector"
            ),
            *("Desired", "Current", "Ready", "Up-to-date", "Available"),
        ),
        _daemon_set,
    ),
    "jobs.batch": Printer(column_list("Name,Status,Completions,Duration,Age", "Containers,Images,Selector"), _job),
    "cronjobs.batch": Printer(
        tuple(
            column._replace(type="boolean") if column.name == "Suspend" else column
            for column in _counted(
                column_list("Name,Schedule,Timezone,Suspend,Active,Last Schedule,Age", "Containers,Images,Selector"),
                "Active",
            )
        ),
        _cron_job,
    ),
    "poddisruptionbudgets.policy": Printer(
        _counted(column_list("Name,Min Available,Max Unavailable,Allowed Disruptions,Age"), "Allowed Disruptions"),
        _budget,
    ),
    "endpoints": Printer(column_list("Name,Endpoints,Age"), _endpoints),
    "endpointslices.discovery.k8s.io": Printer(column_list("Name,AddressType,Ports,Endpoints,Age"), _endpoint_slice),
    "controllerrevisions.apps": Printer(column_list("Name,Controller,Revision,Age"), _revision),
}
"""By `plural.group`."""

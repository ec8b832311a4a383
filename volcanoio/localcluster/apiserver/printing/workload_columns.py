"""Columns of workloads, networking, policy and configuration kinds.

Kubernetes: `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from volcanoio.localcluster.apiserver.apimachinery.clock import parse_rfc3339
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
from volcanoio.model.base import Manifest
from volcanoio.model.printing.ages import since
from volcanoio.model.printing.pods import NONE

_SHOWN = 3
"""Maximal number of addresses or ports in a cell."""
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
    """Return names and images of a template's containers."""
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return [",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)]


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a LabelSelector as `-l` accepts it."""
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
    """Return the first few values and the number of the others."""
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
    """Return the columns, with those of these names as integers."""
    return tuple(column._replace(type="integer") if column.name in names else column for column in columns)


_REPLICAS = _counted(
    column_list("Name,Desired,Current,Ready,Age", "Containers,Images,Selector"), "Desired", "Current", "Ready"
)

WORKLOAD_PRINTERS: dict[str, Printer] = {
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
"""Printers by `plural.group`."""


_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_MOST_HOSTS = 3
_MOST_METRICS = 2


def _spec(obj: Manifest) -> Manifest:
    return obj.get("spec") or {}


def _first(texts: list[str], most: int) -> str:
    """Return the first few of several values."""
    rest = len(texts) - most
    return ", ".join(texts) if rest <= 0 else f"{', '.join(texts[:most])} + {rest} more..."


def _created(obj: Manifest, _now: datetime) -> Row:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _policy(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), selector_text(_spec(obj).get("podSelector")), age_of(obj, now)]


def _ingress(obj: Manifest, now: datetime) -> Row:
    spec, status = _spec(obj), obj.get("status") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    shown_hosts = ",".join(hosts[:_MOST_HOSTS]) + (
        f" + {len(hosts) - _MOST_HOSTS} more..." if len(hosts) > _MOST_HOSTS else ""
    )
    points = (status.get("loadBalancer") or {}).get("ingress") or ()
    where = ",".join(point.get("ip") or point.get("hostname") or "" for point in points)
    ports = "80, 443" if spec.get("tls") else "80"
    return [name_of(obj), spec.get("ingressClassName") or NONE, shown_hosts or "*", where, ports, age_of(obj, now)]


def _ingress_class(obj: Manifest, now: datetime) -> Row:
    spec = _spec(obj)
    reference = spec.get("parameters")
    parameters_text = NONE
    if reference:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
        parameters_text = f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"
    return [name_of(obj), spec.get("controller", ""), parameters_text, age_of(obj, now)]


def _quota(obj: Manifest, now: datetime) -> Row:
    hard, used = ((obj.get("status") or {}).get(one) or {} for one in ("hard", "used"))
    usage: dict[bool, list[str]] = {False: [], True: []}
    for name in sorted(hard):
        usage[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), ", ".join(usage[False]), ", ".join(usage[True]), age_of(obj, now)]


def _scaler(obj: Manifest, now: datetime) -> Row:
    spec, status = _spec(obj), obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    currents = status.get("currentMetrics") or []
    metrics = [
        _metric(one, currents[at] if at < len(currents) else {}) for at, one in enumerate(spec.get("metrics") or ())
    ]
    reference = f"{target.get('kind', '')}/{target.get('name', '')}"
    least = spec.get("minReplicas")
    counts = ["<unset>" if least is None else str(least), spec.get("maxReplicas", 0), status.get("currentReplicas", 0)]
    return [name_of(obj), reference, _first(metrics, _MOST_METRICS) or NONE, *counts, age_of(obj, now)]


def _metric(wanted: Manifest, found: Manifest) -> str:
    """Return the current and target value of a metric, such as `cpu: 30%/80%`."""
    kind = wanted.get("type") or ""
    field = kind[:1].lower() + kind[1:]
    target = (wanted.get(field) or {}).get("target") or {}
    current = (found.get(field) or {}).get("current") or {}
    name = f"{wanted[field].get('name', '')}: " if field in {"resource", "containerResource"} else ""
    if target.get("averageUtilization") is not None:
        percent = current.get("averageUtilization")
        return f"{name}{'<unknown>' if percent is None else f'{percent}%'}/{target['averageUtilization']}%"
    average = target.get("averageValue") is not None
    key = "averageValue" if average else "value"
    after = " (avg)" if average and field in {"object", "external"} else ""
    return f"{name}{current.get(key, '<unknown>')}/{target.get(key, '<auto>')}{after}"


def _runtime_class(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), obj.get("handler", ""), age_of(obj, now)]


def _hooks(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), len(obj.get("webhooks") or ()), age_of(obj, now)]


def _binding(obj: Manifest, now: datetime) -> Row:
    role: dict[str, Any] = obj.get("roleRef") or {}
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in obj.get("subjects") or ():
        name = one.get("name", "")
        subjects.get(one.get("kind", ""), []).append(f"{one['namespace']}/{name}" if one.get("namespace") else name)
    names = [", ".join(listed) for listed in subjects.values()]
    return [name_of(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age_of(obj, now), *names]


def _storage_class(obj: Manifest, now: datetime) -> Row:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return [
        name_of(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "<unset>"),
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


def _pod_template(obj: Manifest, _now: datetime) -> Row:
    template = obj.get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or ()
    names, images = (",".join(one.get(key, "") for one in containers) for key in ("name", "image"))
    labels = (template.get("metadata") or {}).get("labels") or {}
    return [name_of(obj), names, images, ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE]


def _typed(columns: tuple[Column, ...], **types: str) -> tuple[Column, ...]:
    """Return the columns, with the given types by name."""
    return tuple(one._replace(type=types.get(one.name.replace(" ", ""), one.type)) for one in columns)


CREATED = Printer(_typed(column_list("Name,Created At"), CreatedAt="date"), _created)
_HOOKS = Printer(_typed(column_list("Name,Webhooks,Age"), Webhooks="integer"), _hooks)
_BINDING = Printer(column_list("Name,Role,Age", "Users,Groups,ServiceAccounts"), _binding)
_RBAC = "rbac.authorization.k8s.io"

POLICY_PRINTERS: dict[str, Printer] = {
    "customresourcedefinitions.apiextensions.k8s.io": CREATED,
    "limitranges": CREATED,
    f"roles.{_RBAC}": CREATED,
    f"clusterroles.{_RBAC}": CREATED,
    f"rolebindings.{_RBAC}": _BINDING,
    f"clusterrolebindings.{_RBAC}": _BINDING,
    "networkpolicies.networking.k8s.io": Printer(column_list("Name,Pod-Selector,Age"), _policy),
    "ingresses.networking.k8s.io": Printer(column_list("Name,Class,Hosts,Address,Ports,Age"), _ingress),
    "ingressclasses.networking.k8s.io": Printer(column_list("Name,Controller,Parameters,Age"), _ingress_class),
    "resourcequotas": Printer(column_list("Name,Request,Limit,Age"), _quota),
    "horizontalpodautoscalers.autoscaling": Printer(
        column_list("Name,Reference,Targets,MinPods,MaxPods,Replicas,Age"), _scaler
    ),
    "runtimeclasses.node.k8s.io": Printer(column_list("Name,Handler,Age"), _runtime_class),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _HOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _HOOKS,
    "storageclasses.storage.k8s.io": Printer(
        column_list("Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age"), _storage_class
    ),
    "podtemplates": Printer(column_list("Name,Containers,Images,Pod Labels"), _pod_template),
}
"""Printers by `plural.group`."""

"""Columns of kinds that hold rules and choices (Kubernetes: `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from volcanoio.localcluster.apiserver.printing.columns import Column, Printer, Row, age_of, column_list, name_of
from volcanoio.localcluster.apiserver.printing.pods import NONE
from volcanoio.localcluster.apiserver.printing.workloads import selector_text
from volcanoio.model.base import Manifest

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_MOST_HOSTS = 3
_MOST_METRICS = 2


def _spec(obj: Manifest) -> Manifest:
    return obj.get("spec") or {}


def _first(texts: list[str], most: int) -> str:
    """The first few of several."""
    rest = len(texts) - most
    return ", ".join(texts) if rest <= 0 else f"{', '.join(texts[:most])} + {rest} more..."


def _created(obj: Manifest, _now: datetime) -> Row:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _policy(obj: Manifest, now: datetime) -> Row:
    return [name_of(obj), selector_text(_spec(obj).get("podSelector")), age_of(obj, now)]


def _ingress(obj: Manifest, now: datetime) -> Row:
    spec, status = _spec(obj), obj.get("status") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    told = ",".join(hosts[:_MOST_HOSTS]) + (
        f" + {len(hosts) - _MOST_HOSTS} more..." if len(hosts) > _MOST_HOSTS else ""
    )
    points = (status.get("loadBalancer") or {}).get("ingress") or ()
    where = ",".join(point.get("ip") or point.get("hostname") or "" for point in points)
    ports = "80, 443" if spec.get("tls") else "80"
    return [name_of(obj), spec.get("ingressClassName") or NONE, told or "*", where, ports, age_of(obj, now)]


def _ingress_class(obj: Manifest, now: datetime) -> Row:
    spec = _spec(obj)
    reference = spec.get("parameters")
    told = NONE
    if reference:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
        told = f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"
    return [name_of(obj), spec.get("controller", ""), told, age_of(obj, now)]


def _quota(obj: Manifest, now: datetime) -> Row:
    hard, used = ((obj.get("status") or {}).get(one) or {} for one in ("hard", "used"))
    told: dict[bool, list[str]] = {False: [], True: []}
    for name in sorted(hard):
        told[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), ", ".join(told[False]), ", ".join(told[True]), age_of(obj, now)]


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
    """How much there is and should be of a metric, such as `cpu: 30%/80%`."""
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
    whom: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in obj.get("subjects") or ():
        name = one.get("name", "")
        whom.get(one.get("kind", ""), []).append(f"{one['namespace']}/{name}" if one.get("namespace") else name)
    names = [", ".join(listed) for listed in whom.values()]
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
    """Columns of other types than text, by their names."""
    return tuple(one._replace(type=types.get(one.name.replace(" ", ""), one.type)) for one in columns)


CREATED = Printer(_typed(column_list("Name,Created At"), CreatedAt="date"), _created)
_HOOKS = Printer(_typed(column_list("Name,Webhooks,Age"), Webhooks="integer"), _hooks)
_BINDING = Printer(column_list("Name,Role,Age", "Users,Groups,ServiceAccounts"), _binding)
_RBAC = "rbac.authorization.k8s.io"

PRINTERS: dict[str, Printer] = {
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
"""By `plural.group`."""

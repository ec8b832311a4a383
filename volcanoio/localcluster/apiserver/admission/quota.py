"""ResourceQuota: scopes, the usage of each object, and the sums that each write updates.

Kubernetes: pkg/quota/v1/evaluator/core. Check and write happen in one step of the event loop, so that concurrent
creates cannot exceed a quota together. A namespace without quotas costs one dict lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, Final

from volcanoio.framework.podusage import QuotaScope, scopes_of
from volcanoio.localcluster.apiserver.admission.resource_amounts import (
    ONE,
    ZERO,
    Amount,
    Amounts,
    amount,
    amounts,
    pod_amounts,
    shown,
    whole,
    with_overhead,
)
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref, Stored
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.selectors import Selection
from volcanoio.localcluster.apiserver.controllers.workqueue import WorkQueue
from volcanoio.localcluster.apiserver.registry.kinds.pod_templates import quality_of_service
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError


def in_scope(scopes: tuple[QuotaScope, ...], resource: str, obj: Manifest) -> bool:
    """Return whether a quota with these scopes counts the object.

    Kinds without scopes match none.
    """
    if resource == "pods":
        return all(_pod_in(scope, obj["spec"]) for scope in scopes)
    if resource == "persistentvolumeclaims":
        return all(_claim_in(scope, obj) for scope in scopes)
    return not scopes


def _pod_in(scope: QuotaScope, spec: Manifest) -> bool:
    match scope.name:
        case "Terminating":
            return is_terminating(spec)
        case "NotTerminating":
            return not is_terminating(spec)
        case "BestEffort":
            return quality_of_service(spec) == "BestEffort"
        case "NotBestEffort":
            return quality_of_service(spec) != "BestEffort"
        case "PriorityClass":
            return scope.meets(spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return any(_crosses(term) for term in _affinity_terms(spec))
    return False


def _claim_in(scope: QuotaScope, claim: Manifest) -> bool:
    name = (claim.get("spec") or {}).get("volumeAttributesClassName") or ""
    return scope.name == "VolumeAttributesClass" and scope.meets(name)


def is_terminating(spec: Manifest) -> bool:
    """Return whether a pod has an active deadline."""
    return spec.get("activeDeadlineSeconds") is not None


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity_terms(spec: Manifest) -> list[Any]:
    affinity = spec.get("affinity") or {}
    found: list[Any] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        found += rules.get(_REQUIRED) or ()
        found += [one.get("podAffinityTerm") or {} for one in rules.get(_PREFERRED) or ()]
    return found


def _crosses(term: Manifest) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_CLASS_SUFFIX: Final = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_ALIASES: Final = {name: name for name in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")}
"""Resources that were counted by their own names before `count/` existed."""

_POD_NAMES: Final = frozenset(
    {
        *("count/pods", "pods", *_COMPUTE),
        *(f"{prefix}.{name}" for prefix in ("requests", "limits") for name in _COMPUTE),
    }
)
_CLAIM_NAMES: Final = ("persistentvolumeclaims", "requests.storage")
_SERVICE_NAMES: Final = frozenset({"count/services", "services", "services.loadbalancers", "services.nodeports"})


def usage(resource: str, obj: Manifest) -> Amounts:
    """Return the usage of an object of the resource (`plural.group`), by quota resource name.

    An object with an unreadable quantity, which validation refuses, counts only as an object.
    """
    special = _USAGES.get(resource)
    found = {f"count/{resource}": ONE}
    if special is not None:
        try:
            return found | special(obj)
        except QuantityError:
            return found
    if resource in _ALIASES:
        found[resource] = ONE
    return found


def concerns(resource: str, name: str) -> bool:
    """Return whether a quota resource name counts objects of the resource."""
    if name == f"count/{resource}":
        return True
    match resource:
        case "pods":
            return name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")) or _is_extended(name)
        case "persistentvolumeclaims":
            return name in _CLAIM_NAMES or name.partition(_CLASS_SUFFIX)[2] in _CLAIM_NAMES
        case "services":
            return name in _SERVICE_NAMES
    return _ALIASES.get(resource) == name


def _is_extended(name: str) -> bool:
    """Return whether the name is `requests.` and an extended resource such as nvidia.com/gpu."""
    stated = name.removeprefix("requests.")
    return stated != name and "/" in stated and "kubernetes.io/" not in stated and _CLASS_SUFFIX not in name


def pod_compute(requests: Amounts, limits: Amounts) -> Amounts:
    """Return the quota resource names of a pod's requests and limits, with their amounts."""
    found: Amounts = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[f"requests.{name}"] = requests[name]
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    for name, one in requests.items():
        if name.startswith("hugepages-"):
            found[name] = found[f"requests.{name}"] = one
        elif "/" in name:
            found[f"requests.{name}"] = one
    return found


def _pod_usage(pod: Manifest) -> Amounts:
    """Return the usage of a pod; a finished pod counts only as an object."""
    if (pod.get("status") or {}).get("phase") in _FINISHED:
        return {}
    spec = pod["spec"]
    requests = with_overhead(spec, pod_amounts(spec, "requests"), "requests")
    limits = with_overhead(spec, pod_amounts(spec, "limits"), "limits")
    return pod_compute(requests, limits)


def _claim_usage(claim: Manifest) -> Amounts:
    spec = claim["spec"]
    found: Amounts = {"persistentvolumeclaims": ONE}
    stated = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if stated is not None:
        allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
        found["requests.storage"] = max(_bytes(stated), _bytes(allocated or stated))
    annotations = claim["metadata"].get("annotations") or {}
    class_ = annotations.get(_CLASS_ANNOTATION) or spec.get("storageClassName")
    if class_:
        found |= {f"{class_}{_CLASS_SUFFIX}{name}": one for name, one in found.items()}
    return found


def _bytes(text: object) -> Amount:
    """Return a quantity as whole bytes, the unit that quotas count."""
    one = amount(text)
    return one._replace(value=Fraction(ceil(one.value)))


def _service_usage(service: Manifest) -> Amounts:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or ()
    balancers, node_ports = ZERO, ZERO
    match spec.get("type"):
        case "NodePort":
            node_ports = whole(len(ports))
        case "LoadBalancer":
            balancers = ONE
            allocates = spec.get("allocateLoadBalancerNodePorts") is not False
            node_ports = whole(sum(1 for port in ports if allocates or port.get("nodePort")))
    return {"services": ONE, "services.loadbalancers": balancers, "services.nodeports": node_ports}


_USAGES: Final[dict[str, Callable[[Manifest], Amounts]]] = {
    "pods": _pod_usage,
    "persistentvolumeclaims": _claim_usage,
    "services": _service_usage,
}


_NAME: Final = "resourcequotas"
_MUST_STATE: Final = tuple(
    sorted({"cpu", "memory", *(f"{one}.{name}" for one in ("requests", "limits") for name in ("cpu", "memory"))})
)
"""Resources that every container must specify where a quota limits them."""
_CHECKED_UPDATES: Final = frozenset({"persistentvolumeclaims", "services"})


class Quota:
    """One ResourceQuota and its current usage."""

    __slots__ = ("_names", "hard", "name", "scopes", "spec", "used")

    def __init__(self, name: str, spec: Manifest) -> None:
        self.name = name
        self.spec = spec
        self.hard = amounts(spec.get("hard"))
        self.scopes = scopes_of(spec.get("scopes") or (), spec.get("scopeSelector"))
        self.used: Amounts = dict.fromkeys(self.hard, ZERO)
        self._names: dict[str, tuple[str, ...]] = {}

    def names(self, resource: str) -> tuple[str, ...]:
        """Return the limited resource names that count objects of a resource."""
        found = self._names.get(resource)
        if found is None:
            found = self._names[resource] = tuple(sorted(name for name in self.hard if concerns(resource, name)))
        return found

    def counts(self, resource: str, obj: Manifest) -> bool:
        """Return whether the quota counts the object."""
        return bool(self.names(resource)) and in_scope(self.scopes, resource, obj)

    def add_usage(self, resource: str, used: Amounts, sign: int) -> None:
        """Add or subtract the usage of an object."""
        for name in self.names(resource):
            if name in used:
                before = self.used[name]
                self.used[name] = before.plus(used[name]) if sign > 0 else before.minus(used[name])


class Quotas:
    """All quotas by namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.namespaces: dict[str, dict[str, Quota]] = {}
        """Namespaces with quotas, for the writer's quick test."""
        self.work: WorkQueue[str] = WorkQueue(self.write_statuses)
        for (namespace, name), stored in store.collection(_NAME).objects.items():
            self._load(namespace, name, stored)
        store.on(_NAME, self._quota_changed)

    def check(self, resource: Resource, namespace: str, obj: Manifest, old: Manifest | None = None) -> None:
        """Raise ApiError 403 when the write would exceed a quota of the namespace."""
        if old is not None and not _may_grow(resource.name, obj, old):
            return
        name = obj["metadata"].get("name", "")
        used = usage(resource.name, obj)
        before = usage(resource.name, old) if old is not None else {}
        for quota in self.namespaces[namespace].values():
            if not quota.counts(resource.name, obj):
                continue
            if old is None and (problem := _unspecified(resource.name, quota, obj)):
                raise errors.forbidden(resource, name, f"failed quota: {quota.name}: must specify {problem}")
            counted = old is not None and quota.counts(resource.name, old)
            wanted = {
                one: used[one].minus(before.get(one, ZERO) if counted else ZERO)
                for one in quota.names(resource.name)
                if one in used
            }
            over = [one for one, more in wanted.items() if more.value > 0 and _exceeds(quota, one, more)]
            if over:
                raise errors.forbidden(resource, name, _exceeded(quota, over, wanted))

    def write_statuses(self, namespace: str) -> None:
        """Write the usage into the statuses of a namespace's quotas."""
        store = self._store
        for quota in list(self.namespaces.get(namespace, {}).values()):
            ref = Ref(_NAME, namespace, quota.name)
            stored = store.get(ref)
            if stored is None:
                continue
            obj = stored.decode()
            amounts = (("hard", shown(quota.hard)), ("used", shown(quota.used)))
            status = {name: amount for name, amount in amounts if amount}
            if obj.get("status") != status and not stored.deleting:
                obj["status"] = status
                store.put(ref, obj)

    def _quota_changed(self, ref: Ref, event: Event) -> None:
        if event.type == "DELETED":
            quotas = self.namespaces.get(ref.namespace)
            if quotas is not None:
                quotas.pop(ref.name, None)
                if not quotas:
                    del self.namespaces[ref.namespace]
            if not self.namespaces:
                self._store.observers.remove(self._observe)
        else:
            self._load(ref.namespace, ref.name, event.new)

    def _load(self, namespace: str, name: str, stored: Stored) -> None:
        """Add a quota, and compute its usage when it is new or its spec has changed."""
        spec = stored.decode().get("spec") or {}
        known = self.namespaces.get(namespace, {}).get(name)
        if known is not None and known.spec == spec:
            return
        quota = Quota(name, spec)
        for resource, collection in self._store.collections():
            if quota.names(resource):
                for one in collection.select(Selection(namespace)):
                    obj = one.decode()
                    if quota.counts(resource, obj):
                        quota.add_usage(resource, usage(resource, obj), 1)
        if not self.namespaces:
            self._store.observers.append(self._observe)
        self.namespaces.setdefault(namespace, {})[name] = quota
        self.work.add(namespace)

    def _observe(self, ref: Ref, event: Event) -> None:
        quotas = self.namespaces.get(ref.namespace)
        if quotas is None:
            return
        interested = [quota for quota in quotas.values() if quota.names(ref.resource)]
        if not interested:
            return
        changes = []
        if event.old is not None:
            changes.append((event.old.decode(), -1))
        if event.type != "DELETED":
            changes.append((event.new.decode(), 1))
        for obj, sign in changes:
            used = usage(ref.resource, obj)
            for quota in interested:
                if quota.counts(ref.resource, obj):
                    quota.add_usage(ref.resource, used, sign)
        self.work.add(ref.namespace)


def _may_grow(resource: str, obj: Manifest, old: Manifest) -> bool:
    """Return whether an update may increase usage.

    Only updates of claims, of services, and of pods whose scope changes may.
    """
    if resource == "pods":
        return is_terminating(obj["spec"]) != is_terminating(old["spec"])
    return resource in _CHECKED_UPDATES


def _exceeds(quota: Quota, name: str, more: Amount) -> bool:
    return quota.used[name].value + more.value > quota.hard[name].value


def _exceeded(quota: Quota, over: list[str], wanted: Amounts) -> str:
    def listed(found: Amounts) -> str:
        return ",".join(f"{name}={found[name]}" for name in over)

    return (
        f"exceeded quota: {quota.name}, requested: {listed(wanted)}, used: {listed(quota.used)}, "
        f"limited: {listed(quota.hard)}"
    )


@lru_cache(maxsize=256)
def _required(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in _MUST_STATE if name in names)


def _unspecified(resource: str, quota: Quota, obj: Manifest) -> str:
    """Return a text of containers and the limited resources that they do not specify, or ""."""
    if resource != "pods":
        return ""
    required = _required(quota.names(resource))
    spec = obj["spec"]
    if not required or any((spec.get("resources") or {}).values()):
        return ""
    missing: dict[str, list[str]] = {}
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            stated = pod_compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
            for name in required:
                if name not in stated:
                    missing.setdefault(name, []).append(container.get("name", ""))
    return "; ".join(f"{name} for: {','.join(sorted(set(missing[name])))}" for name in sorted(missing))

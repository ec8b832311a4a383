"""What one object uses of a quota (Kubernetes: pkg/quota/v1/evaluator/core)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Final

from volcanoio.localcluster.apiserver.plugins.amounts import ONE, ZERO, Amount, Amounts, amount, whole
from volcanoio.localcluster.apiserver.plugins.podresources import pod_amounts, with_overhead
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError

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
    """What an object of the resource (`plural.group`) uses, by the names of quotas.

    One with an amount that nobody can read, which rules keep out, counts as an object alone.
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
    """Whether objects of the resource count for that name of a quota."""
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
    """`requests.` before a name such as nvidia.com/gpu."""
    stated = name.removeprefix("requests.")
    return stated != name and "/" in stated and "kubernetes.io/" not in stated and _CLASS_SUFFIX not in name


def pod_compute(requests: Amounts, limits: Amounts) -> Amounts:
    """The names under which requests and limits are counted."""
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
    """A finished pod is an object still, and uses nothing else."""
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
    """Whole bytes, as quotas count them."""
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

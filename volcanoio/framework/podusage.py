"""The usage of a ResourceQuota by one pod, and the scopes of a quota.

The keys are those of PodGroup.minResources. Source: Kubernetes, pkg/quota/v1/evaluator/core and component-helpers
resource requests; Volcano adds every extended resource without its `requests.` prefix (pkg/controllers/util/util.go).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.core import Container, PodSpec, Requirement, ResourceList
from volcanoio.model.resources import add, maximum
from volcanoio.model.selectors import satisfied


class QuotaScope(NamedTuple):
    """One requirement of a quota. `operator` is Exists, DoesNotExist, In or NotIn."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def meets(self, value: str) -> bool:
        """Return whether this value of the scope, "" for none, meets the requirement."""
        return satisfied(Requirement(key=self.name, operator=self.operator, values=self.values), value or None)


def scopes_of(scopes: Iterable[str], selector: Mapping[str, Any] | None) -> tuple[QuotaScope, ...]:
    """Return all requirements of a quota's `scopes` and `scopeSelector`; an object must meet each."""
    expressions = (selector or {}).get("matchExpressions") or ()
    selected = [
        QuotaScope(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ()))
        for one in expressions
    ]
    return (*map(QuotaScope, scopes), *selected)


Usage: TypeAlias = dict[str, int]
"""Quota key to an amount in thousandths, bytes and pods too: `volcanoio.model.resources` has other units."""

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_LIMITED = ("cpu", "memory", "ephemeral-storage")


def pod_usage(template: Manifest) -> Usage:
    """Return the quota usage of one pod of a template, in thousandths.

    Raises QuantityError or msgspec.ValidationError.
    """
    return spec_usage(msgspec.convert(template.get("spec") or {}, PodSpec, strict=False))


def spec_usage(spec: PodSpec) -> Usage:
    """Return the quota usage of a pod, in thousandths; raises QuantityError."""
    requests, limits = _pod_total(spec, "requests"), _pod_total(spec, "limits")
    usage: Usage = {"count/pods": 1000, "pods": 1000}
    for name, amount in requests.items():
        usage[f"requests.{name}"] = amount
        usage[name] = amount
    for name in _LIMITED:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def format_usage(usage: Mapping[str, int]) -> ResourceList:
    """Format usage as quantities, sorted by key."""
    return {name: _text(name, usage[name]) for name in sorted(usage)}


def _text(name: str, amount: int) -> str:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain.startswith(_BYTES):
        return quantity.format_bytes(-(-amount // 1000))
    return quantity.format_milli(amount)


def _pod_total(spec: PodSpec, kind: str) -> Usage:
    """Return requests or limits of a pod: the sum of its containers or the peak of its init containers, plus overhead.

    An init container with restartPolicy Always is a sidecar: it adds to the containers and to the init containers after
    it.
    """
    total: Usage = {}
    for container in spec.containers:
        add(total, _of(container, kind))
    sidecars: Usage = {}
    peak: Usage = {}
    for container in spec.init_containers:
        own = _of(container, kind)
        if container.restart_policy == "Always":
            add(total, own)
            add(sidecars, own)
            peak = maximum(peak, sidecars)
        else:
            during = dict(sidecars)
            add(during, own)
            peak = maximum(peak, during)
    total = maximum(total, peak)
    if spec.resources is not None:
        total |= _amounts(getattr(spec.resources, kind))
    for name, amount in _amounts(spec.overhead).items():
        if kind == "requests" or name in total:
            total[name] = total.get(name, 0) + amount
    return total


def _of(container: Container, kind: str) -> Usage:
    resources = container.resources
    if kind == "limits":
        return _amounts(resources.limits)
    return _amounts({**resources.limits, **resources.requests})


def _amounts(listed: ResourceList) -> Usage:
    return {name: quantity.milli(text) for name, text in listed.items()}

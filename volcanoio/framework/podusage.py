"""What one pod takes of a quota: the keys that PodGroup.minResources is written in.

Source: Kubernetes, pkg/quota/v1/evaluator/core/pods.go and component-helpers resource requests; Volcano adds every
extended resource without its `requests.` prefix (pkg/controllers/util/util.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.core import Container, PodSpec, ResourceList
from volcanoio.model.resources import add, maximum

Usage: TypeAlias = dict[str, int]
"""Key of a quota to a number of thousandths, bytes and pods too: `volcanoio.model.resources` has other units."""

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_NATIVE = ("cpu", "memory", "ephemeral-storage", "hugepages-")
_LIMITED = ("cpu", "memory", "ephemeral-storage")


def pod_usage(template: Manifest) -> Usage:
    """Quota usage of one pod of a template, in thousandths; raises QuantityError or msgspec.ValidationError."""
    return usage_of(msgspec.convert(template.get("spec") or {}, PodSpec, strict=False))


def usage_of(spec: PodSpec) -> Usage:
    """Quota usage of a pod, in thousandths; raises QuantityError."""
    requests, limits = _pod_total(spec, "requests"), _pod_total(spec, "limits")
    usage: Usage = {"count/pods": 1000, "pods": 1000}
    for name, amount in requests.items():
        usage[f"requests.{name}"] = amount
        usage[name] = amount
    for name in _LIMITED:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def as_resource_list(usage: Mapping[str, int]) -> ResourceList:
    """Usage as quantities, sorted by key."""
    return {name: _text(name, usage[name]) for name in sorted(usage)}


def _text(name: str, amount: int) -> str:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain.startswith(_BYTES):
        return quantity.format_bytes(-(-amount // 1000))
    return quantity.format_milli(amount)


def _pod_total(spec: PodSpec, kind: str) -> Usage:
    """Requests or limits of a pod: the sum of its containers, or more while an init container runs, plus overhead.

    An init container that restarts always is a sidecar: it adds to the containers and to the init containers after it.
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

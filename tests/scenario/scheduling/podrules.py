"""Pods with affinity, spread constraints and host ports, and nodes in zones, for scenarios."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import CREATED, node, pod
from volcanoio.model.base import Manifest

HOST, ZONE = "kubernetes.io/hostname", "zone"


def zoned(name: str, zone: str = "", **more: Any) -> Manifest:
    """Return a node with its hostname label, and with a zone label unless `zone` is ""."""
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    return node(name, labels=labels, **more)


def term(key: str = HOST, **labels: str) -> dict[str, Any]:
    """Return an affinity term for pods with these labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return required affinity."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return required anti-affinity."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def prefers(side: str, **weights: Any) -> dict[str, Any]:
    """Return a preferred term; `side` is podAffinity or podAntiAffinity, and `weights` has `weight` and `term`."""
    return {
        side: {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weights["weight"], "podAffinityTerm": weights["term"]}
            ]
        }
    }


def spread(key: str = ZONE, skew: int = 1, *, soft: bool = False, **more: Any) -> dict[str, Any]:
    """Return a topology spread constraint for pods with label app=a; `soft` is ScheduleAnyway."""
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **more,
    }


def asking(
    name: str,
    group: str = "",
    *,
    labels: dict[str, str] | None = None,
    affinity: dict[str, Any] | None = None,
    constraints: tuple[dict[str, Any], ...] = (),
    port: dict[str, Any] | None = None,
    namespace: str = "ns",
    **more: Any,
) -> Manifest:
    """Return a pod with these rules, and with label app=a unless other labels are given."""
    made = pod(name, group, **{"cpu": "1", **more})
    made["metadata"].update({"labels": {"app": "a"} if labels is None else labels, "namespace": namespace})
    made["metadata"]["uid"] = f"{namespace}-{name}"
    if affinity:
        made["spec"]["affinity"] = affinity
    if constraints:
        made["spec"]["topologySpreadConstraints"] = list(constraints)
    if port:
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, **port}]
    return made


def gang(prefix: str, count: int, group: str, **more: Any) -> list[Manifest]:
    """Return `count` equal pods."""
    return [asking(f"{prefix}-{index}", group, **more) for index in range(count)]


def running(name: str, on: str, **more: Any) -> Manifest:
    """Return a pod with rules that runs on a node."""
    return asking(name, on=on, phase="Running", **more)


def terminating(manifest: Manifest) -> Manifest:
    """Set the deletion timestamp of a pod, and return it."""
    manifest["metadata"]["deletionTimestamp"] = CREATED
    return manifest

"""Pods that ask something of other pods, in few words, for scenarios of affinity, spread and ports."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, node, pod
from volcanoio.model.base import Manifest

HOST, ZONE = "kubernetes.io/hostname", "zone"


def zoned(name: str, zone: str = "", **more: Any) -> Manifest:
    """A node with its hostname, in a zone unless that is ""."""
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    return node(name, labels=labels, **more)


def term(key: str = HOST, **labels: str) -> dict[str, Any]:
    """A term for pods of these labels; to be extended by `|`."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    """Required affinity, as `affinity`."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    """Required anti-affinity, as `affinity`."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def prefers(side: str, **weights: Any) -> dict[str, Any]:
    """Preferred terms, as `affinity`; `side` is podAffinity or podAntiAffinity, and `weights` weight and term."""
    return {
        side: {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weights["weight"], "podAffinityTerm": weights["term"]}
            ]
        }
    }


def spread(key: str = ZONE, skew: int = 1, *, soft: bool = False, **more: Any) -> dict[str, Any]:
    """A constraint for pods of label app=a."""
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
    """A pod of label app=a, unless other labels are given, that asks for that."""
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
    """`count` alike pods."""
    return [asking(f"{prefix}-{index}", group, **more) for index in range(count)]


def why(world: World, name: str) -> str:
    """Why a task of that name found no node."""
    errors = world.state.ledger.jobs[f"ns/{name}"].attempts.fit_errors
    return next(iter(errors.values())).text if errors else ""

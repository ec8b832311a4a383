"""Taints by which a node's condition keeps pods away or drives them off."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from volcanoio.localcluster.controllers.frame.contract import Write
from volcanoio.localcluster.controllers.writes import patching
from volcanoio.model.core import Node, Pod, Taint, Toleration
from volcanoio.model.kinds import NODE
from volcanoio.model.times import epoch, rfc3339

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NO_EXECUTE = "NoExecute"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_NO_SCHEDULE = frozenset({*_BY_CONDITION.values(), _UNSCHEDULABLE})
_DRIVING = frozenset({NOT_READY, UNREACHABLE})
_OURS = {"NoSchedule": _NO_SCHEDULE, NO_EXECUTE: _DRIVING}


def wanted_taints(node: Node, now: float, *, driving: bool) -> list[Taint]:
    """The node's taints as they should be; what others have put on it stays. `driving`: lost nodes drive pods off."""
    keys = [
        key
        for condition in node.status.conditions
        if (key := _BY_CONDITION.get((condition.type, condition.status))) is not None
    ]
    wanted = [(key, "NoSchedule") for key in keys]
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    if driving:
        wanted += [(key, NO_EXECUTE) for key in keys if key in _DRIVING]
    kept = [taint for taint in node.spec.taints if not _is_ours(taint) or (taint.key, taint.effect) in wanted]
    known = {(taint.key, taint.effect) for taint in kept}
    moment = rfc3339(now)
    return [
        *kept,
        *(Taint(key=key, effect=effect, time_added=moment) for key, effect in wanted if (key, effect) not in known),
    ]


def _is_ours(taint: Taint) -> bool:
    return taint.key in _OURS.get(taint.effect, ())


def tainting(node: Node, taints: Sequence[Taint]) -> Write:
    """The write of a node's taints."""
    content = [msgspec.to_builtins(taint) for taint in taints]
    return patching(NODE, node, {"spec": {"taints": content or None}})


def drives_off(node: Node) -> list[Taint]:
    """The taints that pods must tolerate to stay."""
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


def stays_until(pod: Pod, taints: Sequence[Taint], now: float) -> float | None:
    """Until when (epoch seconds) a pod tolerates all of these; None for ever, the past or now for not at all."""
    moments: list[float] = []
    for taint in taints:
        tolerating = [one for one in pod.spec.tolerations if tolerates(one, taint)]
        if not tolerating:
            return now
        since = epoch(taint.time_added) or now
        seconds = [one.toleration_seconds for one in tolerating if one.toleration_seconds is not None]
        if seconds:
            moments.append(since + max(min(seconds), 0))
    return min(moments, default=None)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration is for one taint (Kubernetes: ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value

"""Which pods go first when there are too many (Kubernetes: ActivePodsWithRanks in controller_utils.go)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from volcanoio.localcluster.controllers.pods import DELETION_COST, ready, ready_since, restarts
from volcanoio.model.core import Pod
from volcanoio.model.times import epoch

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Sequence[Pod], on_node: Mapping[str, int], now: float) -> list[Pod]:
    """The pods, first to go first.

    Unassigned before assigned, Pending before Unknown before Running, not ready before ready, cheaper before dearer,
    on a node with more of its kind before fewer, ready (and then created) for a shorter time before longer (in powers
    of two, so that the youngest is not always the victim), more restarts before fewer.
    """

    def rank(pod: Pod) -> tuple[object, ...]:
        since = ready_since(pod)
        created = epoch(pod.metadata.creation_timestamp)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 1),
            ready(pod),
            _cost(pod),
            -on_node.get(pod.spec.node_name, 0) if pod.spec.node_name else 0,
            _age(since, now),
            -restarts(pod),
            _age(created, now),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _age(since: float | None, now: float) -> int:
    """How long it has been so, as a power of two; what has not happened yet is youngest."""
    if since is None:
        return -1
    return int(math.log2(max(now - since, 1.0)))

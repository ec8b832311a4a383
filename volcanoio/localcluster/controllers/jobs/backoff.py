"""When a failed pod of a Job may be replaced (Kubernetes: backoff_utils.go)."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.localcluster.controllers.jobs.tally import Tally
from volcanoio.localcluster.controllers.pods import condition
from volcanoio.model.core import Pod
from volcanoio.model.times import epoch

FIRST, MOST = 10.0, 600.0
"""Seconds after the first failure in a row, doubling up to the most."""


def ended_at(pod: Pod) -> float:
    """When a pod ended: its last container, else when it stopped being ready, was deleted or made."""
    moments = [
        moment
        for status in pod.status.container_statuses
        if status.state.terminated is not None and (moment := epoch(status.state.terminated.finished_at)) is not None
    ]
    if moments and len(moments) == len(pod.status.container_statuses):
        return max(moments)
    told = condition(pod, "Ready")
    for text in (told.last_transition_time if told else None, pod.metadata.deletion_timestamp):
        if (moment := epoch(text)) is not None:
            return moment
    return epoch(pod.metadata.creation_timestamp) or 0.0


def resumes_at(tally: Tally, pods: Sequence[Pod]) -> float:
    """From when (epoch seconds) on a pod may be made again, after the failures in a row among these pods."""
    last_success = max((ended_at(pod) for pod in pods if pod.status.phase == "Succeeded"), default=float("-inf"))
    failures = [moment for pod in pods if tally.is_failed(pod) and (moment := ended_at(pod)) > last_success]
    if not failures:
        return 0.0
    return max(failures) + min(FIRST * 2.0 ** min(len(failures) - 1, 20), MOST)

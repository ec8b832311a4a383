"""The count of a Job's pods. A pod that has ended is counted once, whatever happens to it or to us.

It holds a finalizer until its uid stands in `status.uncountedTerminatedPods`; the uid becomes part of the counters when
the finalizer is gone. An indexed job's successes are kept as indexes, which cannot be counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.localcluster.controllers.jobs.indexes import IGNORED, failures_before, index_of, parsed
from volcanoio.localcluster.controllers.jobs.policies import ruling
from volcanoio.localcluster.controllers.kinds import Workload
from volcanoio.localcluster.controllers.pods import active, finished, ready, terminating
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.model.core import Pod

FINALIZER = "batch.kubernetes.io/job-tracking"
MOST_UNCOUNTED = 500
"""How many uids a status holds at most."""


class Tally:
    """One look at a job's pods. `given_up`: the job has failed, so what still runs counts as failed."""

    def __init__(self, job: Workload, pods: Sequence[Pod], *, given_up: bool) -> None:
        spec, status = job.spec, job.status
        self.job = job
        self.pods = pods
        self.indexed = spec.get("completionMode") == "Indexed"
        self.completions: int | None = None if spec.get("completions") is None else int(spec["completions"])
        self.by_index = self.indexed and spec.get("backoffLimitPerIndex") is not None
        self._only_failed = spec.get("podReplacementPolicy") == "Failed"
        self._given_up = given_up
        self.active = [pod for pod in pods if active(pod)]
        self.ready = sum(map(ready, self.active))
        self.going = [pod for pod in pods if terminating(pod) and not finished(pod)]
        held = {pod.metadata.uid for pod in pods if FINALIZER in pod.metadata.finalizers}
        known = status.get("uncountedTerminatedPods") or {}
        succeeded, failed = list(known.get("succeeded") or ()), list(known.get("failed") or ())
        self.base_succeeded = count(status.get("succeeded")) + sum(uid not in held for uid in succeeded)
        self.base_failed = count(status.get("failed")) + sum(uid not in held for uid in failed)
        self.uncounted_succeeded = [uid for uid in succeeded if uid in held]
        self.uncounted_failed = [uid for uid in failed if uid in held]
        self.completed = self._completed_indexes() if self.indexed else set[int]()
        self.failed_indexes = self._failed_indexes() if self.by_index else set[int]()
        self.release: list[Pod] = []
        """Pods whose finalizer may go once the status as it follows from here is stored."""
        for pod in pods:
            if pod.metadata.uid in held:
                self._count(pod)

    @property
    def succeeded(self) -> int:
        """Pods (or indexes) that ended well, those not in the counters yet included."""
        return len(self.completed) if self.indexed else self.base_succeeded + len(self.uncounted_succeeded)

    @property
    def failed(self) -> int:
        """Likewise of those that failed."""
        return self.base_failed + len(self.uncounted_failed)

    def is_failed(self, pod: Pod) -> bool:
        """Whether a pod counts as failed; one that is being deleted does, unless only ended ones are replaced."""
        if pod.status.phase in ("Failed", "Succeeded"):
            return pod.status.phase == "Failed"
        return not self._only_failed and terminating(pod)

    def _count(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        over = finished(pod) or self.is_failed(pod) or (self._given_up and terminating(pod))
        if not over or len(self.uncounted_succeeded) + len(self.uncounted_failed) >= MOST_UNCOUNTED:
            return
        if pod.status.phase != "Succeeded" and self._is_remembered(pod):
            return
        self.release.append(pod)
        if pod.status.phase == "Succeeded":
            if not self.indexed and uid not in self.uncounted_succeeded:
                self.uncounted_succeeded.append(uid)
        elif uid not in self.uncounted_failed and self._matters(pod):
            self.uncounted_failed.append(uid)

    def _matters(self, pod: Pod) -> bool:
        """Whether a failure counts: not where a rule ignores it, nor of an index the job does not have."""
        if self.indexed and not self._has_index(pod):
            return False
        return ruling(self.job, pod).action != "Ignore"

    def _has_index(self, pod: Pod) -> bool:
        index = index_of(pod)
        return index is not None and self.completions is not None and index < self.completions

    def _completed_indexes(self) -> set[int]:
        limit = self.completions or 0
        done = parsed(self.job.status.get("completedIndexes"), limit)
        for pod in self.pods:
            if pod.status.phase == "Succeeded" and self._has_index(pod):
                index = index_of(pod)
                assert index is not None
                done.add(index)
        return done

    def _failed_indexes(self) -> set[int]:
        """Indexes that have failed too often, or whose failure a rule makes final."""
        limit, most = self.completions or 0, count(self.job.spec.get("backoffLimitPerIndex"))
        lost = parsed(self.job.status.get("failedIndexes"), limit)
        for pod in self.pods:
            if self.is_failed(pod) and self._has_index(pod):
                verdict = ruling(self.job, pod).action
                if verdict == "FailIndex" or (verdict != "Ignore" and failures_before(pod) >= most):
                    index = index_of(pod)
                    assert index is not None
                    lost.add(index)
        return lost - self.completed

    def _is_remembered(self, pod: Pod) -> bool:
        """Whether only this failed pod knows how often its index has failed: it stays until it is replaced."""
        index = index_of(pod)
        if not self.by_index or self._given_up or index is None or index in self.failed_indexes | self.completed:
            return False
        mine = (failures_before(pod), failures_before(pod, IGNORED), pod.metadata.creation_timestamp or "")
        return not any(
            other is not pod
            and index_of(other) == index
            and (failures_before(other), failures_before(other, IGNORED), other.metadata.creation_timestamp or "")
            > mine
            for other in self.pods
        )

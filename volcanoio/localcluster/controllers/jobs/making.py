"""The pods a Job is to make and to end now."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.localcluster.controllers.frame.contract import BURST, View
from volcanoio.localcluster.controllers.jobs.backoff import resumes_at
from volcanoio.localcluster.controllers.jobs.indexes import FAILURES, IGNORED, INDEX, failures_before, index_of
from volcanoio.localcluster.controllers.jobs.policies import ruling
from volcanoio.localcluster.controllers.jobs.tally import FINALIZER, Tally
from volcanoio.localcluster.controllers.kinds import BATCH_JOB, Workload
from volcanoio.localcluster.controllers.pods import generated, pod_of
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.localcluster.controllers.replicasets.ranking import deletion_order
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod

_ENV = "JOB_COMPLETION_INDEX"


class Making:
    """Which pods are missing (as manifests), which are too many, and until when those that failed are waited for."""

    def __init__(self, job: Workload, tally: Tally, view: View) -> None:
        self._job, self._tally, self._view = job, tally, view
        self.make: list[Manifest] = []
        self.surplus: list[Pod] = []
        self.again: float | None = None
        wanted = 0 if job.spec.get("suspend") else self._wanted()
        if tally.indexed:
            self._of_indexes(wanted)
        else:
            self._alike(wanted)

    def _wanted(self) -> int:
        parallelism, tally = count(self._job.spec.get("parallelism"), 1), self._tally
        if tally.completions is None:
            return min(parallelism, len(tally.active)) if tally.succeeded else parallelism
        return max(min(parallelism, tally.completions - tally.succeeded - len(tally.failed_indexes)), 0)

    @property
    def _waiting(self) -> Sequence[Pod]:
        """Terminating pods that are replaced only when they have ended."""
        return self._tally.going if self._job.spec.get("podReplacementPolicy") == "Failed" else ()

    def _alike(self, wanted: int) -> None:
        tally = self._tally
        surplus = len(tally.active) - wanted
        if surplus > 0:
            self.surplus = deletion_order(tally.active, {}, self._view.now)[: min(surplus, BURST)]
            return
        missing = wanted - len(tally.active) - len(self._waiting)
        if missing > 0 and self._may(tally.pods):
            self.make = [self._pod(None, tally.pods) for _ in range(min(missing, BURST))]

    def _of_indexes(self, wanted: int) -> None:
        tally = self._tally
        limit = tally.completions or 0
        closed = tally.completed | tally.failed_indexes
        keep: dict[int, Pod] = {}
        for pod in deletion_order(tally.active, {}, self._view.now)[::-1]:
            index = index_of(pod)
            if index is None or index >= limit or index in closed or index in keep:
                self.surplus.append(pod)
            else:
                keep[index] = pod
        for index in sorted(keep, reverse=True)[: max(len(keep) - wanted, 0)]:
            self.surplus.append(keep.pop(index))
        busy = {index_of(pod) for pod in self._waiting}
        room = wanted - len(keep) - len(busy)
        by_index: dict[int, list[Pod]] = {}
        for pod in tally.pods:
            index = index_of(pod)
            if index is not None:
                by_index.setdefault(index, []).append(pod)
        if room <= 0 or not (tally.by_index or self._may(tally.pods)):
            return
        for index in range(limit):
            if len(self.make) >= min(room, BURST):
                return
            if index in closed or index in keep or index in busy:
                continue
            earlier = by_index.get(index, [])
            if not tally.by_index or self._may(earlier):
                self.make.append(self._pod(index, earlier))

    def _may(self, pods: Sequence[Pod]) -> bool:
        """Whether the failures among these pods are long enough ago; else notes when they will be."""
        moment = resumes_at(self._tally, pods)
        if moment <= self._view.now:
            return True
        self.again = moment if self.again is None else min(self.again, moment)
        return False

    def _pod(self, index: int | None, earlier: Sequence[Pod]) -> Manifest:
        job = self._job
        template = job.spec.get("template") or {}
        base = job.metadata.name if index is None else f"{job.metadata.name}-{index}"
        name, prefix = generated(base, self._view.suffix())
        if index is None:
            return pod_of(template, BATCH_JOB, job, name, generate_name=prefix, finalizers=(FINALIZER,))
        notes = {INDEX: str(index), **self._failures(earlier)}
        pod = pod_of(
            template, BATCH_JOB, job, name,
            generate_name=prefix, labels={INDEX: str(index)}, annotations=notes, finalizers=(FINALIZER,),
        )  # fmt: skip
        spec = dict(pod["spec"])
        spec["hostname"] = base[:63]
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_with_index(one) for one in spec[field]]
        pod["spec"] = spec
        return pod

    def _failures(self, earlier: Sequence[Pod]) -> dict[str, str]:
        """How often the index has failed, for jobs that count this by index."""
        if not self._tally.by_index:
            return {}
        counted = ignored = 0
        for pod in earlier:
            if self._tally.is_failed(pod):
                passes = ruling(self._job, pod).action == "Ignore"
                counted = max(counted, failures_before(pod) + (not passes))
                ignored = max(ignored, failures_before(pod, IGNORED) + passes)
        return {FAILURES: str(counted), **({IGNORED: str(ignored)} if ignored else {})}


def _with_index(container: Manifest) -> Manifest:
    """The container with its index in the environment."""
    env = container.get("env") or []
    if any(one.get("name") == _ENV for one in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": _ENV, "valueFrom": source}]}

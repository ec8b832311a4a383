"""Status of a batch Job: completion indexes, failure and success policies, pod counts and the final conditions.

A pod that has ended is counted once. It keeps a finalizer until its uid is in `status.uncountedTerminatedPods`; the
uid moves into the counters when the finalizer is gone. Successes of an indexed job are stored as indexes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from volcanoio.localcluster.controllers.objects import Workload, condition_of, count
from volcanoio.localcluster.controllers.pods import active, finished, ready, terminating
from volcanoio.model.core import ContainerStatus, Pod
from volcanoio.model.times import epoch

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def parse_indexes(text: str | None, limit: int) -> set[int]:
    """Return the indexes that a text names, below the limit only."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            found.update(range(int(first), min(int(last or first) + 1, limit)))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Return indexes as text, as Kubernetes writes them.

    Two in a row with a comma, more with a dash.
    """
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}{',' if len(run) == 2 else '-'}{run[-1]}" for run in runs
    )


def index_of(pod: Pod) -> int | None:
    """Return the index of a pod, None where it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def failures_before(pod: Pod, annotation: str = FAILURES) -> int:
    """Return how often its index had failed when the pod was created."""
    text = pod.metadata.annotations.get(annotation, "")
    return int(text) if text.isdigit() else 0


class RuleMatch(NamedTuple):
    """The action of the first failure policy rule that matches a pod ("" for none), and its message."""

    action: str = ""
    message: str = ""


def match_failure_policy(job: Workload, pod: Pod) -> RuleMatch:
    """Return the first rule that matches a failed pod."""
    rules = (job.spec.get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        action = str(rule.get("action", ""))
        tail = f"matching {action} rule at index {number}"
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if rule.get("onExitCodes"):
            status = _matches_exit_codes(pod, rule["onExitCodes"])
            if status is not None and status.state.terminated is not None:
                code = status.state.terminated.exit_code
                return RuleMatch(action, f"Container {status.name} for pod {name} failed with exit code {code} {tail}")
        elif (condition := _condition(pod, rule.get("onPodConditions") or ())) is not None:
            return RuleMatch(action, f"Pod {name} has condition {condition} {tail}")
    return RuleMatch()


def _matches_exit_codes(pod: Pod, wanted: dict[str, Any]) -> ContainerStatus | None:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        ended = status.state.terminated
        if ended is None or not ended.exit_code or wanted.get("containerName") not in (None, status.name):
            continue
        if (ended.exit_code in (wanted.get("values") or ())) == (wanted.get("operator") == "In"):
            return status
    return None


def _condition(pod: Pod, patterns: Collection[dict[str, Any]]) -> str | None:
    for condition in pod.status.conditions:
        for pattern in patterns:
            if (pattern.get("type"), pattern.get("status", "True")) == (condition.type, condition.status):
                return condition.type
    return None


def succeeded_early(job: Workload, completed: set[int], completions: int) -> str | None:
    """Return why the job has succeeded though indexes are left; None when it has not."""
    if not completed:
        return None
    for number, rule in enumerate((job.spec.get("successPolicy") or {}).get("rules") or ()):
        wanted, least = rule.get("succeededIndexes"), rule.get("succeededCount")
        if wanted is None:
            met = least is not None and len(completed) >= int(least)
        else:
            named = parse_indexes(wanted, completions)
            done = len(named & completed)
            met = bool(named) and (done == len(named) or (least is not None and done >= int(least)))
        if met:
            return f"Matched rules at index {number}"
    return None


FINALIZER = "batch.kubernetes.io/job-tracking"
MAX_UNCOUNTED = 500
"""How many uids a status holds at most."""


class PodCounts:
    """Counts of a job's pods. `given_up`: the job has failed, so running pods count as failed."""

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
        """Pods whose finalizer may be removed once this status is stored."""
        for pod in pods:
            if pod.metadata.uid in held:
                self._count(pod)

    @property
    def succeeded(self) -> int:
        """Pods (or indexes) that succeeded, including those not yet in the counters."""
        return len(self.completed) if self.indexed else self.base_succeeded + len(self.uncounted_succeeded)

    @property
    def failed(self) -> int:
        """Failed pods, including those not yet in the counters."""
        return self.base_failed + len(self.uncounted_failed)

    def is_failed(self, pod: Pod) -> bool:
        """Return whether a pod counts as failed.

        A terminating one does, unless only ended ones are replaced.
        """
        if pod.status.phase in ("Failed", "Succeeded"):
            return pod.status.phase == "Failed"
        return not self._only_failed and terminating(pod)

    def _count(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        over = finished(pod) or self.is_failed(pod) or (self._given_up and terminating(pod))
        if not over or len(self.uncounted_succeeded) + len(self.uncounted_failed) >= MAX_UNCOUNTED:
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
        """Return whether a failure counts.

        It does not where a rule ignores it, nor for an index that the job does not have.
        """
        if self.indexed and not self._has_index(pod):
            return False
        return match_failure_policy(self.job, pod).action != "Ignore"

    def _has_index(self, pod: Pod) -> bool:
        index = index_of(pod)
        return index is not None and self.completions is not None and index < self.completions

    def _completed_indexes(self) -> set[int]:
        limit = self.completions or 0
        done = parse_indexes(self.job.status.get("completedIndexes"), limit)
        for pod in self.pods:
            if pod.status.phase == "Succeeded" and self._has_index(pod):
                index = index_of(pod)
                assert index is not None
                done.add(index)
        return done

    def _failed_indexes(self) -> set[int]:
        """Return indexes beyond their back-off limit, or whose failure a rule makes final."""
        limit, most = self.completions or 0, count(self.job.spec.get("backoffLimitPerIndex"))
        lost = parse_indexes(self.job.status.get("failedIndexes"), limit)
        for pod in self.pods:
            if self.is_failed(pod) and self._has_index(pod):
                verdict = match_failure_policy(self.job, pod).action
                if verdict == "FailIndex" or (verdict != "Ignore" and failures_before(pod) >= most):
                    index = index_of(pod)
                    assert index is not None
                    lost.add(index)
        return lost - self.completed

    def _is_remembered(self, pod: Pod) -> bool:
        """Return whether only this failed pod stores the failure count of its index.

        It stays until replaced.
        """
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


FAILURE_TARGET, CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"
FAILED, COMPLETE = "Failed", "Complete"
FINAL = {FAILURE_TARGET: FAILED, CRITERIA_MET: COMPLETE}
"""The final condition of each interim one, set when no pod runs any more."""


class Verdict(NamedTuple):
    """The interim condition (FailureTarget or SuccessCriteriaMet), its reason and message."""

    type: str
    reason: str
    message: str


def final_condition(job: Workload) -> str | None:
    """Return Complete or Failed; None for an unfinished job."""
    conditions = job.status.get("conditions") or ()
    return next((one["type"] for one in conditions if one["type"] in FINAL.values() and one["status"] == "True"), None)


def stored_verdict(job: Workload) -> Verdict | None:
    """Return the verdict that the stored conditions contain."""
    for type_ in (CRITERIA_MET, FAILURE_TARGET):
        known = condition_of(job.status.get("conditions") or (), type_)
        if known is not None and known.get("status") == "True":
            return Verdict(type_, known.get("reason", ""), known.get("message", ""))
    return None


def deadline_of(job: Workload) -> float | None:
    """Return when (epoch seconds) the job has been active for too long."""
    seconds, start = job.spec.get("activeDeadlineSeconds"), epoch(job.status.get("startTime"))
    if seconds is None or start is None or job.spec.get("suspend"):
        return None
    return start + int(seconds)


def verdict(job: Workload, pod_counts: PodCounts, now: float) -> Verdict | None:
    """Return the verdict of a job, None while it continues. Failure is checked first."""
    known = stored_verdict(job)
    if known is not None:
        return known
    for pod in pod_counts.pods:
        if pod_counts.is_failed(pod):
            found = match_failure_policy(job, pod)
            if found.action == "FailJob":
                return Verdict(FAILURE_TARGET, "PodFailurePolicy", found.message)
    if pod_counts.failed > count(job.spec.get("backoffLimit"), 6) or _restarted_too_often(job, pod_counts):
        return Verdict(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = deadline_of(job)
    if deadline is not None and deadline <= now:
        return Verdict(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _of_indexes(job, pod_counts) or _by_count(pod_counts)


def _of_indexes(job: Workload, pod_counts: PodCounts) -> Verdict | None:
    if not pod_counts.indexed:
        return None
    completions = pod_counts.completions or 0
    if pod_counts.by_index:
        lost, most = len(pod_counts.failed_indexes), job.spec.get("maxFailedIndexes")
        if most is not None and lost > int(most):
            text = "Job has exceeded the specified maximal number of failed indexes"
            return Verdict(FAILURE_TARGET, "MaxFailedIndexesExceeded", text)
        if lost and lost + len(pod_counts.completed) >= completions:
            return Verdict(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")
    early = succeeded_early(job, pod_counts.completed, completions)
    return None if early is None else Verdict(CRITERIA_MET, "SuccessPolicy", early)


def _by_count(pod_counts: PodCounts) -> Verdict | None:
    wanted = pod_counts.completions
    done = pod_counts.succeeded > 0 if wanted is None else pod_counts.succeeded >= wanted
    if done and not pod_counts.active:
        return Verdict(CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _restarted_too_often(job: Workload, pod_counts: PodCounts) -> bool:
    """Return whether container restarts exceed the limit (restartPolicy OnFailure)."""
    spec = (job.spec.get("template") or {}).get("spec") or {}
    if spec.get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in pod_counts.pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = count(job.spec.get("backoffLimit"), 6)
    return restarts > 0 if not limit else restarts >= limit

"""Whether a Job has failed or succeeded, and why."""

from __future__ import annotations

from typing import NamedTuple

from volcanoio.localcluster.controllers.conditions import find
from volcanoio.localcluster.controllers.jobs.policies import ruling, succeeded_early
from volcanoio.localcluster.controllers.jobs.tally import Tally
from volcanoio.localcluster.controllers.kinds import Workload
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.model.times import epoch

FAILURE_TARGET, CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"
FAILED, COMPLETE = "Failed", "Complete"
FINAL = {FAILURE_TARGET: FAILED, CRITERIA_MET: COMPLETE}
"""What a job becomes once none of its pods runs any more."""


class Verdict(NamedTuple):
    """The interim condition (FailureTarget or SuccessCriteriaMet), its reason and message."""

    type: str
    reason: str
    message: str


def final_condition(job: Workload) -> str | None:
    """Complete or Failed where it is over."""
    conditions = job.status.get("conditions") or ()
    return next((one["type"] for one in conditions if one["type"] in FINAL.values() and one["status"] == "True"), None)


def stored_verdict(job: Workload) -> Verdict | None:
    """What was decided earlier."""
    for type_ in (CRITERIA_MET, FAILURE_TARGET):
        known = find(job.status.get("conditions") or (), type_)
        if known is not None and known.get("status") == "True":
            return Verdict(type_, known.get("reason", ""), known.get("message", ""))
    return None


def deadline_of(job: Workload) -> float | None:
    """When (epoch seconds) the job has been active for too long."""
    seconds, start = job.spec.get("activeDeadlineSeconds"), epoch(job.status.get("startTime"))
    if seconds is None or start is None or job.spec.get("suspend"):
        return None
    return start + int(seconds)


def verdict(job: Workload, tally: Tally, now: float) -> Verdict | None:
    """What is decided now; None while it goes on. Failure is looked for first."""
    known = stored_verdict(job)
    if known is not None:
        return known
    for pod in tally.pods:
        if tally.is_failed(pod):
            found = ruling(job, pod)
            if found.action == "FailJob":
                return Verdict(FAILURE_TARGET, "PodFailurePolicy", found.message)
    if tally.failed > count(job.spec.get("backoffLimit"), 6) or _restarted_too_often(job, tally):
        return Verdict(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = deadline_of(job)
    if deadline is not None and deadline <= now:
        return Verdict(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _of_indexes(job, tally) or _by_count(tally)


def _of_indexes(job: Workload, tally: Tally) -> Verdict | None:
    if not tally.indexed:
        return None
    completions = tally.completions or 0
    if tally.by_index:
        lost, most = len(tally.failed_indexes), job.spec.get("maxFailedIndexes")
        if most is not None and lost > int(most):
            text = "Job has exceeded the specified maximal number of failed indexes"
            return Verdict(FAILURE_TARGET, "MaxFailedIndexesExceeded", text)
        if lost and lost + len(tally.completed) >= completions:
            return Verdict(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")
    early = succeeded_early(job, tally.completed, completions)
    return None if early is None else Verdict(CRITERIA_MET, "SuccessPolicy", early)


def _by_count(tally: Tally) -> Verdict | None:
    wanted = tally.completions
    done = tally.succeeded > 0 if wanted is None else tally.succeeded >= wanted
    if done and not tally.active:
        return Verdict(CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _restarted_too_often(job: Workload, tally: Tally) -> bool:
    """With restartPolicy OnFailure the restarts of containers count against the limit."""
    spec = (job.spec.get("template") or {}).get("spec") or {}
    if spec.get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in tally.pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = count(job.spec.get("backoffLimit"), 6)
    return restarts > 0 if not limit else restarts >= limit

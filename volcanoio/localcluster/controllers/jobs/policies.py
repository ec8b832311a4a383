"""What a job's rules say: podFailurePolicy of one failed pod, successPolicy of the indexes that succeeded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from volcanoio.localcluster.controllers.jobs.indexes import parsed
from volcanoio.localcluster.controllers.kinds import Workload
from volcanoio.model.core import ContainerStatus, Pod


class Ruling(NamedTuple):
    """What becomes of a failed pod: the action of the first rule that matches ("" when none does), and why."""

    action: str = ""
    message: str = ""


def ruling(job: Workload, pod: Pod) -> Ruling:
    """The first rule that matches a failed pod."""
    rules = (job.spec.get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        action = str(rule.get("action", ""))
        tail = f"matching {action} rule at index {number}"
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if rule.get("onExitCodes"):
            status = _exited(pod, rule["onExitCodes"])
            if status is not None and status.state.terminated is not None:
                code = status.state.terminated.exit_code
                return Ruling(action, f"Container {status.name} for pod {name} failed with exit code {code} {tail}")
        elif (condition := _condition(pod, rule.get("onPodConditions") or ())) is not None:
            return Ruling(action, f"Pod {name} has condition {condition} {tail}")
    return Ruling()


def _exited(pod: Pod, wanted: dict[str, Any]) -> ContainerStatus | None:
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
    """Why the job has succeeded though indexes are left; None when it has not."""
    if not completed:
        return None
    for number, rule in enumerate((job.spec.get("successPolicy") or {}).get("rules") or ()):
        wanted, least = rule.get("succeededIndexes"), rule.get("succeededCount")
        if wanted is None:
            met = least is not None and len(completed) >= int(least)
        else:
            named = parsed(wanted, completions)
            done = len(named & completed)
            met = bool(named) and (done == len(named) or (least is not None and done >= int(least)))
        if met:
            return f"Matched rules at index {number}"
    return None

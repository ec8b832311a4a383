"""`tasks[].dependsOn`: which tasks may be created now. Source: Volcano, job_controller_actions.go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.engine.jobs.ownership import task_of, tasks_by_name
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import Pod

ANY = "any"


def may_start(job: Job, task: TaskSpec, pods: Sequence[Pod]) -> bool:
    """Whether the tasks that this one depends on are ready: one of several with iteration `any`, else all.

    A dependency that the spec does not name never gets ready; admission refuses such a job.
    """
    depends = task.depends_on
    if depends is None or not depends.name:
        return True
    tasks = tasks_by_name(job)
    ready = [name in tasks and _is_ready(tasks[name], pods) for name in depends.name]
    return any(ready) if len(ready) > 1 and depends.iteration == ANY else all(ready)


def _is_ready(task: TaskSpec, pods: Iterable[Pod]) -> bool:
    """Whether as many of the task's pods as it needs succeeded or run with every container ready."""
    return task.min_available is None or task.min_available <= sum(
        1 for pod in pods if task_of(pod) == task.name and _counts(pod)
    )


def _counts(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return pod.status.phase == "Running" and all(status.ready for status in pod.status.container_statuses)

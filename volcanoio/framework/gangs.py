"""Which pods of a Job make up its gang. Source: Volcano, pkg/controllers/job/job_controller_actions.go."""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.model.batch import Job, TaskSpec


def priority_class_of(task: TaskSpec) -> str:
    """The priority class of the task's pods as the template names it."""
    return str((task.template.get("spec") or {}).get("priorityClassName") or "")


def members(job: Job, priorities: Mapping[str, int]) -> dict[str, int]:
    """How many pods of each task make up the `minAvailable` of the job, those of the highest priority class first.

    `priorities` are values of priority classes by name; equal ones keep the spec's order.
    """
    tasks = sorted(job.spec.tasks, key=lambda task: -priorities.get(priority_class_of(task), 0))
    minimum = job.spec.min_available
    if minimum < sum(task.min_available or 0 for task in tasks):
        taken = [0] * len(tasks)
    else:
        taken = []
        for task in tasks:
            taken.append(min(task.min_available or 0, minimum - sum(taken)))
    for place, task in enumerate(tasks):
        taken[place] += max(0, min(task.replicas - taken[place], minimum - sum(taken)))
    return {task.name: pods for task, pods in zip(tasks, taken, strict=True)}

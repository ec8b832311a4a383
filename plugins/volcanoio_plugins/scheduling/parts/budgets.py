"""How many running tasks a job can lose at once, by its annotations (Volcano: pkg/scheduler/plugins/tdm).

`volcano.sh/jdb-min-available` must stay; of a job without it `volcano.sh/jdb-max-unavailable` counts what is not
running already. Both are numbers or percentages of the job's tasks, rounded up; a job that says neither can lose one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio.model.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE

DEFAULT = 1


def losable(job: Job) -> int:
    """How many running tasks the job can lose now."""
    annotations, total = job.group.metadata.annotations, len(job.tasks)
    running = job.count(TaskStatus.RUNNING)
    if (least := _amount(annotations.get(JDB_MIN_AVAILABLE, ""), total)) is not None:
        return max(running - least, 0)
    if (most := _amount(annotations.get(JDB_MAX_UNAVAILABLE, ""), total)) is not None:
        unavailable = total - job.count(TaskStatus.SUCCEEDED, TaskStatus.FAILED) - running
        return max(most - unavailable, 0)
    return DEFAULT


def within_budgets(tasks: Iterable[Task], jobs: Mapping[str, Job]) -> list[Task]:
    """The first tasks of each job, as many as it can lose."""
    left: dict[str, int] = {}
    chosen = []
    for task in tasks:
        if (job := jobs.get(task.job)) is None:
            continue
        if (count := left.setdefault(task.job, losable(job))) > 0:
            left[task.job] = count - 1
            chosen.append(task)
    return chosen


def _amount(text: str, total: int) -> int | None:
    """A number, or a percentage of a total rounded up; None when it is neither."""
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit()):
        return None
    return ceil(int(digits) * total / 100) if digits != text else int(text)
